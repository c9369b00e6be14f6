package app

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/api"
	"steward/internal/await"
	"steward/internal/catalog"
	"steward/internal/config"
	"steward/internal/control"
	"steward/internal/pgtest"
)

// TestTheStoreIsAwayFromTheConsole: a browser is told so in time, as whoever asks the API is, and keeps its session.
func TestTheStoreIsAwayFromTheConsole(t *testing.T) {
	t.Parallel()
	const origin = "http://127.0.0.1:8080"
	a := New(Options{Config: config.Default(), Out: io.Discard, Log: io.Discard})
	a.o.Console.Enabled, a.o.Console.URL = true, origin
	a.log, a.store = slog.New(slog.DiscardHandler), pgtest.Store(t)
	a.control = control.New(control.Deps{Store: a.store, Logger: a.log, PasswordCost: control.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1}})
	a.api = api.New(api.Options{
		Control: a.control, Catalog: &catalog.Catalog{Plans: catalog.DefaultPlans(), Regions: catalog.DefaultRegions()}, Logger: a.log, Ready: a.store.Ping, Origin: "*", StoreTime: 300 * time.Millisecond, ConsoleRedirect: a.consoleRedirect(), FirstLink: a.firstLink(),
	})
	if err := a.openConsole(); err != nil {
		t.Fatal(err)
	}
	front := a.front()
	ask := func(method, path, body string, cookies ...*http.Cookie) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), method, origin+path, strings.NewReader(body))
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		return w.Result()
	}
	session := &http.Cookie{Name: "steward", Value: strings.Repeat("ab", 32)}
	begun := ask("GET", "/console/login", "")
	to, err := begun.Location()
	if err != nil {
		t.Fatal(err)
	}
	callback := "/console/callback?code=" + strings.Repeat("0", 64) + "&state=" + to.Query().Get("state")
	away := func(r *http.Response, path string) {
		t.Helper()
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "5" || len(r.Cookies()) > 0 && path != callback {
			text, _ := io.ReadAll(r.Body)
			t.Errorf("%s: %d %v %s", path, r.StatusCode, r.Header, text)
		}
	}
	pgtest.Locked(t, a.store, "console_sessions, login_links, authorization_codes", "ACCESS EXCLUSIVE", func() {
		for _, path := range []string{"/console/v4/profile", "/console/v4/account/events/stream", "/console/v4/monitor/services/dbaas/prometheus-sd"} {
			away(ask("GET", path, "", session), path)
		}
		away(ask("POST", "/console/confirm", `{"password":"right"}`, session), "/console/confirm")
		away(ask("POST", "/console/first", `{"link":"`+strings.Repeat("0", 64)+`","password":"a good password of one"}`), "/console/first")
		away(ask("GET", callback, "", begun.Cookies()...), callback)
	})
	// On a busy machine a store that is well can be late, too.
	await.True(t, "a session that isn't there is refused afterwards", func() bool {
		return ask("GET", "/console/v4/profile", "", session).StatusCode == http.StatusUnauthorized
	})
}
