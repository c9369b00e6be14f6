package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/api"
	"steward/internal/api/apitest"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/meter"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bench is an API on a store of its own, with users of every kind.
type bench struct {
	t   testing.TB
	api *api.API
	// handler is the API, its answers held against its document.
	handler http.Handler
	store   *store.Store
	// world is what runs behind the databases, nothing unless the test puts it there, and driver looks into it.
	world  *memplatform.World
	driver *memplatform.Driver
	// tokens by what they may do.
	full, readOnly, restricted, expired string
	account                             account.ID
}

func newBench(t testing.TB, change ...func(*api.Options)) *bench {
	t.Helper()
	b, _ := benches(t, false, change...)
	return b
}

// withinAMinute stops the clock of a test that counts what one minute allows.
func withinAMinute(o *api.Options) {
	now := time.Now().Truncate(time.Minute)
	o.Now = func() time.Time { return now }
}

// loginsPerMinute bounds what a test needs of one user.
const loginsPerMinute = 5

// cheap is a cost of passwords for tests, which log in a hundred times: 64 MiB of a
// real hash are four times that with the race detector.
var cheap = control.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1}

// benches are two servers that share a store; the second is nil when the first
// is to be alone.
func benches(t testing.TB, two bool, change ...func(*api.Options)) (b, second *bench) {
	t.Helper()
	return benchesOn(t, pgtest.Store(t), two, change...)
}

