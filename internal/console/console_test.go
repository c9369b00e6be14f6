package console

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// memory keeps sessions as the store does.
type memory struct {
	mu    sync.Mutex
	now   func() time.Time
	all   map[[32]byte]Session
	made  map[[32]byte]time.Time
	claim map[[32]byte]time.Time
}

func (m *memory) Open(_ context.Context, s Session, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Version, s.Used, s.Confirmed = 1, m.now(), m.now()
	m.all[s.Hash], m.made[s.Hash] = s, m.now()
	return nil
}

func (m *memory) Find(_ context.Context, hash [32]byte, idle, oldest time.Time) (Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, known := m.all[hash]
	if !known || !s.Used.After(idle) || !m.made[hash].After(oldest) {
		return Session{}, ErrNoSession
	}
	return s, nil
}

func (m *memory) change(hash [32]byte, f func(*Session) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, known := m.all[hash]
	if !known || !f(&s) {
		return false
	}
	m.all[hash] = s
	return true
}

func (m *memory) Use(_ context.Context, hash [32]byte) error {
	m.change(hash, func(s *Session) bool { s.Used = m.now(); return true })
	return nil
}

func (m *memory) Confirm(_ context.Context, hash [32]byte) error {
	m.change(hash, func(s *Session) bool { s.Confirmed = m.now(); return true })
	return nil
}

func (m *memory) Claim(_ context.Context, hash [32]byte, version int64, stale time.Time) (bool, error) {
	return m.change(hash, func(s *Session) bool {
		if s.Version != version || m.claim[hash].After(stale) {
			return false
		}
		m.claim[hash] = m.now()
		return true
	}), nil
}

func (m *memory) Release(_ context.Context, hash [32]byte, _ int64) error {
	m.change(hash, func(*Session) bool { delete(m.claim, hash); return true })
	return nil
}

func (m *memory) Renew(_ context.Context, hash [32]byte, version int64, sealed []byte) error {
	if !m.change(hash, func(s *Session) bool {
		delete(m.claim, hash)
		same := s.Version == version
		s.Version, s.Sealed = version+1, sealed
		return same
	}) {
		return ErrNoSession
	}
	return nil
}

func (m *memory) End(_ context.Context, hash [32]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, hash)
	return nil
}

// server is an API that gives out tokens, each refresh token once.
type server struct {
	mu        sync.Mutex
	n         int
	live      map[string]bool // access tokens
	refresh   map[string]bool
	exchanges int
	misused   int
	revoked   int
	broken    int // the status of exchanges, if any
	seen      []*http.Request
}

func (s *server) pair() (access, refresh string) {
	s.n++
	access, refresh = fmt.Sprintf("access%d", s.n), fmt.Sprintf("refresh%d", s.n)
	s.live[access], s.refresh[refresh] = true, true
	return access, refresh
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path == "/oauth/revoke":
		s.revoked++
		token := r.FormValue("token")
		delete(s.live, "access"+strings.TrimPrefix(token, "refresh"))
		delete(s.refresh, token)
	case r.URL.Path == "/oauth/token" && s.broken != 0:
		w.WriteHeader(s.broken)
		fmt.Fprint(w, `{"error":"server_error"}`)
	case r.URL.Path == "/oauth/token":
		s.exchanges++
		if old := r.FormValue("refresh_token"); r.FormValue("grant_type") == "refresh_token" {
			if !s.refresh[old] {
				s.misused++
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"error":"invalid_grant"}`)
				return
			}
			clear(s.live)
			s.refresh[old] = false
		}
		access, refresh := s.pair()
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": access, "refresh_token": refresh, "expires_in": 7200})
	default:
		s.seen = append(s.seen, r)
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if !s.live[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"errors":[{"reason":"Invalid Token"}]}`)
			return
		}
		w.Header().Set("Cache-Control", "private, no-cache")
		if conn, _, err := hijack(w, r); err == nil {
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n")
			_ = w.Header().Write(conn)
			fmt.Fprint(conn, "Connection: close\r\n\r\nfollowed")
			return
		}
		fmt.Fprint(w, `{"ok":true}`)
	}
}

