package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/api"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// TestWaysIn: the ways in that attackers of such an API try first are closed.
func TestWaysIn(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(*testing.T){
		"token_brute_force":      tokenBruteForce,
		"token_lookup_timing":    tokenLookupTiming,
		"scope_and_grant_bypass": scopeAndGrantBypass,
		"method_override":        methodOverride,
		"header_smuggling":       headerSmuggling,
		"mass_assignment":        massAssignment,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); attack(t) })
	}
}

// from sends a request as a client at an address.
func (b *bench) from(address, method, path, token string, headers ...string) *http.Response {
	b.t.Helper()
	req := httptest.NewRequestWithContext(b.t.Context(), method, path, http.NoBody)
	req.RemoteAddr = net.JoinHostPort(address, "40000")
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, req)
	return w.Result()
}

// tokenBruteForce: guesses from one address are counted over all servers, and no
// header makes another address of it.
func tokenBruteForce(t *testing.T) {
	const most = 20
	first, second := benches(t, true, withinAMinute, func(o *api.Options) { o.FailedLoginsPerMinute = most })
	for name, address := range map[string]func(i int) string{
		"one address": func(int) string { return "203.0.113.9" },
		"one /64":     func(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) },
	} {
		failed := 0
		for i := range 5 * most {
			server := []*bench{first, second}[i%2]
			r := server.from(address(i), "GET", "/v4/profile", fmt.Sprintf("%064x", i), "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i), "X-Real-Ip", fmt.Sprintf("198.51.100.%d", i))
			switch r.StatusCode {
			case http.StatusUnauthorized:
				failed++
			case http.StatusTooManyRequests:
				if r.Header.Get("Retry-After") != "60" {
					t.Errorf("Retry-After %q", r.Header.Get("Retry-After"))
				}
			default:
				t.Fatalf("a guess: %d", r.StatusCode)
			}
		}
		// Each server learns by a guess of its own that the others have used all up.
		if failed < most || failed > most+1 {
			t.Errorf("%s: %d guesses were looked at, want %d", name, failed, most)
		}
		for _, server := range []*bench{first, second} {
			if r := server.from(address(0), "GET", "/v4/profile", first.full); r.StatusCode != http.StatusOK {
				t.Errorf("%s, a good token after them: %d", name, r.StatusCode)
			}
		}
	}
	if r := second.from("203.0.113.10", "GET", "/v4/profile", first.full); r.StatusCode != http.StatusOK {
		t.Errorf("another address: %d", r.StatusCode)
	}
}

// asked remembers what the store was asked, with which values.
type asked struct {
	mu  sync.Mutex
	all []string
}

func (a *asked) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, fmt.Sprintf("%s %x", q.SQL, q.Args))
	return ctx
}

func (*asked) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (a *asked) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.all
	a.all = nil
	return all
}

