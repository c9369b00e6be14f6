package probe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"steward/internal/monitor"
	"steward/internal/testdir"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// sign makes a certificate for 127.0.0.1 for an hour around now, as change has it;
// nil parent: of its own.
func sign(t *testing.T, parent *authority, change func(*x509.Certificate)) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: t.Name()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	change(certificate)
	by := parent
	if by == nil {
		by = &authority{certificate, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, by.certificate, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	if certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	anAuthority := func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign }
	root := sign(t, nil, anAuthority)
	soon := time.Now().Add(30 * time.Minute).UTC().Truncate(time.Second)
	between := sign(t, root, func(c *x509.Certificate) { anAuthority(c); c.NotAfter = soon })
	roots := x509.NewCertPool()
	roots.AddCert(root.certificate)
	p := New(Options{Networks: local(), Roots: roots, UserAgent: "steward/test"})
	as := func(change func(*x509.Certificate)) *authority { return sign(t, root, change) }
	for name, test := range map[string]struct {
		shown  []*authority
		config *tls.Config
		class  monitor.Class
		detail string
	}{
		"trusted":                 {[]*authority{as(func(*x509.Certificate) {})}, &tls.Config{}, monitor.OK, ""},
		"trusted over another":    {[]*authority{sign(t, between, func(*x509.Certificate) {}), between}, &tls.Config{}, monitor.OK, ""},
		"expired":                 {[]*authority{as(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })}, &tls.Config{}, monitor.TLS, "The certificate has expired."},
		"not valid yet":           {[]*authority{as(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })}, &tls.Config{}, monitor.TLS, "The certificate is not valid yet."},
		"for another address":     {[]*authority{as(func(c *x509.Certificate) { c.IPAddresses[0] = net.IPv4(127, 0, 0, 9) })}, &tls.Config{}, monitor.TLS, "The certificate is for another host name."},
		"for a name":              {[]*authority{as(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"example.com"} })}, &tls.Config{}, monitor.TLS, "The certificate is for another host name."},
		"by an unknown authority": {[]*authority{sign(t, nil, func(*x509.Certificate) {})}, &tls.Config{}, monitor.TLS, "The certificate was signed by an unknown authority."},
		"without what is between": {[]*authority{sign(t, between, func(*x509.Certificate) {})}, &tls.Config{}, monitor.TLS, "The certificate was signed by an unknown authority."},
		"not for servers":         {[]*authority{as(func(c *x509.Certificate) { c.ExtKeyUsage[0] = x509.ExtKeyUsageClientAuth })}, &tls.Config{}, monitor.TLS, "The certificate is not valid for a server."},
		"wants a certificate":     {[]*authority{as(func(*x509.Certificate) {})}, &tls.Config{ClientAuth: tls.RequireAnyClientCert}, monitor.TLS, "The server ended TLS with an alert."},
		"an old version":          {[]*authority{as(func(*x509.Certificate) {})}, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, monitor.TLS, "The server ended TLS with an alert."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expiry, chain := time.Time{}, tls.Certificate{PrivateKey: test.shown[0].key}
			for _, a := range test.shown {
				chain.Certificate = append(chain.Certificate, a.certificate.Raw)
				if expiry.IsZero() || a.certificate.NotAfter.Before(expiry) {
					expiry = a.certificate.NotAfter
				}
			}
			test.config.Certificates = []tls.Certificate{chain}
			l, err := tls.Listen("tcp", "127.0.0.1:0", test.config)
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{ReadHeaderTimeout: patience, ErrorLog: discard, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "all is well") })}
			done := make(chan struct{})
			go func() { defer close(done); s.Serve(l) }()
			t.Cleanup(func() { s.Close(); <-done })
			r := p.Check(t.Context(), here(t, "https://"+l.Addr().String(), "well"))
			found(t, r, test.class, test.detail)
			if name != "an old version" && !r.CertificateExpiry.Equal(expiry) {
				t.Errorf("expires %s, want %s", r.CertificateExpiry, expiry)
			}
		})
	}
	for name, test := range map[string]struct {
		server func(net.Conn)
		class  monitor.Class
		detail string
	}{
		"plain HTTP":            {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); hang(c) }, monitor.TLS, "The server does not speak TLS there."},
		"closed":                {func(c net.Conn) { c.Read(make([]byte, 4096)) }, monitor.Reset, "The connection was closed during the TLS handshake."},
		"reset":                 {func(c net.Conn) { c.Read(make([]byte, 1)); c.(*net.TCPConn).SetLinger(0) }, monitor.Reset, "The connection was closed during the TLS handshake."},
		"nonsense in a record":  {func(c net.Conn) { io.WriteString(c, "\x16\x03\x03\x00\x04nope"); hang(c) }, monitor.TLS, "TLS could not be agreed on."},
		"endless empty records": {func(c net.Conn) { until(c, 0, "\x16\x03\x03\x00\x00") }, monitor.TLS, "TLS could not be agreed on."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found(t, p.Check(t.Context(), here(t, "https://"+testdir.ServeLocally(t, test.server), "")), test.class, test.detail)
		})
	}
}