// hijack takes over the connections of those who follow events.
func hijack(w http.ResponseWriter, r *http.Request) (net.Conn, *bufio.ReadWriter, error) {
	if r.URL.Path != "/v4/account/events/stream" {
		return nil, nil, http.ErrNotSupported
	}
	return http.NewResponseController(w).Hijack()
}

// Confirm implements Users.
func (s *server) Confirm(_ context.Context, _, password, _ string) error {
	if password != "right" {
		return &Refusal{Status: http.StatusForbidden, Field: "password", Reason: "wrong"}
	}
	return nil
}

// SetFirst implements Users.
func (s *server) SetFirst(context.Context, string, string, string) error { return nil }

// world is a console with a session, at a time that the test sets.
type world struct {
	*Console
	server *server
	memory *memory
	at     *time.Time
	cookie string
}

func newWorld(t *testing.T, origin string) *world {
	t.Helper()
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	w := &world{
		server: &server{live: map[string]bool{}, refresh: map[string]bool{}}, at: &at,
		memory: &memory{now: now, all: map[[32]byte]Session{}, made: map[[32]byte]time.Time{}, claim: map[[32]byte]time.Time{}},
	}
	w.Console = w.another(t, origin)
	w.cookie = newSecret()
	key, hash, err := keyOf(w.cookie)
	if err != nil {
		t.Fatal(err)
	}
	access, refresh := w.server.pair()
	sealed, err := seal(key, hash, tokens{access, refresh, at.Add(2 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.memory.Open(t.Context(), Session{Hash: hash, Sealed: sealed}, access); err != nil {
		t.Fatal(err)
	}
	return w
}

// another is one more server of the same store.
func (w *world) another(t *testing.T, origin string) *Console {
	t.Helper()
	c, err := New(Options{API: w.server, Origin: origin, ClientID: "console", Sessions: w.memory, Users: w.server, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return *w.at }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) ask(c *Console, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, c.Origin+path, strings.NewReader(body))
	r.AddCookie(&http.Cookie{Name: c.cookieName(sessionCookie), Value: w.cookie})
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	c.ServeHTTP(answer, r)
	return answer
}

const loopback = "http://127.0.0.1:8080"

// TestRenewsOnce: of many requests at once, on two servers, whose token has ended, one
// renews it. A second use of the refresh token would end the session.
func TestRenewsOnce(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*world){
		"ended by time": func(w *world) { *w.at = w.at.Add(2 * time.Hour) },
		"taken back":    func(w *world) { clear(w.server.live) },
		"about to end":  func(w *world) { *w.at = w.at.Add(2*time.Hour - early) },
		"another's turn": func(w *world) {
			clear(w.server.live)
			w.server.exchanges--
			w.ask(w.Console, "GET", "/console/v4/profile", "")
			clear(w.server.live)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, loopback)
			spoil(w)
			consoles := []*Console{w.Console, w.another(t, loopback)}
			var running sync.WaitGroup
			for i := range 40 {
				running.Go(func() {
					if answer := w.ask(consoles[i%2], "GET", "/console/v4/profile", ""); answer.Code != http.StatusOK {
						t.Errorf("%d %s", answer.Code, answer.Body)
					}
				})
			}
			running.Wait()
			if w.server.exchanges != 1 || w.server.misused != 0 {
				t.Errorf("%d exchanges, %d of used tokens", w.server.exchanges, w.server.misused)
			}
		})
	}
}