// tokenLookupTiming: what the store is asked depends on the hash of a guess alone.
// A guess that is right but for its last character shares nothing with the token
// that a comparison could stop at, and takes the same steps as any other.
func tokenLookupTiming(t *testing.T) {
	var tracer asked
	s := pgtest.Store(t, pgtest.WithTracer(&tracer))
	auth := control.New(control.Deps{Store: s, OnlyServer: true}).Auth
	b := &bench{t: t, store: s}
	var token string
	if err := s.InTx(t.Context(), func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(t.Context())
		token = b.token(tx, admin, "*")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Authenticate(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	last := map[bool]string{true: "1", false: "0"}[strings.HasSuffix(token, "0")]
	near, far := token[:len(token)-1]+last, strings.Repeat("f", 64)
	tracer.take()
	var steps [2]string
	for i, guess := range []string{near, far} {
		if _, err := auth.Authenticate(t.Context(), guess); !fault.IsKind(err, fault.Unauthenticated) {
			t.Fatal(err)
		}
		all := tracer.take()
		if len(all) != 1 || strings.Contains(all[0], fmt.Sprintf("%x", guess[:8])) || strings.Contains(all[0], guess[:8]) {
			t.Errorf("the store was asked %q", all)
			continue
		}
		steps[i], _, _ = strings.Cut(all[0], "[")
	}
	if steps[0] != steps[1] || !strings.Contains(steps[0], "hash = $1") {
		t.Errorf("a near guess leads to %q, a far one to %q", steps[0], steps[1])
	}
	for _, guess := range []string{"", token[:63], token + "0", strings.ToUpper(token) + " ", "' OR true --"} {
		if _, err := auth.Authenticate(t.Context(), guess); !fault.IsKind(err, fault.Unauthenticated) {
			t.Errorf("%q: %v", guess, err)
		}
		if all := tracer.take(); len(all) != 0 {
			t.Errorf("%q reached the store: %q", guess, all)
		}
	}
}

// scopeAndGrantBypass: other names of a thing, other spellings of its id or path,
// and questions about it show no more than its own.
func scopeAndGrantBypass(t *testing.T) {
	b := newBench(t)
	id := b.create()
	granted := b.send("POST", "/v4/databases/postgresql/instances", b.full, strings.Replace(goodCreate, "shop", "granted", 1))
	if granted.StatusCode != 200 {
		t.Fatal(granted.body)
	}
	if r := b.send("PUT", "/v4/account/users/limited/grants", b.full, fmt.Sprintf(`{"database":[{"id":%d,"permissions":"read_write"}]}`, id+1)); r.StatusCode != 200 {
		t.Fatal(r.body)
	}
	one := fmt.Sprintf("/databases/postgresql/instances/%d", id)

	t.Run("alias_path", func(t *testing.T) {
		reached := 0
		for _, path := range []string{
			"/v4" + one, "/v4beta" + one, "/v4" + one + "/", "/v4beta" + one + "/", "/v4/" + one, "//v4" + one, "/v4/." + one, "/v4/x/.." + one, "/V4" + one,
			"/v4" + one + "//", "/v4" + one + ";x", "/v4" + one + "%00", "/v4" + one + "?", "/v4" + one + "%2F", "/v4/%64atabases" + strings.TrimPrefix(one, "/databases"),
			"/v4beta/../v4" + one, "/v4/v4beta" + one, strings.Replace("/v4"+one, "postgresql", "mysql", 1), strings.Replace("/v4"+one, "postgresql", "PostgreSQL", 1),
			fmt.Sprintf("/v4/databases/instances/%d", id), fmt.Sprintf("/v4/databases/postgresql/instances/%d", id) + "/.", "/v4/databases%2Fpostgresql%2Finstances%2F" + fmt.Sprint(id),
		} {
			if b.send("GET", path, b.full, "").StatusCode == 200 {
				reached++
			}
			for _, method := range []string{"PUT", "DELETE", "POST", "PATCH"} {
				if r := b.send(method, path, b.readOnly, `{"label":"taken"}`); r.StatusCode < 300 {
					t.Errorf("%s %s with a token to read: %d", method, path, r.StatusCode)
				}
			}
			if r := b.send("GET", path, b.restricted, ""); r.StatusCode == 200 || strings.Contains(r.body, "shop") {
				t.Errorf("GET %s ungranted: %d %s", path, r.StatusCode, r.body)
			}
		}
		if reached < 5 {
			t.Errorf("only %d of these paths lead anywhere: the attack is blunt", reached)
		}
	})
	t.Run("id", func(t *testing.T) {
		for _, spelling := range []string{"%d", "0%d", "00000000000%d", "+%d", "%%20%d", "%d%%20", "%d.0", "%de0", "0x%x", "%d%%0a", "-%d", "%d,2"} {
			path := "/v4/databases/postgresql/instances/" + fmt.Sprintf(spelling, id)
			for _, request := range []string{"GET ", "PUT ", "POST /patch", "GET /credentials", "GET /backups", "GET /ssl"} {
				method, rest, _ := strings.Cut(request, " ")
				if r := b.send(method, path+rest, b.restricted, ""); r.StatusCode != 404 {
					t.Errorf("%s %s%s ungranted: %d %s", method, path, rest, r.StatusCode, r.body)
				}
			}
		}
		// Events of both databases are there, and only the granted one's are seen, and those of the user itself.
		seen := 0
		for event := 1; event < 10; event++ {
			path := fmt.Sprintf("/v4/account/events/%d", event)
			full, limited := b.send("GET", path, b.full, ""), b.send("GET", path, b.restricted, "")
			if full.StatusCode != 200 {
				continue
			}
			seen++
			if mine := strings.Contains(full.body, `"label":"granted"`) || strings.Contains(full.body, `"label":"limited"`); (limited.StatusCode == 200) != mine {
				t.Errorf("event %d, granted %v: %d %s", event, mine, limited.StatusCode, limited.body)
			}
		}
		if seen < 2 {
			t.Errorf("only %d events to try", seen)
		}
	})
	t.Run("filter", func(t *testing.T) {
		for _, filter := range []string{
			fmt.Sprintf(`{"id":%d}`, id), `{"label":"shop"}`, `{"+or":[{"label":"shop"},{"+and":[]}]}`, `{"+and":[]}`, `{"label":{"+neq":"granted"}}`,
			`{"label":{"+contains":"s"}}`, `{"id":{"+gte":0}}`, `{"+or":[{"+or":[{"id":{"+lte":999}}]},{"status":{"+neq":"x"}}]}`,
			`{"+order_by":"label","+order":"desc"}`, `{"label":"' OR 1=1 --"}`,
		} {
			for _, list := range []string{"/v4/databases/instances", "/v4/databases/postgresql/instances"} {
				if r := b.send("GET", list, b.restricted, "", "X-Filter", filter); strings.Contains(r.body, "shop") {
					t.Errorf("%s %s shows what isn't granted: %s", list, filter, r.body)
				}
			}
			if r := b.send("GET", "/v4/databases/instances", b.readOnly, "", "X-Filter", filter); r.StatusCode != 200 {
				t.Errorf("%s: %d %s", filter, r.StatusCode, r.body)
			}
		}
		for _, filter := range []string{fmt.Sprintf(`{"entity.id":%d}`, id), `{"+or":[{"entity.type":"database"},{"id":{"+gte":0}}]}`, `{"action":"database_create"}`} {
			if r := b.send("GET", "/v4/account/events", b.restricted, "", "X-Filter", filter); r.StatusCode != 200 || strings.Contains(r.body, "shop") {
				t.Errorf("events %s: %d %s", filter, r.StatusCode, r.body)
			}
		}
		for _, filter := range []string{`{"account_id":1}`, `{"generation":1}`, `{"+order_by":"account_id"}`, `{"hosts.primary":"x"}`, `{"password":"x"}`} {
			if r := b.send("GET", "/v4/databases/instances", b.full, "", "X-Filter", filter); r.StatusCode != 400 {
				t.Errorf("%s may be asked: %d", filter, r.StatusCode)
			}
		}
	})
	if r := b.send("GET", "/v4"+one, b.full, ""); !strings.Contains(r.body, `"label":"shop"`) {
		t.Errorf("something was changed: %s", r.body)
	}
}

// methodOverride: a request's method is that of its first line.
func methodOverride(t *testing.T) {
	b := newBench(t)
	id := b.create()
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active'"); err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-Method", "X-Forwarded-Method"} {
		for _, token := range []string{b.readOnly, b.full} {
			if r := b.send("GET", one, token, "", header, "DELETE"); r.StatusCode != 200 || !strings.Contains(r.body, `"label":"shop"`) {
				t.Errorf("GET with %s: DELETE: %d %s", header, r.StatusCode, r.body)
			}
		}
		if r := b.send("DELETE", one, b.readOnly, "", header, "GET"); r.StatusCode != 401 {
			t.Errorf("DELETE with %s: GET and a token to read: %d", header, r.StatusCode)
		}
		if r := b.send("POST", one, b.full, "", header, "DELETE"); r.StatusCode != 405 {
			t.Errorf("POST with %s: DELETE: %d", header, r.StatusCode)
		}
	}
	for _, query := range []string{"?_method=DELETE", "?method=DELETE", "?X-HTTP-Method-Override=DELETE"} {
		if r := b.send("GET", one+query, b.full, ""); r.StatusCode != 200 {
			t.Errorf("GET %s: %d", query, r.StatusCode)
		}
		if r := b.send("POST", one+query, b.full, "_method=DELETE", "Content-Type", "application/x-www-form-urlencoded"); r.StatusCode != 405 {
			t.Errorf("POST %s: %d", query, r.StatusCode)
		}
	}
	for _, method := range []string{"HEAD", "OPTIONS", "TRACE", "CONNECT", "delete", "DELETE\x00", "PURGE"} {
		b.raw(method, one)
	}
	if r := b.send("GET", one, b.full, ""); r.StatusCode != 200 || !strings.Contains(r.body, `"status":"active"`) {
		t.Errorf("the database was touched: %d %s", r.StatusCode, r.body)
	}
}

// raw sends a method that no client library would.
func (b *bench) raw(method, path string) {
	req := httptest.NewRequestWithContext(b.t.Context(), "GET", path, http.NoBody)
	req.Method = method
	req.Header.Set("Authorization", "Bearer "+b.full)
	b.handler.ServeHTTP(httptest.NewRecorder(), req)
}

// headerSmuggling: what a gateway in front may read differently is refused, or
// ends the connection, so that nothing can hide behind it.
func headerSmuggling(t *testing.T) {
	b := newBench(t)
	id := b.create()
	server := b.api.Server()
	server.Handler = b.handler
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-served })

	host, auth := "Host: x\r\n", "Authorization: Bearer "+b.full+"\r\n"
	hidden := fmt.Sprintf("GET /v4/databases/postgresql/instances/%d HTTP/1.1\r\n%s%s\r\n", id, host, auth)
	post := "POST /v4/profile/tokens HTTP/1.1\r\n" + host + auth
	for name, request := range map[string]string{
		"both lengths":             post + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", 5+len(hidden), hidden),
		"both lengths, other way":  post + fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden) + hidden,
		"two lengths":              post + fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(hidden), hidden),
		"a list of lengths":        post + fmt.Sprintf("Content-Length: 0, %d\r\n\r\n%s", len(hidden), hidden),
		"a signed length":          post + "Content-Length: +0\r\n\r\n" + hidden,
		"an unknown coding":        post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
		"two codings":              post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + hidden,
		"a coding in disguise":     post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a folded header":          post + "X-A: b\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"chunked alone":            post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a bare CR in a header":    post + "X-A: b\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a zero byte in a header":  post + "X-A: b\x00\r\n\r\n" + hidden,
		"two hosts":                post + "Host: y\r\n\r\n" + hidden,
		"two tokens":               "GET /v4/profile HTTP/1.1\r\n" + host + auth + "Authorization: Bearer " + b.readOnly + "\r\nConnection: close\r\n\r\n",
		"a token that runs on":     "GET /v4/profile HTTP/1.1\r\n" + host + strings.TrimSuffix(auth, "\r\n") + ", Bearer x\r\nConnection: close\r\n\r\n",
		"a broken end of a header": "GET /v4/profile HTTP/1.1\r\n" + host + "X-A: b\r\r\n" + auth + "Connection: close\r\n\r\n",
	} {
		if answers := exchange(t, l.Addr().String(), request); strings.Contains(answers, `"label":"shop"`) || strings.Contains(answers, "HTTP/1.1 200") {
			t.Errorf("%s: %s", name, answers)
		}
	}
	if answers := exchange(t, l.Addr().String(), "GET /v4/regions HTTP/1.1\r\n"+host+"\r\n"+strings.Replace(hidden, host, host+"Connection: close\r\n", 1)); strings.Count(answers, "HTTP/1.1 200") != 2 {
		t.Errorf("honest requests, one after the other: %s", answers)
	}

	// Headers by which gateways tell servers what was asked, and by whom.
	var lines trail
	c := newBench(t, func(o *api.Options) { o.Audit = lines.record })
	for _, header := range []string{"X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Uri", "X-Forwarded-Prefix", "X-Forwarded-Path"} {
		if r := c.send("GET", "/v4/regions", "", "", header, "/v4/profile"); r.StatusCode != 200 || !strings.Contains(r.body, `"local"`) {
			t.Errorf("%s: %d %s", header, r.StatusCode, r.body)
		}
	}
	for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Client-Ip", "True-Client-Ip"} {
		c.send("GET", "/v4/profile", "", "", header, "for=127.0.0.1")
		for _, line := range lines.take() {
			if line.Address != "192.0.2.1" {
				t.Errorf("%s makes the address %s", header, line.Address)
			}
		}
	}
	for _, header := range []string{"X-Forwarded-User", "X-Remote-User", "X-User-Id", "X-Account-Id", "X-Forwarded-Access-Token", "Proxy-Authorization", "X-Authorization", "Cookie"} {
		if r := c.send("GET", "/v4/profile", "", "", header, "Bearer "+c.full); r.StatusCode != 401 {
			t.Errorf("%s: %d", header, r.StatusCode)
		}
	}
}

