package probe

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"steward/internal/await"
	"steward/internal/monitor"
)

func TestRedirects(t *testing.T) {
	t.Parallel()
	p := prober(t)
	secure := serveTLS(t, true, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/down":
			w.Header().Set("Location", "http://"+r.Host+"/")
			w.WriteHeader(http.StatusFound)
		case "/on":
			http.Redirect(w, r, "/", http.StatusSeeOther)
		}
		io.WriteString(w, "all is well")
	})
	plain := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" || r.Header.Get("Referer") != "" || r.Header.Get("Authorization") != "" {
			t.Errorf("%v", r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"}) //nolint:gosec // it must not come back
		switch status, left, _ := strings.Cut(r.URL.Path[1:], "/"); {
		case left == "0":
			io.WriteString(w, "all is well, "+r.URL.RawQuery)
		case left != "":
			n, _ := strconv.Atoi(left)
			code, _ := strconv.Atoi(status)
			w.Header().Set("Location", fmt.Sprintf("%d?step=%d#part", n-1, n-1))
			w.WriteHeader(code)
			io.WriteString(w, "well hidden")
		case status == "up":
			w.Header().Set("Location", secure+"/on")
			w.WriteHeader(http.StatusPermanentRedirect)
		case status == "loop":
			w.Header().Set("Location", "/loop")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case status == "away":
			w.Header().Set("Location", "http://user:secret@"+r.Host+"/301/0")
			w.WriteHeader(http.StatusFound)
		case status == "error":
			w.Header().Set("Location", "/302/0")
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	for name, test := range map[string]struct {
		address, wanted string
		class           monitor.Class
		detail          string
		status          int
	}{
		"301":               {plain + "/301/1", "step=0", monitor.OK, "", 200},
		"302":               {plain + "/302/1", "step=0", monitor.OK, "", 200},
		"303":               {plain + "/303/1", "step=0", monitor.OK, "", 200},
		"307":               {plain + "/307/1", "step=0", monitor.OK, "", 200},
		"308":               {plain + "/308/1", "step=0", monitor.OK, "", 200},
		"300 isn't one":     {plain + "/300/1", "well hidden", monitor.OK, "", 300},
		"five":              {plain + "/302/5", "well", monitor.OK, "", 200},
		"six":               {plain + "/302/6", "", monitor.BadRedirect, "There are more than 5 redirects.", 302},
		"a loop":            {plain + "/loop", "", monitor.BadRedirect, "There are more than 5 redirects.", 307},
		"body of the last":  {plain + "/302/1", "hidden", monitor.TextNotFound, "After a redirect: The expected text isn't in the answer.", 200},
		"to https":          {plain + "/up", "all is well", monitor.OK, "", 200},
		"to http":           {secure + "/down", "", monitor.BadRedirect, "A redirect leads from https to http.", 302},
		"with a user":       {plain + "/away", "well", monitor.OK, "", 200},
		"an error with one": {plain + "/error", "", monitor.BadStatus, "The answer has status 502.", 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := p.Check(t.Context(), here(t, test.address, test.wanted))
			if found(t, r, test.class, test.detail); r.Status != test.status {
				t.Errorf("status %d, want %d", r.Status, test.status)
			}
			if (name == "to https" || name == "to http") == r.CertificateExpiry.IsZero() {
				t.Errorf("the certificate expires %s", r.CertificateExpiry)
			}
		})
	}
}

// TestNewConnections: each look, and each hop of it, makes a connection of its
// own, and none is left.
func TestNewConnections(t *testing.T) {
	t.Parallel()
	p := prober(t)
	for name, h2 := range map[string]bool{"http/1.1": false, "http/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened, open atomic.Int32
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor == 2 != h2 {
					t.Errorf("asked by %s", r.Proto)
				}
				if r.URL.Path == "/" {
					http.Redirect(w, r, "/there", http.StatusFound)
				}
			}))
			s.EnableHTTP2 = h2
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					opened.Add(1)
					open.Add(1)
				case http.StateClosed:
					open.Add(-1)
				}
			}
			s.StartTLS()
			defer s.Close()
			for range 3 {
				found(t, p.Check(t.Context(), here(t, s.URL, "")), monitor.OK, "")
			}
			await.True(t, "all connections to end", func() bool { return open.Load() == 0 })
			if n := opened.Load(); n != 6 {
				t.Errorf("%d connections for three looks with a redirect each, want 6", n)
			}
		})
	}
}