// TestRenewalFails: a server that can't renew just now ends no session; one that won't does.
func TestRenewalFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, loopback)
	*w.at = w.at.Add(3 * time.Hour)
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		w.server.broken = status
		answer := w.ask(w.Console, "GET", "/console/v4/profile", "")
		if answer.Code != status || (answer.Header().Get("Retry-After") == "5") != (status == http.StatusServiceUnavailable) {
			t.Errorf("refused with %d: %d %v %s", status, answer.Code, answer.Header(), answer.Body)
		}
	}
	w.server.broken = 0
	if answer := w.ask(w.Console, "GET", "/console/v4/profile", ""); answer.Code != http.StatusOK {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	clear(w.server.live)
	clear(w.server.refresh)
	answer := w.ask(w.Console, "GET", "/console/v4/profile", "")
	if answer.Code != http.StatusUnauthorized || answer.Header().Get("Set-Cookie") != "" || len(w.memory.all) != 0 {
		t.Errorf("%d %v, %d sessions", answer.Code, answer.Header(), len(w.memory.all))
	}
}

// TestRefusedLate: what another tab asked with a session that ended doesn't end the one that was begun meanwhile: the answer may come after its cookie.
func TestRefusedLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, loopback)
	if answer := w.ask(w.Console, "POST", "/console/logout", ""); answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body)
	}
	for _, path := range []string{"/console/v4/profile", "/console/v4/account/events/stream"} {
		answer := w.ask(w.Console, "GET", path, "")
		if answer.Code != http.StatusUnauthorized || len(answer.Header().Values("Set-Cookie")) > 0 {
			t.Errorf("%s: %d %v", path, answer.Code, answer.Header())
		}
	}
	w.cookie = ""
	if answer := w.ask(w.Console, "GET", "/console/v4/profile", ""); answer.Code != http.StatusUnauthorized || len(answer.Header().Values("Set-Cookie")) > 0 {
		t.Errorf("without a cookie: %d %v", answer.Code, answer.Header())
	}
}

// TestAbandonedClaim: who died while renewing holds up others for a bounded time.
func TestAbandonedClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, loopback)
	_, hash, _ := keyOf(w.cookie)
	if mine, err := w.memory.Claim(t.Context(), hash, 1, w.at.Add(-renewing)); !mine || err != nil {
		t.Fatal(mine, err)
	}
	*w.at = w.at.Add(2*time.Hour + renewing)
	if answer := w.ask(w.Console, "GET", "/console/v4/profile", ""); answer.Code != http.StatusOK {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

// TestSessionEnds: without use after twelve hours, and after thirty days in any case. What
// nobody asked for is no use.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, loopback)
	status := func(after time.Duration, headers ...string) int {
		*w.at = w.at.Add(after)
		return w.ask(w.Console, "GET", "/console/v4/profile", "", headers...).Code
	}
	for range 100 { // fifty days in use
		if *w.at = w.at.Add(11 * time.Hour); w.at.Sub(w.memory.made[slices.Collect(maps.Keys(w.memory.made))[0]]) >= Lifetime {
			break
		}
		if got := status(0); got != http.StatusOK {
			t.Fatalf("in use, %d", got)
		}
	}
	if got := status(0); got != http.StatusUnauthorized {
		t.Errorf("after thirty days, %d", got)
	}
	w = newWorld(t, loopback)
	for range 11 {
		if got := status(time.Hour, backgroundHeader, "1"); got != http.StatusOK {
			t.Fatalf("in the background, %d", got)
		}
	}
	if got := status(time.Hour+time.Second, backgroundHeader, "1"); got != http.StatusUnauthorized {
		t.Errorf("unused for twelve hours, %d", got)
	}
}