// exchange sends bytes and returns all that comes back until the server closes
// the connection; a server that keeps it open beyond the patience has answered all.
func exchange(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(bufio.NewReader(conn))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection stays open after\n%s", request)
	}
	return string(text)
}

// massAssignment: members that aren't a request's own change nothing, in
// whatever case they are written.
func massAssignment(t *testing.T) {
	b := newBench(t)
	extra := `"id":777,"ID":777,"account":2,"account_id":2,"user_id":1,"restricted":false,"Restricted":false,"add_databases":true,"hash":"00","prefix":"x",` +
		`"created":"2001-01-01T00:00:00","updated":"2001-01-01T00:00:00","status":"active","Status":"active","port":1,"hosts":{"primary":"evil"},"members":{"evil":"primary"},` +
		`"username2":"x","own_scopes":"*","secret":"s","secret_hash":"00","token":"t","public2":true,"password":"p","generation":99,"used_disk_size_gb":1,"LABEL":"evil","Scopes":"*","REDIRECT_URI":"https://evil.example.org/"`
	type object = map[string]any
	call := func(method, path, token, body string) object {
		t.Helper()
		r := b.send(method, path, token, body)
		var o object
		if err := json.Unmarshal([]byte(r.body), &o); err != nil || r.StatusCode != 200 {
			t.Fatalf("%s %s: %d %s", method, path, r.StatusCode, r.body)
		}
		return o
	}
	differ := func(what string, o object, want object) {
		t.Helper()
		for name, value := range want {
			if fmt.Sprint(o[name]) != fmt.Sprint(value) {
				t.Errorf("%s: %s is %v, want %v", what, name, o[name], value)
			}
		}
	}
	with := func(own string) string {
		return "{" + own + "," + strings.Replace(extra, `"restricted":false,`, "", 1) + "}"
	}

	database := call("POST", "/v4/databases/postgresql/instances", b.full, with(strings.Trim(goodCreate, "{}")))
	differ("a database", database, object{"id": 1, "status": "provisioning", "label": "shop", "hosts": object{"primary": nil, "secondary": nil, "standby": nil, "endpoints": []any{}}})
	if port, _ := database["port"].(float64); port == 1 || database["created"] == "2001-01-01T00:00:00" {
		t.Errorf("a database: %v", database)
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active'"); err != nil {
		t.Fatal(err)
	}
	fixed := with(`"label":"shop2","engine":"mysql/10.11","region":"mars","encrypted":true,"ssl_connection":false,"replication_type":"asynch"`)
	if r := b.send("PUT", "/v4/databases/postgresql/instances/1", b.full, fixed); r.StatusCode != 400 || len(r.faults()) != 5 {
		t.Errorf("what can't be changed: %d %s", r.StatusCode, r.body)
	}
	database = call("PUT", "/v4/databases/postgresql/instances/1", b.full, with(`"label":"shop2"`))
	differ("an updated database", database, object{"id": 1, "label": "shop2", "engine": "postgresql", "region": "local", "cluster_size": 1, "encrypted": false, "ssl_connection": true, "replication_type": "none"})

	token := call("POST", "/v4/profile/tokens", b.full, with(`"label":"small","scopes":"account:read_write"`))
	differ("a token", token, object{"label": "small", "scopes": "account:read_write", "expiry": nil})
	text, _ := token["token"].(string)
	if len(text) != 64 || token["id"] == 777.0 {
		t.Errorf("a token: %v", token)
	}
	token = call("PUT", fmt.Sprintf("/v4/profile/tokens/%v", token["id"]), text, with(`"label":"smaller","scopes":"*","expiry":"2099-01-01T00:00:00"`))
	differ("an updated token", token, object{"label": "smaller", "scopes": "account:read_write", "expiry": nil})

	user := call("POST", "/v4/account/users", b.full, with(`"username":"newcomer","email":"n@example.org"`))
	differ("a user", user, object{"username": "newcomer", "restricted": true})
	made, err := b.store.User(t.Context(), b.account, "newcomer")
	if err != nil || made.AddDatabases || !made.Restricted || made.Account != b.account {
		t.Errorf("a user: %+v, %v", made, err)
	}
	call("PUT", "/v4/account/users/newcomer", b.full, with(`"email":"m@example.org"`))
	if made, err = b.store.User(t.Context(), b.account, "newcomer"); err != nil || made.AddDatabases || !made.Restricted || made.Email != "m@example.org" {
		t.Errorf("an updated user: %+v, %v", made, err)
	}
	grants := call("PUT", "/v4/account/users/newcomer/grants", b.full, with(`"global":{"account_access":"read_write","ADD_DATABASES":true,"restricted":false}`))
	if global, _ := grants["global"].(object); global["add_databases"] != false || global["account_access"] != "read_write" {
		t.Errorf("grants: %v", grants)
	}

	client := call("POST", "/v4/account/oauth-clients", text, with(`"label":"Shop","redirect_uri":"https://app.example.org/"`))
	differ("a client", client, object{"label": "Shop", "redirect_uri": "https://app.example.org/", "public": false, "status": "active"})
	if secret, _ := client["secret"].(string); len(secret) != 64 || client["id"] == "777" {
		t.Errorf("a client: %v", client)
	}
	stored, err := b.store.Client(t.Context(), b.account, 0, account.ClientID(fmt.Sprint(client["id"])))
	if err != nil || stored.OwnScopes.String() != "account:read_write" || stored.Account != b.account {
		t.Errorf("a client: %+v, %v", stored, err)
	}
}
