package probe

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"steward/internal/monitor"
	"steward/internal/testdir"
)

func TestURL(t *testing.T) {
	t.Parallel()
	p := prober(t)
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.UserAgent() != "steward/test" || r.Method != http.MethodGet || r.Header.Get("Cookie") != "" || r.Host == "" {
				t.Errorf("%s %s %v", r.Method, r.Host, r.Header)
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	for _, test := range []struct {
		status       int
		body, wanted string
		class        monitor.Class
		detail       string
	}{
		{200, "", "", monitor.OK, ""},
		{204, "", "", monitor.OK, ""},
		{304, "", "", monitor.OK, ""},
		{399, "", "", monitor.OK, ""},
		{301, "a redirect to nowhere", "nowhere", monitor.OK, ""},
		{200, "all is well", "well", monitor.OK, ""},
		{200, "all is well", "Well", monitor.TextNotFound, "The expected text isn't in the answer."},
		{200, "", "well", monitor.TextNotFound, "The expected text isn't in the answer."},
		{204, "", "well", monitor.TextNotFound, "The expected text isn't in the answer."},
		{400, "well", "", monitor.BadStatus, "The answer has status 400."},
		{404, "well", "well", monitor.BadStatus, "The answer has status 404."},
		{503, "", "", monitor.BadStatus, "The answer has status 503."},
	} {
		for name, start := range map[string]func(*testing.T, http.HandlerFunc) string{
			"http":   serve,
			"https":  func(t *testing.T, h http.HandlerFunc) string { return serveTLS(t, false, h) },
			"http/2": func(t *testing.T, h http.HandlerFunc) string { return serveTLS(t, true, h) },
		} {
			t.Run(fmt.Sprintf("%s %d %s", name, test.status, test.wanted), func(t *testing.T) {
				t.Parallel()
				r := p.Check(t.Context(), here(t, start(t, answer(test.status, test.body)), test.wanted))
				found(t, r, test.class, test.detail)
				if r.Status != test.status || r.CertificateExpiry.IsZero() != (name == "http") || r.Good() != (test.class == monitor.OK) {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6")
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) }))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	found(t, prober(t).Check(t.Context(), here(t, "http://"+l.Addr().String(), l.Addr().String())), monitor.OK, "")
	found(t, prober(t).Check(t.Context(), here(t, l.Addr().String(), "")), monitor.OK, "")
}

// TestAsksAsGiven: path and query come to the server as the customer wrote them.
func TestAsksAsGiven(t *testing.T) {
	t.Parallel()
	p := prober(t)
	for _, url := range []string{serve(t, echo), serveTLS(t, true, echo)} {
		for target, want := range map[string]string{
			"":                     "GET /",
			"/":                    "GET /",
			"?a=b":                 "GET /?a=b",
			"/a%2Fb/../c;d?e=%20&": "GET /a%2Fb/../c;d?e=%20&",
			"/ä?ö":                 "GET /%C3%A4?%C3%B6",
			"/?":                   "GET /?",
			"//b":                  "GET //b",
		} {
			r := p.Check(t.Context(), here(t, url+target, want+"\n"))
			if !r.Good() {
				t.Errorf("%s%s: %s", url, target, r.Detail)
			}
		}
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s\n", r.Method, r.RequestURI)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	found(t, prober(t).Check(t.Context(), here(t, "http://"+testdir.Refused(t), "")), monitor.Refused, "The connection was refused.")
}