// TestConfirm: the password of the last quarter of an hour is asked for.
func TestConfirm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, loopback)
	const credentials = "/console/v4/databases/postgresql/instances/1/credentials"
	if answer := w.ask(w.Console, "GET", credentials, ""); answer.Code != http.StatusOK {
		t.Errorf("just logged in: %d", answer.Code)
	}
	*w.at = w.at.Add(Confirmed)
	if answer := w.ask(w.Console, "GET", credentials, ""); answer.Code != http.StatusForbidden || answer.Header().Get(confirmHeader) == "" {
		t.Errorf("later: %d %v", answer.Code, answer.Header())
	}
	asked := len(w.server.seen)
	if answer := w.ask(w.Console, "POST", "/console/confirm", `{"password":"wrong"}`); answer.Code != http.StatusForbidden {
		t.Errorf("a wrong password: %d", answer.Code)
	}
	if answer := w.ask(w.Console, "GET", credentials, ""); answer.Code != http.StatusForbidden || len(w.server.seen) != asked {
		t.Errorf("after a wrong password: %d", answer.Code)
	}
	if answer := w.ask(w.Console, "POST", "/console/confirm", `{"password":"right"}`); answer.Code != http.StatusOK {
		t.Errorf("the right password: %d", answer.Code)
	}
	if answer := w.ask(w.Console, "GET", credentials, ""); answer.Code != http.StatusOK {
		t.Errorf("after it: %d", answer.Code)
	}
}

func TestWhatIsConfirmed(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]bool{
		"GET /v4/databases/mysql/instances/7/credentials":                      true,
		"POST /v4/databases/postgresql/instances/7/credentials/reset":          true,
		"POST /v4/databases/postgresql/instances/7/restore":                    true,
		"POST /v4/databases/mysql/instances/7/restore/undo":                    true,
		"GET /v4/databases/postgresql/instances/7/restore-windows":             false,
		"POST /v4/databases/mysql/instances/7/users":                           true,
		"POST /v4/databases/mysql/instances/7/users/ann/credentials/reset":     true,
		"PUT /v4/databases/mysql/instances/7/users/ann":                        true,
		"GET /v4/databases/mysql/instances/7/users":                            false,
		"DELETE /v4/databases/postgresql/instances/7":                          true,
		"DELETE /v4/databases/postgresql/instances/7/backups/3":                true,
		"POST /v4/databases/postgresql/instances/7/backups/3/restore":          true,
		"POST /v4/profile/tokens":                                              true,
		"DELETE /v4/profile/tokens/1":                                          true,
		"POST /v4/profile/tfa-enable":                                          true,
		"POST /v4/profile/tfa-enable-confirm":                                  true,
		"POST /v4/profile/tfa-disable":                                         true,
		"DELETE /v4/profile/apps/1":                                            true,
		"POST /v4/databases/postgresql/instances/7/restore/undo":               true,
		"POST /v4/databases/postgresql/instances/7/suspend":                    false,
		"POST /v4/managed/credentials/1/revoke":                                true,
		"POST /v4/managed/credentials":                                         false,
		"GET /v4/managed/credentials/1":                                        false,
		"POST /v4/monitor/services/dbaas/token":                                true,
		"POST /v4/account/oauth-clients":                                       true,
		"PUT /v4/account/oauth-clients/636f6e736f6c65000000":                   true,
		"GET /v4/account/oauth-clients":                                        false,
		"POST /v4/account/oauth-clients/636f6e736f6c65000000/reset-secret":     true,
		"POST /v4/account/oauth-clients/636f6e736f6c65000000/reset_secret":     true,
		"PUT /v4/account/users/ann/grants":                                     true,
		"POST /v4/monitor/alert-channels":                                      true,
		"PUT /v4/monitor/alert-channels/1001":                                  true,
		"POST /v4/monitor/alert-channels/1001/test":                            false,
		"DELETE /v4/managed/services/1":                                        true,
		"POST /v4/operator/accounts":                                           true,
		"PUT /v4/operator/accounts/acme":                                       true,
		"POST /v4/operator/accounts/acme/first-user":                           true,
		"GET /v4/operator/accounts":                                            false,
		"POST /v4/operator/notices/retry":                                      false,
		"DELETE /v4/databases/postgresql/instances/7/queries/running/0-1-2":    false,
		"GET /v4/databases/postgresql/instances/7":                             false,
		"PUT /v4/databases/postgresql/instances/7":                             false,
		"POST /v4/databases/postgresql/instances":                              false,
		"GET /v4/profile/tokens":                                               false,
		"DELETE /v4/databases/postgresql/instances/7/queries/running/../../..": true,
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := confirms(method, path); got != want {
			t.Errorf("%s: %v", request, got)
		}
	}
}

