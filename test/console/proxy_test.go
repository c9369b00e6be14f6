package console

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"

	"steward/test/harness"
)

// TestBehindProxy reaches the console as docs/console.md has it for others than this machine: by TLS, through a proxy that hands on the name it
// was called by and who called.
func TestBehindProxy(t *testing.T) {
	t.Parallel()
	const caller = "203.0.113.7"
	var to *url.URL
	front := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("X-Forwarded-For", caller)
		},
	})
	origin := "https://" + front.Listener.Addr().String()
	s := harness.New(t, harness.WithConfig(fmt.Sprintf("console: {url: '%s'}\nserver: {trusted_proxies: [127.0.0.1]}", origin)))
	to = &url.URL{Scheme: "http", Host: s.Listen()}
	front.StartTLS()
	t.Cleanup(front.Close)
	w := &world{browser: newBrowser(t), server: s, origin: origin}

	if _, err := chromedp.Call(w.ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}); err != nil {
		t.Fatal(err)
	}
	link, err := s.Command("user", "link", "admin", "--data", s.Data, "--url", origin)
	if err != nil {
		t.Fatal(err, link)
	}
	w.do(t, visit(strings.TrimSpace(link)), fill("Password", password), fill("The same password again", password), press("Set the password"), see("Log in to steward"))
	form, err := chromedp.Call(w.ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{origin + "/oauth/authorize"}})
	if err != nil || len(form.Cookies) != 2 {
		t.Fatalf("%+v, %v", form, err)
	}
	for _, c := range form.Cookies {
		if !c.Secure || !c.HTTPOnly {
			t.Errorf("the log-in page's cookie %+v", c)
		}
	}
	w.do(t, logIn("admin", password), see("The first three steps"))
	cookies, err := chromedp.Call(w.ctx, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cookies.Cookies) != 1 || cookies.Cookies[0].Name != "__Host-steward" || !cookies.Cookies[0].Secure || !cookies.Cookies[0].HTTPOnly {
		t.Errorf("cookies %+v", cookies.Cookies)
	}
	// What others do comes through the proxy as it happens, and the log-in came from whom the proxy says.
	w.do(t, w.visit("/console/contacts"), see("Nobody is told yet."), run(`window.marked = true`))
	if status, body := s.Call("POST", "/v4/managed/contacts", map[string]any{"name": "Ann", "email": "ann@example.org"}, nil); status != http.StatusOK {
		t.Fatal(status, body)
	}
	w.do(t, see("ann@example.org"), until(`window.marked`), w.visit("/console/account/logins"), see(caller))
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	for at, want := range map[string]int{origin: http.StatusSeeOther, "http://" + s.Listen() + "/console/account": http.StatusSeeOther} { // to the console, and from another name to its own
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want || answer.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: %d %v", at, answer.StatusCode, answer.Header)
		}
	}
	w.quiet(t)
}