// benchesOn are benches on a store of the test's.
func benchesOn(t testing.TB, s *store.Store, two bool, change ...func(*api.Options)) (b, second *bench) {
	t.Helper()
	plans := &catalog.Catalog{
		Plans: catalog.DefaultPlans(), Regions: catalog.DefaultRegions(),
		Engines: []catalog.Engine{
			{Engine: cluster.MySQL, Series: "10.11", Disk: func() (total, used int64) { return 1 << 28, 0 }},
			{Engine: cluster.PostgreSQL, Series: "15", EncryptionMissing: "PostgreSQL can't encrypt here", Libraries: []string{"pg_cron"}, Extensions: []catalog.Extension{
				{Name: "dblink", Version: "1.2", Missing: "It is for superusers only"}, {Name: "pg_cron", Version: "1.4", Parameter: "pg.cron.database_name"},
			}},
		},
	}
	o := api.Options{
		Catalog: plans, Logger: slog.New(slog.DiscardHandler), Ready: s.Ping, Origin: "*", Installation: machine{1},
		FirstLink: func(secret string) string { return "https://steward.example.org/console/first#" + secret },
	}
	for _, f := range change {
		f(&o)
	}
	b = &bench{t: t, store: s, world: memplatform.NewWorld()}
	b.driver = memplatform.New(b.world, memplatform.Options{Secrets: s, Now: o.Now})
	deps := control.Deps{
		Scraper: meter.NewScraper(b.driver), Platform: b.driver, Sources: someSources{},
		Store: s, Catalog: plans, Ports: [2]int{21000, 21009}, Logger: slog.New(slog.DiscardHandler), OnlyServer: !two,
		LoginsPerMinute: loginsPerMinute, PasswordCost: cheap, Now: o.Now, CanSleep: true,
		Enqueue: func(context.Context, *store.Tx, operation.ID) error { return nil },
	}
	if two {
		deps.SharedRates = s
	}
	o.Control = control.New(deps)
	b.api = api.New(o)
	b.handler = checked(t, b.api)
	ctx := t.Context()
	err := s.InTx(ctx, func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(ctx)
		if err != nil {
			return err
		}
		b.account = admin.Account
		if _, err := tx.AddOperator(ctx, admin.ID); err != nil {
			return err
		}
		limited, err := tx.CreateUser(ctx, account.User{Account: admin.Account, Username: "limited", Email: "l@example.org", Restricted: true})
		if err != nil {
			return err
		}
		b.full = b.token(tx, admin, "*")
		b.readOnly = b.token(tx, admin, "databases:read_only account:read_only events:read_only")
		b.restricted = b.token(tx, limited, "*")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if two {
		other := o
		other.Control, other.Registry = control.New(deps), nil
		second = new(*b)
		second.api = api.New(other)
		second.handler = checked(t, second.api)
	}
	return b, second
}

var parsedDocument = sync.OnceValues(func() (*apitest.Document, error) {
	text, err := os.ReadFile(documentPath)
	if err != nil {
		return nil, err
	}
	return apitest.Parse(text)
})

// checked is the API with each of its answers held against the document.
func checked(t testing.TB, a *api.API) http.Handler {
	t.Helper()
	d, err := parsedDocument()
	if err != nil {
		t.Fatal(err)
	}
	return apitest.Handler(t, d, a)
}

// stranger is a token of another account's unrestricted user.
func (b *bench) stranger() (token string) {
	b.t.Helper()
	ctx := b.t.Context()
	err := b.store.InTx(ctx, func(tx *store.Tx) error {
		other, err := tx.CreateAccount(ctx, account.Account{Name: "other"})
		if err != nil {
			return err
		}
		u, err := tx.CreateUser(ctx, account.User{Account: other.ID, Username: "stranger", Email: "s@example.org"})
		if err != nil {
			return err
		}
		token = b.token(tx, u, "*")
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return token
}

func (b *bench) token(tx *store.Tx, u account.User, scopes string) string {
	text := fmt.Sprintf("%064x", sha256.Sum256([]byte(u.Username+scopes)))
	parsed, err := account.ParseScopes(scopes)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := tx.CreateToken(b.t.Context(), control.TokenOf(u.ID, "test", text, parsed, nil), sha256.Sum256([]byte(text))); err != nil {
		b.t.Fatal(err)
	}
	return text
}

type reply struct {
	*http.Response
	body string
}

// faults are the answer's problems as "field: reason".
func (r reply) faults() []string {
	var e struct {
		Errors []struct{ Field, Reason string }
	}
	_ = json.Unmarshal([]byte(r.body), &e)
	texts := make([]string, len(e.Errors))
	for i, p := range e.Errors {
		texts[i] = p.Field + ": " + p.Reason
	}
	return texts
}

// expecting sends requests about what is below a path, and fails the test where the status or a part of the body is another than wanted.
func (b *bench) expecting(t *testing.T, below string) func(method, path, token, body string, status int, want ...string) string {
	return func(method, path, token, body string, status int, want ...string) string {
		t.Helper()
		r := b.send(method, below+path, token, body)
		for _, w := range want {
			if r.StatusCode != status || !strings.Contains(r.body, w) {
				t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, r.StatusCode, r.body, status, w)
			}
		}
		return r.body
	}
}

func (b *bench) send(method, path, token, body string, headers ...string) reply {
	b.t.Helper()
	req := httptest.NewRequestWithContext(b.t.Context(), method, "/", strings.NewReader(body))
	if body == "" {
		req.Body = http.NoBody
	}
	parsed, err := req.URL.Parse(path)
	if err != nil {
		b.t.Fatal(err)
	}
	req.URL = parsed
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, req)
	result := w.Result()
	text, err := io.ReadAll(result.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{result, string(text)}
}

const goodCreate = `{"label":"shop","engine":"postgresql/15","region":"local","type":"g6-nanode-1","allow_list":["127.0.0.1"]}`

func (b *bench) create() int64 {
	b.t.Helper()
	r := b.send("POST", "/v4/databases/postgresql/instances", b.full, goodCreate)
	if r.StatusCode != 200 {
		b.t.Fatalf("create: %d %s", r.StatusCode, r.body)
	}
	var d struct{ ID int64 }
	if err := json.Unmarshal([]byte(r.body), &d); err != nil {
		b.t.Fatal(err)
	}
	return d.ID
}

// is gives a database a status.
func (b *bench) is(id int64, status cluster.Status) {
	b.t.Helper()
	if _, err := b.store.Pool().Exec(b.t.Context(), "UPDATE clusters SET status = $1 WHERE id = $2", status, id); err != nil {
		b.t.Fatal(err)
	}
}

// documentOperation is an operation as the committed document has it.
type documentOperation struct {
	Scope       string `yaml:"x-scope"`
	RequestBody any    `yaml:"requestBody"`
}

// documented are all operations of the API document by "METHOD path", with
// path parameters replaced by something that doesn't exist.
func documented(t *testing.T) map[string]documentOperation {
	t.Helper()
	var d struct {
		Paths map[string]map[string]documentOperation `yaml:"paths"`
	}
	readDocument(t, &d)
	all := map[string]documentOperation{}
	missing := strings.NewReplacer("{username}", "nobody", "{accountName}", "nobody", "{id}", "none", "{engine}", "none", "{series}", "0")
	numbered := regexp.MustCompile(`\{\w+Id\}`)
	for path, methods := range d.Paths {
		for method, op := range methods {
			all[strings.ToUpper(method)+" "+missing.Replace(numbered.ReplaceAllString(path, "999"))] = op
		}
	}
	if len(all) < 35 {
		t.Fatalf("only %d operations found: the walk is broken", len(all))
	}
	return all
}

// TestEveryOperation walks the document: each operation declares its scope,
// refuses strangers and tokens without the scope, and answers errors in the envelope.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	noScope := b.weakToken(t)
	for name, op := range documented(t) {
		method, path, _ := strings.Cut(name, " ")
		if op.Scope == "" {
			t.Errorf("%s declares no scope", name)
		}
		if r := b.send(method, path, strings.Repeat("0", 64), ""); r.StatusCode != 401 || r.faults()[0] != ": Invalid Token" {
			t.Errorf("%s with a bad token: %d %s", name, r.StatusCode, r.body)
		}
		anonymous := b.send(method, path, "", "")
		if op.Scope == "none" {
			if anonymous.StatusCode == 401 {
				t.Errorf("%s is public but wants a token", name)
			}
			continue
		}
		if anonymous.StatusCode != 401 || anonymous.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s without token: %d %s", name, anonymous.StatusCode, anonymous.Header.Get("Content-Type"))
		}
		if op.Scope == "any" {
			continue
		}
		r := b.send(method, path, noScope[op.Scope], "")
		if r.StatusCode != 401 || !strings.Contains(r.body, "not authorized to use this endpoint") || r.Header.Get("X-Accepted-OAuth-Scopes") != op.Scope {
			t.Errorf("%s with another scope than %s: %d %s", name, op.Scope, r.StatusCode, r.body)
		}
		if strings.Contains(path, "999") || strings.Contains(path, "nobody") {
			body := ""
			if strings.HasSuffix(path, "/first-user") {
				body = `{"username":"nobody","email":"nobody@example.org"}` // which are looked at before
			}
			if r := b.send(method, path, b.full, body); r.StatusCode != 404 || len(r.faults()) != 1 || r.faults()[0] != ": Not found" {
				t.Errorf("%s of what isn't there: %d %s", name, r.StatusCode, r.body)
			}
		}
	}
}