// TestSealed: a session opens with its own cookie, in its own row.
func TestSealed(t *testing.T) {
	t.Parallel()
	key, hash, err := keyOf(newSecret())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal(key, hash, tokens{Access: "a", Refresh: "r"})
	if err != nil || bytes.Contains(sealed, []byte("access")) {
		t.Fatal(err, sealed)
	}
	if got, err := unseal(key, Session{Hash: hash, Sealed: sealed}); err != nil || got.Refresh != "r" {
		t.Error(got, err)
	}
	otherKey, otherHash, _ := keyOf(newSecret())
	for name, try := range map[string]func() (tokens, error){
		"another key": func() (tokens, error) { return unseal(otherKey, Session{Hash: hash, Sealed: sealed}) },
		"another row": func() (tokens, error) { return unseal(key, Session{Hash: otherHash, Sealed: sealed}) },
		"nothing":     func() (tokens, error) { return unseal(key, Session{Hash: hash}) },
	} {
		if got, err := try(); err == nil {
			t.Errorf("%s opens it: %+v", name, got)
		}
	}
	for _, text := range []string{"", "x", strings.Repeat("z", 64), strings.Repeat("a", 66)} {
		if _, _, err := keyOf(text); err == nil {
			t.Errorf("%q is a cookie", text)
		}
	}
}

func TestOwnPages(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/console/databases":          "/console/databases",
		"/console/databases?x=1#y":    "/console/databases",
		"":                            "/console/",
		"//evil.example/console/":     "/console/",
		"https://evil.example/":       "/console/",
		"/\\evil.example":             "/console/",
		"/console/\\\\evil.example":   "/console/",
		"/console/../oauth/authorize": "/console/",
		"/console/logout":             "/console/",
		"/oauth/authorize":            "/console/",
		"javascript:alert(1)":         "/console/",
	} {
		if got := own(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}

// TestHeaders: what the browser is told holds for every answer; behind TLS the cookies are
// this host's alone.
func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "https://steward.example.org")
	for _, path := range []string{"/console/", "/console/login", "/console/v4/profile", "/console/v4/nothing/../x", "/console/nothing.js", "/console/assets/nothing", "/"} {
		h := w.ask(w.Console, "GET", path, "").Header()
		if h.Get("Content-Security-Policy") != policy || h.Get("Cache-Control") != "no-store" || h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "no-referrer" ||
			h.Get("Strict-Transport-Security") == "" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
	if got := w.ask(w.Console, "GET", "/console/v4/profile", ""); got.Code != http.StatusOK {
		t.Errorf("%d", got.Code)
	}
	set := w.ask(w.Console, "GET", "/console/login", "").Header().Get("Set-Cookie")
	for _, want := range []string{"__Host-steward-login-", "; Path=/", "; HttpOnly", "; Secure", "; SameSite=Lax"} {
		if !strings.Contains(set, want) || strings.Contains(set, "Domain") {
			t.Errorf("%s lacks %s", set, want)
		}
	}
	r := w.server.seen[len(w.server.seen)-1]
	if len(r.Cookies()) > 0 || r.URL.Path != "/v4/profile" {
		t.Errorf("the API was asked %s with %v", r.URL, r.Header)
	}
}

