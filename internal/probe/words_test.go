package probe

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"steward/internal/monitor"
	"steward/internal/testdir"
)

// itself is what the other side says of itself, wherever it can say something.
const itself = "db7.internal pid 4711 /var/lib/peer"

// TestResultsRepeatNothingOfTheOtherSide: a check can be pointed, by a redirect as
// well, at programs that aren't the customer's. Whatever these say, and wherever
// they are, the result is in our own words.
func TestResultsRepeatNothingOfTheOtherSide(t *testing.T) {
	t.Parallel()
	named := sign(t, nil, func(c *x509.Certificate) {
		c.Subject, c.DNSNames, c.IPAddresses = pkix.Name{CommonName: itself}, []string{"db7.internal"}, nil
	})
	roots := x509.NewCertPool()
	roots.AddCert(named.certificate)
	p := New(Options{Networks: local(), Roots: roots, UserAgent: "steward/test"})
	say := func(text string) string {
		return "http://" + testdir.ServeLocally(t, func(c net.Conn) { request(c); io.WriteString(c, text) })
	}
	leadTo := func(to string) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
	}
	free := testdir.ServeLocally(t, func(net.Conn) {})
	tlsServer, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{named.certificate.Raw}, PrivateKey: named.key}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tlsServer.Close() })
	go func() {
		for {
			c, err := tlsServer.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	refused := testdir.Refused(t)
	for name, test := range map[string]struct {
		address string
		class   monitor.Class
	}{
		"status line":                  {say("HTTP/1.1 500 " + itself + "\r\n\r\n"), monitor.BadStatus},
		"no HTTP":                      {say(itself + "\r\n"), monitor.Protocol},
		"a header":                     {say(ok + "Content-Encoding: " + itself + "\r\n\r\n"), monitor.Protocol},
		"a broken header":              {say(ok + itself + "\r\n\r\n"), monitor.Protocol},
		"a length":                     {say(ok + "Content-Length: " + itself + "\r\n\r\n"), monitor.Protocol},
		"the body":                     {say(ok + "\r\n" + itself), monitor.TextNotFound},
		"what is said first":           {testdir.ServeLocally(t, func(c net.Conn) { io.WriteString(c, itself) }), monitor.TextNotFound},
		"a certificate":                {"https://" + tlsServer.Addr().String(), monitor.TLS},
		"no TLS":                       {"https://" + testdir.ServeLocally(t, func(c net.Conn) { io.WriteString(c, itself); hang(c) }), monitor.TLS},
		"a redirect to what is no URL": {leadTo("gopher://db7.internal/4711"), monitor.BadRedirect},
		"a redirect to what says it":   {leadTo(say("HTTP/1.1 500 " + itself + "\r\n\r\n")), monitor.BadStatus},
		"a redirect to nobody":         {leadTo("http://" + refused + "/var/lib/peer"), monitor.Refused},
		"a redirect to metadata":       {leadTo("http://169.254.169.254/var/lib/peer"), monitor.Blocked},
		"nobody":                       {refused, monitor.Refused},
		"who hangs up":                 {"http://" + free, monitor.Reset},
	} {
		t.Run(name, func(t *testing.T) {
			r := p.Check(t.Context(), here(t, test.address, "well"))
			if r.Class != test.class || r.Detail == "" {
				t.Errorf("%s, %q", r.Class, r.Detail)
			}
			for _, word := range []string{"db7", "internal", "pid", "4711", "/var", "peer", "127.0", "169.254", "gopher", "dial", "read tcp"} {
				if strings.Contains(r.Detail, word) {
					t.Errorf("customers are shown %q: %s", word, r.Detail)
				}
			}
		})
	}
}
