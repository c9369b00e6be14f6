package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestFixation: whatever cookie somebody has put into a browser beforehand, the one that a log-in gives it is new, and the other opens nothing: neither
// one that was made up nor that of the attacker's own session.
func TestFixation(t *testing.T) {
	t.Parallel()
	for name, planted := range map[string]func(*world) string{
		"made up":        func(*world) string { return strings.Repeat("ab", 32) },
		"the attacker's": func(w *world) string { return w.cookie },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, loopback)
			cookie := planted(w)
			visit := func(path string, more ...*http.Cookie) *http.Response {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, loopback+path, nil)
				for _, c := range append(more, &http.Cookie{Name: w.cookieName(sessionCookie), Value: cookie}) {
					r.AddCookie(c)
				}
				answer := httptest.NewRecorder()
				w.ServeHTTP(answer, r)
				return answer.Result()
			}
			begun := visit("/console/login")
			to, err := url.Parse(begun.Header.Get("Location"))
			if err != nil {
				t.Fatal(err)
			}
			ended := visit("/console/callback?code=x&state="+to.Query().Get("state"), begun.Cookies()...)
			given := ""
			for _, c := range ended.Cookies() {
				if c.Name == w.cookieName(sessionCookie) {
					given = c.Value
				}
			}
			if ended.StatusCode != http.StatusSeeOther || len(given) != 64 || given == cookie {
				t.Fatalf("%d, the cookie is %q", ended.StatusCode, given)
			}
			if answer := visit("/console/v4/profile"); answer.StatusCode != http.StatusUnauthorized {
				t.Errorf("the planted cookie opens something: %d", answer.StatusCode)
			}
			if cookie = given; visit("/console/v4/profile").StatusCode != http.StatusOK {
				t.Error("the cookie of the log-in opens nothing")
			}
		})
	}
}