// weakToken maps each scope to a token that has every scope but those that cover it.
func (b *bench) weakToken(t *testing.T) map[string]string {
	t.Helper()
	tokens := map[string]string{}
	err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(t.Context())
		if err != nil {
			return err
		}
		for _, area := range []string{"databases", "account", "events", "operator"} {
			others := strings.TrimSpace(strings.ReplaceAll("databases:read_write account:read_write events:read_write operator:read_write", area+":read_write", ""))
			tokens[area+":read_only"] = b.token(tx, admin, others)
			tokens[area+":read_write"] = b.token(tx, admin, others+" "+area+":read_only")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestCreateFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tests := []struct {
		name, engine, body string
		want               []string
	}{
		{"empty", "mysql", "", []string{"label: label is required", "region: region is required", "type: type is required", "engine: engine is required"}},
		{"not JSON", "mysql", `{"label":`, []string{": Invalid JSON"}},
		{"two values", "mysql", `{} {}`, []string{": Invalid JSON"}},
		{"not UTF-8", "mysql", "{\"label\":\"\xff\"}", []string{": Invalid JSON"}},
		{"too deep", "mysql", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), []string{": Invalid JSON"}},
		{"an array", "mysql", `[]`, []string{": Must be a JSON object"}},
		{
			"shape and sense together", "mysql",
			`{"label":"x","engine":"mysql/1","region":"mars","type":"huge","cluster_size":"3","encrypted":1,"allow_list":["1.2.3","::g","10.0.0.0/8"],"replication_type":"foo"}`,
			[]string{
				"label: Length must be 3-32 characters", "engine: engine is not valid; offered: mysql/10.11", "region: region is not valid", "type: type is not valid",
				"cluster_size: Must be a whole number", "encrypted: Must be true or false",
				"allow_list: Invalid IPv4 address(es) or range(s): 1.2.3", "allow_list: Invalid IPv6 address(es) or range(s): ::g",
				"replication_type: Must be one of none, asynch, semi_synch",
			},
		},
		{"another engine's id", "mysql", strings.Replace(goodCreate, "shop", "other", 1), []string{"engine: engine is not valid; offered: mysql/10.11"}},
		{"two nodes", "postgresql", strings.Replace(goodCreate, `{`, `{"cluster_size":2,`, 1), []string{"cluster_size: Must be one of 1, 3"}},
		{"three nodes that don't replicate", "postgresql", strings.Replace(goodCreate, `{`, `{"cluster_size":3,"replication_type":"none",`, 1), []string{"replication_type: "}},
		{"encrypted PostgreSQL", "postgresql", strings.Replace(goodCreate, `{`, `{"encrypted":true,`, 1), []string{"encrypted: PostgreSQL can't encrypt here"}},
		{"zero byte", "postgresql", strings.Replace(goodCreate, "local", `local\u0000`, 1), []string{"region: Must not contain a zero byte"}},
		{"null", "postgresql", strings.Replace(goodCreate, `"shop"`, "null", 1), []string{"label: label is required"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := b.send("POST", "/v4/databases/"+test.engine+"/instances", b.full, test.body)
			got := r.faults()
			if r.StatusCode != 400 || len(got) != len(test.want) {
				t.Fatalf("%d %s", r.StatusCode, strings.Join(got, "\n"))
			}
			for _, want := range test.want {
				if !strings.Contains("\n"+strings.Join(got, "\n"), "\n"+want) {
					t.Errorf("no fault %q in\n%s", want, strings.Join(got, "\n"))
				}
			}
		})
	}
	if r := b.send("GET", "/v4/databases/instances", b.full, ""); !strings.Contains(r.body, `"results":0`) {
		t.Errorf("refused requests left something behind: %s", r.body)
	}
	if r := b.send("POST", "/v4/databases/mysql/instances", b.full, `{"label":"`+strings.Repeat("x", 2<<20)+`"}`); r.StatusCode != 413 || len(r.faults()) != 1 {
		t.Errorf("a huge body: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("POST", "/v4/databases/postgresql/instances", b.full, strings.Replace(goodCreate, "{", `{"from_a_newer_client":{"x":[1]},`, 1)); r.StatusCode != 200 {
		t.Errorf("unknown members must be ignored: %d %s", r.StatusCode, r.body)
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	for _, path := range []string{"/v4/databases/postgresql/instances/%d", "/v4beta/databases/postgresql/instances/%d", "/v4/databases/postgresql/instances/%d/", "/v4/databases/postgresql/instances/%d?page=0&page_size=7"} {
		r := b.send("GET", fmt.Sprintf(path, id), b.full, "")
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" || strings.Contains(r.body, "$schema") {
			t.Errorf("%s: %d %s %s", path, r.StatusCode, r.Header.Get("Content-Type"), r.body)
		}
	}
	r := b.send("GET", fmt.Sprintf("/v4/databases/postgresql/instances/%d", id), b.full, "")
	for _, want := range []string{
		`"status":"provisioning"`, `"hosts":{"primary":null,"secondary":null,"standby":null,"endpoints":[]}`, `"total_disk_size_gb":null`, `"version":"15"`,
		`"ssl_connection":true`, `"replication_type":"none"`, `"replication_commit_type":"local"`, `"allow_list":["127.0.0.1"]`, `"week_of_month":null`,
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
	if strings.Contains(r.body, `Z"`) {
		t.Errorf("times must have no zone: %s", r.body)
	}
	if r := b.send("GET", fmt.Sprintf("/v4/databases/mysql/instances/%d", id), b.full, ""); r.StatusCode != 404 {
		t.Errorf("as another engine's: %d", r.StatusCode)
	}
	for _, hostile := range []string{"0", "-1", "abc", "99999999999999999999", "1%00", "1'--", "%2e%2e", "1e3"} {
		if r := b.send("GET", "/v4/databases/postgresql/instances/"+hostile, b.full, ""); r.StatusCode != 404 || r.body != `{"errors":[{"reason":"Not found"}]}`+"\n" {
			t.Errorf("id %s: %d %s", hostile, r.StatusCode, r.body)
		}
	}
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	for _, request := range []string{"DELETE ", "PUT ", "POST /patch", "POST /suspend", "POST /credentials/reset", "GET /credentials", "GET /ssl"} {
		method, path, _ := strings.Cut(request, " ")
		r := b.send(method, one+path, b.full, "")
		if r.StatusCode != 400 || len(r.faults()) != 1 || !strings.Contains(r.body, "provisioning") || !strings.Contains(r.body, "active") {
			t.Errorf("%s while provisioning: %d %s", request, r.StatusCode, r.body)
		}
	}
}

func TestRestrictedUsers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	if r := b.send("POST", "/v4/databases/postgresql/instances", b.restricted, goodCreate); r.StatusCode != 403 || r.faults()[0] != ": Unauthorized" {
		t.Errorf("create without add_databases: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", one, b.restricted, ""); r.StatusCode != 404 {
		t.Errorf("an ungranted database: %d", r.StatusCode)
	}
	if r := b.send("GET", "/v4/databases/instances", b.restricted, "", "X-Filter", fmt.Sprintf(`{"+or":[{"id":%d},{"label":"shop"}]}`, id)); !strings.Contains(r.body, `"results":0`) {
		t.Errorf("a filter shows an ungranted database: %s", r.body)
	}
	grant := func(permission string) {
		t.Helper()
		r := b.send("PUT", "/v4/account/users/limited/grants", b.full, fmt.Sprintf(`{"global":{"add_databases":true},"database":[{"id":%d,"permissions":%s}]}`, id, permission))
		if r.StatusCode != 200 {
			t.Fatalf("grant: %d %s", r.StatusCode, r.body)
		}
	}
	grant(`"read_only"`)
	if r := b.send("GET", one, b.restricted, ""); r.StatusCode != 200 {
		t.Errorf("a granted database: %d", r.StatusCode)
	}
	for _, request := range []string{"PUT ", "POST /patch", "POST /suspend", "POST /resume", "DELETE ", "POST /credentials/reset"} {
		method, path, _ := strings.Cut(request, " ")
		if r := b.send(method, one+path, b.restricted, ""); r.StatusCode != 403 {
			t.Errorf("%s with read_only: %d %s", request, r.StatusCode, r.body)
		}
	}
	grant(`"read_write"`)
	for _, request := range []string{"DELETE ", "POST /credentials/reset"} {
		method, path, _ := strings.Cut(request, " ")
		if r := b.send(method, one+path, b.restricted, ""); r.StatusCode != 403 {
			t.Errorf("%s is for unrestricted users only: %d %s", request, r.StatusCode, r.body)
		}
	}
	if r := b.send("GET", "/v4/profile/grants", b.restricted, ""); r.StatusCode != 200 || !strings.Contains(r.body, `"read_write"`) || !strings.Contains(r.body, `"add_databases":true`) {
		t.Errorf("own grants: %d %s", r.StatusCode, r.body)
	}
	hidden := b.send("POST", "/v4/databases/mysql/instances", b.full, `{"label":"hidden","engine":"mysql/10.11","region":"local","type":"g6-nanode-1"}`)
	if r := b.send("GET", "/v4/profile/grants", b.restricted, ""); hidden.StatusCode != 200 || strings.Contains(r.body, "hidden") {
		t.Errorf("own grants name what there is none for: %s", r.body)
	}
	if r := b.send("GET", "/v4/account/users/limited/grants", b.full, ""); !strings.Contains(r.body, `"label":"hidden","permissions":null`) {
		t.Errorf("who gives grants sees all databases: %s", r.body)
	}
	if r := b.send("GET", "/v4/profile/grants", b.full, ""); r.StatusCode != 204 || r.body != "" {
		t.Errorf("grants of an unrestricted user: %d %s", r.StatusCode, r.body)
	}
	grant("null")
	if r := b.send("GET", one, b.restricted, ""); r.StatusCode != 404 {
		t.Errorf("after the grant was taken away: %d", r.StatusCode)
	}
	if r := b.send("GET", "/v4/account/users", b.restricted, ""); r.StatusCode != 403 {
		t.Errorf("users: %d", r.StatusCode)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.send("POST", "/v4/profile/tokens", b.full, `{"label":"ci","scopes":"databases:read_only,events:read_only","expiry":"2099-01-01T00:00:00Z"}`)
	var made struct {
		ID            int64
		Token, Expiry string
		Scopes        string
	}
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.StatusCode != 200 || len(made.Token) != 64 || made.Expiry != "2099-01-01T00:00:00" {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", "/v4/databases/instances", made.Token, ""); r.StatusCode != 200 || r.Header.Get("X-OAuth-Scopes") != made.Scopes {
		t.Errorf("with the new token: %d, %q", r.StatusCode, r.Header.Get("X-OAuth-Scopes"))
	}
	if r := b.send("GET", fmt.Sprintf("/v4/profile/tokens/%d", made.ID), b.full, ""); strings.Contains(r.body, made.Token) || !strings.Contains(r.body, made.Token[:16]) {
		t.Errorf("a token is shown whole only once: %s", r.body)
	}
	err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(t.Context())
		if err != nil {
			return err
		}
		weak := b.token(tx, admin, "account:read_write")
		b.expired = weak
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := b.send("POST", "/v4/profile/tokens", b.expired, `{"label":"more","scopes":"*"}`); r.StatusCode != 400 || !strings.Contains(r.body, `"scopes"`) {
		t.Errorf("a token that makes a stronger one: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("POST", "/v4/profile/tokens", b.full, `{"label":"","scopes":"databases:all","expiry":"2001-01-01T00:00:00"}`); r.StatusCode != 400 || len(r.faults()) != 3 {
		t.Errorf("three faults: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("DELETE", fmt.Sprintf("/v4/profile/tokens/%d", made.ID), b.full, ""); r.StatusCode != 200 || r.body != "{}\n" {
		t.Errorf("revoke: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", "/v4/databases/instances", made.Token, ""); r.StatusCode != 401 {
		t.Errorf("the request after the revocation: %d", r.StatusCode)
	}
}

func TestFrame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tests := []struct {
		name, method, path string
		headers            []string
		status             int
		body               string
	}{
		{"unknown path", "GET", "/v4/nothing", nil, 404, `Not found`},
		{"outside", "GET", "/", nil, 404, `Not found`},
		{"wrong method", "PATCH", "/v4/databases/instances", nil, 405, `Method Not Allowed`},
		{"no overriding of methods", "POST", "/v4/databases/instances", []string{"X-HTTP-Method-Override", "GET"}, 405, `Method Not Allowed`},
		{"engine with a slash", "GET", "/v4/databases/engines/postgresql/15", nil, 200, `"id":"postgresql/15"`},
		{"engine with %2F", "GET", "/v4/databases/engines/postgresql%2F15", nil, 200, `"id":"postgresql/15"`},
		{"page too small", "GET", "/v4/databases/engines?page_size=24", nil, 400, `{"field":"page_size","reason":"Must be 25-500"}`},
		{"page zero", "GET", "/v4/databases/engines?page=0", nil, 400, `"field":"page"`},
		{"page is no number", "GET", "/v4/databases/engines?page=x", nil, 400, `"field":"page"`},
		{"past the end", "GET", "/v4/databases/engines?page=9", nil, 200, `{"data":[],"page":9,"pages":1,"results":2}`},
		{"empty list", "GET", "/v4/databases/instances", nil, 200, `{"data":[],"page":1,"pages":1,"results":0}`},
		{"filter", "GET", "/v4/databases/engines", []string{"X-Filter", `{"engine":"mysql"}`}, 200, `"results":1`},
		{"filter that isn't JSON", "GET", "/v4/databases/instances", []string{"X-Filter", `{`}, 400, `"field":"X-Filter"`},
		{"filter by what can't be", "GET", "/v4/databases/instances", []string{"X-Filter", `{"port":1}`}, 400, `"field":"X-Filter"`},
		{"filter with SQL in it", "GET", "/v4/databases/instances", []string{"X-Filter", `{"label":"' OR 1=1 --"}`}, 200, `"results":0`},
		{"health", "GET", "/healthz", nil, 200, `{}`},
		{"ready", "GET", "/readyz", nil, 200, `{}`},
		{"types", "GET", "/v4/databases/types/g6-nanode-1", nil, 200, `"memory":1024`},
		{"prices of three nodes", "GET", "/v4/databases/types/g6-nanode-1", nil, 200, `"quantity":3`},
		{"regions", "GET", "/v4/regions/local", nil, 200, `"Managed Databases"`},
		{"document", "GET", "/openapi.yaml", nil, 200, `openapi: 3.1`},
		{"pages", "GET", "/docs", nil, 200, `/v4/databases/postgresql/instances`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := b.send(test.method, test.path, b.full, "", test.headers...)
			if r.StatusCode != test.status || !strings.Contains(r.body, test.body) {
				t.Errorf("%d %.300s; want %d %s", r.StatusCode, r.body, test.status, test.body)
			}
			if r.Header.Get("X-Request-Id") == "" || r.Header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("headers %v", r.Header)
			}
		})
	}
	if r := b.send("OPTIONS", "/v4/databases/instances", "", ""); r.StatusCode != 204 || r.Header.Get("Access-Control-Allow-Methods") == "" {
		t.Errorf("OPTIONS: %d %v", r.StatusCode, r.Header)
	}
	if r := b.send("HEAD", "/v4/databases/engines", "", ""); r.StatusCode != 200 {
		t.Errorf("HEAD: %d", r.StatusCode)
	}
	if r := b.send("GET", "/docs", "", ""); strings.Contains(r.body, "https://") {
		t.Error("the documentation page wants something from elsewhere")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, withinAMinute, func(o *api.Options) { o.RequestsPerMinute, o.FailedLoginsPerMinute = 3, 2 })
	var last reply
	for range 4 {
		last = b.send("GET", "/v4/profile", b.full, "")
	}
	if last.StatusCode != 429 || last.Header.Get("Retry-After") == "" || last.Header.Get("X-RateLimit-Limit") != "3" || last.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("the fourth request: %d %v %s", last.StatusCode, last.Header, last.body)
	}
	if r := b.send("GET", "/v4/profile", b.readOnly, ""); r.StatusCode != 200 {
		t.Errorf("another token: %d", r.StatusCode)
	}
	for range 3 {
		last = b.send("GET", "/v4/profile", strings.Repeat("1", 64), "")
	}
	if last.StatusCode != 429 {
		t.Errorf("the third failed log-in from one address: %d", last.StatusCode)
	}
}

// TestNothingLeaks: neither the access log nor errors show a token.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := newBench(t, func(o *api.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	r := b.send("GET", "/v4/profile?token=in-the-query", b.full, "")
	if strings.Contains(log.String(), b.full) || strings.Contains(log.String(), "in-the-query") || strings.Contains(r.body, b.full) {
		t.Errorf("a secret is in the log or the answer:\n%s\n%s", log.String(), r.body)
	}
	if !strings.Contains(log.String(), "request_id") || !strings.Contains(log.String(), "status=200") {
		t.Errorf("no access log line:\n%s", log.String())
	}
}