// TestLogInsBegun: two tabs whose session has ended begin a log-in each, and either may be ended; many don't fill the browser's cookies.
func TestLogInsBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, loopback)
	has := map[string]string{} // the browser's cookies
	visit := func(path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, loopback+path, nil)
		for name, value := range has {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		answer := httptest.NewRecorder()
		w.Console.ServeHTTP(answer, r)
		for _, c := range answer.Result().Cookies() {
			if has[c.Name] = c.Value; c.MaxAge < 0 {
				delete(has, c.Name)
			}
		}
		return answer
	}
	begin := func() (state string) {
		u, err := url.Parse(visit("/console/login").Header().Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		return u.Query().Get("state")
	}
	first, second := begin(), begin()
	for _, state := range []string{first, second} {
		if answer := visit("/console/callback?code=x&state=" + state); answer.Code == http.StatusForbidden {
			t.Errorf("a log-in that was begun here: %d %s", answer.Code, answer.Body)
		}
		if answer := visit("/console/callback?code=x&state=" + state); answer.Code != http.StatusForbidden {
			t.Errorf("ended again: %d", answer.Code)
		}
	}
	if begin(); visit("/console/callback?code=x&state="+strings.Repeat("a", 64)).Code != http.StatusForbidden {
		t.Error("a log-in that wasn't begun here is ended")
	}
	for range 30 {
		begin()
		if len(has) > 10 { // those that may be begun, the newest, and the session's
			t.Fatalf("%d cookies", len(has))
		}
	}
}

// TestStreamsHaveHeaders: of whoever takes the connection over, too.
func TestStreamsHaveHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, loopback)
	var said strings.Builder
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		r.Host = strings.TrimPrefix(loopback, "http://")
		w.ServeHTTP(answer, r)
	}))
	front.Config.ErrorLog = log.New(&said, "", 0)
	front.Start()
	defer front.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/console/v4/account/events/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: w.cookieName(sessionCookie), Value: w.cookie})
	answer, err := front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	h := answer.Header
	if err != nil || string(body) != "followed" || h.Get("Content-Security-Policy") != policy || h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%q, %v, %v", body, h, err)
	}
	front.Close() // no handler writes any more
	if said.Len() > 0 {
		t.Error(said.String())
	}
}

func TestLogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, loopback)
	if answer := w.ask(w.Console, "POST", "/console/logout", "{}"); answer.Code != http.StatusOK || w.server.revoked != 1 || len(w.memory.all) != 0 {
		t.Errorf("%d, %d revoked, %d sessions", answer.Code, w.server.revoked, len(w.memory.all))
	}
	if answer := w.ask(w.Console, "GET", "/console/v4/profile", ""); answer.Code != http.StatusUnauthorized {
		t.Errorf("after: %d", answer.Code)
	}
}

// TestBudget: pages are quick to load. Packed, all of them load at most 56 KiB of script and 15 KiB of styles, and no
// screen's own part brings that over 80 KiB.
func TestBudget(t *testing.T) {
	t.Parallel()
	files, err := readFiles()
	if err != nil {
		t.Fatal(err)
	}
	first, largest := map[string]int{}, 0
	for name, f := range files.assets {
		t.Logf("%s: %d bytes, %d packed", name, len(f.text), len(f.packed()))
		if bytes.Contains(files.index, []byte("/console/assets/"+name)) {
			first[path.Ext(name)] += len(f.packed())
		} else {
			largest = max(largest, len(f.packed()))
		}
		if r, err := gzip.NewReader(bytes.NewReader(f.packed())); err != nil || r == nil {
			t.Error(err)
		}
	}
	t.Logf("at first %v, at most %d", first, first[".js"]+largest)
	if scripts, styles := first[".js"], first[".css"]; scripts == 0 || scripts > 56<<10 || styles == 0 || styles > 15<<10 || len(first) != 2 || scripts+largest > 80<<10 {
		t.Errorf("%v at first, and %d for a screen", first, largest)
	}
	if parts := bytes.Count(files.index, []byte(`<link rel="modulepreload"`)); parts == 0 {
		t.Error("nothing is loaded before the script asks for it")
	}
}
