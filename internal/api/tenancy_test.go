package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/logical"
	"steward/internal/monitor"
	"steward/internal/pgtest"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

// shared are parameters that name what is everybody's; every other one names
// something of an account.
var shared = map[string]string{"id": "g6-nanode-1", "engine": "postgresql", "series": "15", "serviceType": "dbaas"}

// refused are operations that are there to say that something isn't offered, or that want what an authenticator shows.
var refused = map[string]bool{"POST /v4/profile/tfa-enable-confirm": true, "POST /v4/monitor/services/{serviceType}/token": true}

// everywhere are operations whose names are one's alone among all accounts, since everybody
// can see them.
var everywhere = map[string]bool{"POST /v4/managed/status-pages": true}

// absent are ids that nobody has: numbers unless said otherwise.
var absent = map[string]string{"queryId": "0-4243-1", "databaseName": "nothing", "databaseUser": "nobody", "extensionName": "nothing", "poolLabel": "nothing", "clientId": strings.Repeat("0", 20), "username": "nobody"}

const absentNumber = "999999"

// bodies are what can be sent, by the name of the schema, with NAME for a name that
// an account may have once. REF is the id of something else of the account's.
// Operations that take another schema make the test fail until it is here.
var bodies = map[string]struct {
	good string
	// reference has a REF, to what refers says.
	reference, refers string
}{
	"MysqlCreate": {
		good:      `{"label":"NAME-my","engine":"mysql/10.11","region":"local","type":"g6-nanode-1","allow_list":["192.0.2.1"]}`,
		reference: `{"label":"forked","engine":"mysql/10.11","region":"local","type":"g6-nanode-1","fork":{"source":REF}}`, refers: "mysql.instanceId",
	},
	"PostgresqlCreate": {
		good:      `{"label":"NAME-pg","engine":"postgresql/15","region":"local","type":"g6-nanode-1","allow_list":["192.0.2.1"]}`,
		reference: `{"fork":{"source":REF,"restore_time":"2026-01-01T00:00:00"}}`, refers: "postgresql.instanceId",
	},
	"DatabaseUpdate":   {good: `{"label":"taken-over","allow_list":["0.0.0.0/0"]}`},
	"SnapshotBody":     {good: `{"label":"takenOver"}`},
	"UpgradeCheckBody": {good: `{"version":"17"}`},
	"RestoreBody":      {good: `{"to":"2026-01-31T18:04:05"}`},
	"ClientCreate":     {good: `{"label":"NAME","redirect_uri":"https://NAME.example.org/"}`},
	"ClientUpdate":     {good: `{"label":"taken over","redirect_uri":"https://evil.example.org/"}`},
	"UserCreate":       {good: `{"username":"NAME","email":"NAME@example.org","restricted":true}`},
	"UserUpdate":       {good: `{"username":"evil","email":"evil@example.org"}`},
	"GrantsUpdate": {
		good:      `{"global":{"add_databases":true}}`,
		reference: `{"database":[{"id":REF,"permissions":"read_write"}]}`, refers: "mysql.instanceId",
	},
	"ComputeUpdate":    {good: `{"ssh":{"access":false,"user":"evil"}}`},
	"ContactCreate":    {good: `{"name":"NAME","email":"NAME@example.org","group":"NAME"}`},
	"ContactUpdate":    {good: `{"email":"evil@example.org"}`},
	"CredentialCreate": {good: `{"label":"NAME","username":"root","password":"not told"}`},
	"CredentialUpdate": {good: `{"label":"taken over"}`},
	"LoginUpdate":      {good: `{"username":"evil","password":"evil"}`},
	"ServiceCreate": {
		good:      `{"label":"NAME","service_type":"url","address":"https://NAME.example.org/","timeout":5,"consultation_group":"NAME"}`,
		reference: `{"label":"x of theirs","service_type":"url","address":"https://x.example.org/","timeout":5,"credentials":[REF]}`, refers: "credentialId",
	},
	"ServiceUpdate": {good: `{"address":"https://evil.example.org/"}`, reference: `{"credentials":[REF]}`, refers: "credentialId"},
	"AlertCreate": {
		good: `{"label":"NAME","severity":1,"channel_ids":[1],"scope":"account","rule_criteria":{"rules":[{"metric":"cpu_usage","aggregate_function":"avg","operator":"gt","threshold":90}]},
			"trigger_conditions":{"criteria_condition":"ALL","evaluation_period_seconds":300,"polling_interval_seconds":300,"trigger_occurrences":1}}`,
		reference: `{"label":"x","severity":1,"channel_ids":[1],"entity_ids":["REF"],"rule_criteria":{"rules":[{"metric":"cpu_usage","aggregate_function":"avg","operator":"gt","threshold":90}]},
			"trigger_conditions":{"criteria_condition":"ALL","evaluation_period_seconds":300,"polling_interval_seconds":300,"trigger_occurrences":1}}`, refers: "mysql.instanceId",
	},
	"ChannelCreate": {good: `{"label":"NAME","channel_type":"webhook","details":{"webhook":{"url":"https://NAME.example.org/"}}}`},
	"ChannelUpdate": {good: `{"label":"evil"}`},
	"AlertUpdate":   {good: `{"label":"evil"}`, reference: `{"scope":"entity","entity_ids":["REF"]}`, refers: "mysql.instanceId"},
	"MetricsBody": {
		good:      `{"entity_ids":[],"metrics":[{"name":"cpu_usage","aggregate_function":"avg"}]}`,
		reference: `{"entity_ids":[REF],"metrics":[{"name":"cpu_usage","aggregate_function":"avg"}]}`, refers: "mysql.instanceId",
	},
	"TokenCreate":     {good: `{"label":"NAME","scopes":"*"}`},
	"TokenUpdate":     {good: `{"label":"taken over"}`},
	"ExtensionCreate": {good: `{"database":"defaultdb","name":"NAME"}`},
	"ExtensionUpdate": {good: `{"database":"defaultdb"}`},
	"LogicalCreate":   {good: `{"name":"NAME"}`},
	"PoolCreate":      {good: `{"label":"NAME","database":"defaultdb","mode":"session","size":1}`},
	"PoolUpdate":      {good: `{"size":2}`},
	"MigrationBody":   {good: `{"source":{"host":"db.example.org","port":5432,"username":"NAME","password":"not told"},"databases":[{"name":"NAME"}]}`},
	"LoginUserCreate": {good: `{"username":"NAME","grants":[{"database":"defaultdb","privilege":"read"}]}`},
	"LoginUserUpdate": {good: `{"grants":[]}`},
	"PlanBody":        {good: `{"database":"defaultdb","query":"select 1"}`},
	"ReplyCreate":     {good: `{"description":"from a stranger","public":true}`},
	"FactorConfirm":   {good: `{"tfa_code":"000000"}`},
	"ReplyUpdate":     {good: `{"public":true}`},
	"StatusPageCreate": {
		good:      `{"slug":"NAME-page","title":"NAME"}`,
		reference: `{"slug":"of-theirs","title":"x","services":[REF]}`, refers: "serviceId",
	},
	"StatusPageUpdate": {good: `{"title":"taken over"}`, reference: `{"databases":[REF]}`, refers: "mysql.instanceId"},
	"ProfileUpdate":    {good: `{"email":"NAME@example.net"}`},
	"":                 {good: `{"theme":"NAME"}`}, // preferences, which are any object
}

// tenantOperation is one operation of the document.
type tenantOperation struct {
	method, path string
	// scope is none for what everybody may see.
	scope string
	// schema is the name of the body's; takes reports whether there is a body.
	schema string
	takes  bool
	// list reports whether it takes X-Filter.
	list bool
}

func (o tenantOperation) String() string { return o.method + " " + o.path }

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// owned are the operation's parameters that name something of an account, with the
// engine where the path has one: the ids of both go by different paths.
func (o tenantOperation) owned() []string {
	var names []string
	for _, match := range parameter.FindAllStringSubmatch(o.path, -1) {
		if shared[match[1]] == "" {
			names = append(names, o.qualified(match[1]))
		}
	}
	return names
}

func (o tenantOperation) qualified(name string) string {
	for _, engine := range []string{"mysql", "postgresql"} {
		if strings.Contains(o.path, "/databases/"+engine+"/") {
			return engine + "." + name
		}
	}
	return name
}

// at is the path with ids in it.
func (o tenantOperation) at(ids map[string]string) string {
	return parameter.ReplaceAllStringFunc(o.path, func(p string) string {
		name := strings.Trim(p, "{}")
		if value := shared[name]; value != "" {
			if strings.Contains(o.path, "regions") || strings.Contains(o.path, "availability") {
				return "local"
			}
			return value
		}
		return ids[o.qualified(name)]
	})
}

// tenantOperations are all of the document's, in the order of their paths.
func tenantOperations(t *testing.T, b *bench) []tenantOperation {
	t.Helper()
	var d struct {
		Paths map[string]map[string]struct {
			Scope       string `yaml:"x-scope"`
			Parameters  []struct{ Name string }
			RequestBody *struct {
				Content map[string]struct {
					Schema struct {
						Ref string `yaml:"$ref"`
					}
				}
			} `yaml:"requestBody"`
		}
	}
	readDocument(t, &d)
	var all []tenantOperation
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		if strings.HasPrefix(path, "/v4/operator/") { // TestOperatorsAlone
			continue
		}
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			op := d.Paths[path][method]
			o := tenantOperation{method: strings.ToUpper(method), path: path, scope: op.Scope, takes: op.RequestBody != nil}
			for _, p := range op.Parameters {
				o.list = o.list || p.Name == "X-Filter"
			}
			if o.takes {
				o.schema = strings.TrimPrefix(op.RequestBody.Content["application/json"].Schema.Ref, "#/components/schemas/")
				if _, known := bodies[o.schema]; !known {
					t.Errorf("%s takes a %s, of which this test knows no example", o, o.schema)
				}
			}
			all = append(all, o)
		}
	}
	if len(all) < 100 {
		t.Fatalf("only %d operations found: the walk is broken", len(all))
	}
	return all
}

// tenant is an account that has one of everything.
type tenant struct {
	name, token string
	user        account.User
	ids         map[string]string
}

// furnish makes one of everything that operations can name, by the operations that
// make it and, where there are none, as steward itself does.
func (b *bench) furnish(all []tenantOperation, x *tenant) {
	b.t.Helper()
	x.ids = map[string]string{}
	ctx := b.t.Context()
	for _, o := range all {
		if o.method != "POST" || len(o.owned()) > 0 || refused[o.String()] {
			continue
		}
		r := b.send("POST", o.at(nil), x.token, strings.ReplaceAll(bodies[o.schema].good, "NAME", x.name))
		if r.StatusCode != 200 {
			b.t.Fatalf("%s: %d %s", o, r.StatusCode, r.body)
		}
		var made map[string]any
		b.decode(r, &made)
		for _, one := range all { // what it made is named by the parameter that follows its path
			if rest, ok := strings.CutPrefix(one.path, o.path+"/{"); ok && strings.HasSuffix(rest, "}") && !strings.Contains(rest, "/") {
				name := strings.TrimSuffix(rest, "}")
				value := made["id"]
				if value == nil {
					value = made[name]
				}
				x.ids[one.qualified(name)] = fmt.Sprint(value)
			}
		}
	}
	err := b.store.InTx(ctx, func(tx *store.Tx) error {
		machine, err := tx.CreateMachine(ctx, monitor.Machine{Account: x.user.Account, Label: x.name, Source: "http://192.0.2.1:9100/metrics"})
		if err != nil {
			return err
		}
		issue, err := tx.OpenIssue(ctx, monitor.Issue{Created: time.Now(), Account: x.user.Account, Host: x.name, Ticket: monitor.Ticket{Summary: x.name}})
		if err != nil {
			return err
		}
		reply, err := tx.AddReply(ctx, monitor.Reply{Ticket: issue.Ticket.ID, Kind: monitor.Replied, By: "steward", FromStaff: true, Text: x.name})
		if err != nil {
			return err
		}
		x.ids["replyId"] = fmt.Sprint(reply.ID)
		if err := tx.AddAudit(ctx, account.Audit{
			At: time.Now(), Account: x.user.Account, User: x.user.ID, Username: x.user.Username, Address: "192.0.2.7", Action: "POST /oauth/authorize", Status: 303,
		}); err != nil {
			return err
		}
		if _, err := tx.Pgx().Exec(ctx, `INSERT INTO compute_points (compute_id, at, cpu, disk, swap, net_in, net_out, covered)
			VALUES ($1, date_trunc('hour', now()) - interval '1 hour', 1, 2, 3, 4, 5, 300)`, int64(machine.ID)); err != nil {
			return err
		}
		x.ids["computeId"], x.ids["issueId"], x.ids["ticketId"] = fmt.Sprint(machine.ID), fmt.Sprint(issue.ID), fmt.Sprint(issue.Ticket.ID)
		for name, sql := range map[string]string{
			"loginId": "SELECT max(id) FROM audit WHERE account_id = $1 AND user_id = $2",
			"eventId": "SELECT max(id) FROM operations WHERE account_id = $1 AND $2::bigint > 0",
			"appId": `WITH a AS (INSERT INTO authorizations (request, client_id, user_id, scopes, created)
					SELECT id || '-request', id, $2, '*', now() FROM oauth_clients WHERE account_id = $1 RETURNING id)
				INSERT INTO refresh_tokens (hash, authorization_id, expiry) SELECT sha256(a.id::text::bytea), a.id, now() + interval '1 day' FROM a RETURNING authorization_id`,
			"postgresql.backupId": backupOf("postgresql"),
			"mysql.backupId":      backupOf("mysql"),

			"postgresql.migrationId": migrationOf("postgresql"),
			"mysql.migrationId":      migrationOf("mysql"),
		} {
			var id int64
			if err := tx.Pgx().QueryRow(ctx, sql, int64(x.user.Account), int64(x.user.ID)).Scan(&id); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			x.ids[name] = fmt.Sprint(id)
		}
		for _, engine := range []string{"postgresql.", "mysql."} {
			x.ids[engine+"queryId"], x.ids[engine+"databaseName"], x.ids[engine+"databaseUser"] = "0-4242-1", x.name, x.name
			x.ids[engine+"extensionName"], x.ids[engine+"poolLabel"] = x.name, x.name
		}
		for _, engine := range []string{"postgresql", "mysql"} {
			id, _ := strconv.ParseInt(x.ids[engine+".instanceId"], 10, 64)
			b.world.Put(memplatform.Cluster{ID: cluster.ID(id), Size: 1, Running: true, Bootstrapped: true, Routed: true, Version: "15.2", Inside: memplatform.Inside{
				Databases:  []logical.Database{{Name: "defaultdb", Owner: logical.Root}, {Name: x.name, Owner: logical.Root}},
				Extensions: []logical.Extension{{Name: x.name, Version: "1", Installed: "1", Offered: true}},
				Users:      []memplatform.LogicalUser{{User: logical.User{Name: x.name, Grants: []logical.Grant{{Database: "defaultdb", Privilege: logical.Write}}}}},
			}})
		}
		gone := cluster.Spec{Label: "gone-" + x.name, Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "g6-nanode-1", Size: 1}
		deleted, err := tx.CreateCluster(ctx, cluster.Cluster{Account: x.user.Account, Spec: gone.WithDefaults()}, nil, store.Ports{First: 25000, Last: 25010})
		if err != nil {
			return err
		}
		x.ids["databaseId"] = fmt.Sprint(deleted.ID)
		if _, err := tx.Pgx().Exec(ctx, "UPDATE clusters SET deleted = now(), final_until = now() + interval '1 hour' WHERE id = $1", int64(deleted.ID)); err != nil {
			return err
		}
		pool, err := json.Marshal([]cluster.Pool{{Label: x.name, Database: "defaultdb", Mode: cluster.PoolSession, Size: 1}})
		if err != nil {
			return err
		}
		_, err = tx.Pgx().Exec(ctx, "UPDATE clusters SET status = 'active', pools = CASE engine WHEN 'postgresql' THEN $2::jsonb ELSE '[]' END WHERE account_id = $1", int64(x.user.Account), pool)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, o := range all {
		for _, name := range o.owned() {
			if x.ids[name] == "" {
				b.t.Errorf("%s has the parameter %s, of which this test has nothing: make one, or add it to shared", o, name)
			}
		}
		if r := b.send("GET", o.at(x.ids), x.token, ""); o.method == "GET" && r.StatusCode != 200 && r.StatusCode != 204 {
			b.t.Errorf("%s by its owner: %d %s", o, r.StatusCode, r.body)
		}
	}
}

// migrationOf is SQL that makes a migration into a database of an engine.
func migrationOf(engine string) string {
	return `INSERT INTO migrations (account_id, cluster_id, host, port, username, tls, ca, mode, databases, status, created, finished)
		SELECT account_id, id, 'db.example.org', 5432, 'mover', 'verify', '', 'dump', '[]', 'finished', now(), now() FROM clusters
		WHERE account_id = $1 AND $2::bigint > 0 AND engine = '` + engine + `' RETURNING id`
}

func backupOf(engine string) string {
	return `INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, finished)
		SELECT account_id, id, 'snapshot', 'one', 'primary', 'complete', now(), now() FROM clusters WHERE account_id = $1 AND engine = '` + engine + `' AND $2::bigint > 0 RETURNING id`
}

// seen are the answers to all that an account can look at, by request.
func (b *bench) seen(all []tenantOperation, x *tenant) map[string]string {
	b.t.Helper()
	answers := map[string]string{}
	for _, o := range all {
		if o.method != "GET" {
			continue
		}
		for _, query := range []string{"", "?page_size=25", "?page=2"} {
			for _, filter := range []string{"", `{"+order_by":"id","+order":"desc"}`, `{"id":{"+gte":0}}`, `{"label":"alpha"}`, `{"label":{"+contains":"alpha"}}`, `{"username":"alpha"}`, `{"+or":[{"label":"alpha-pg"},{"+and":[]}]}`} {
				if (query != "" || filter != "") && !o.list {
					continue
				}
				if strings.HasSuffix(o.path, "/metrics") { // else it is of the last hour, whenever that is
					query = "?from=2026-01-01T00:00:00&to=2026-01-02T00:00:00"
				}
				r := b.send("GET", o.at(x.ids)+query, x.token, "", "X-Filter", filter)
				answers[o.String()+query+" "+filter] = fmt.Sprint(r.StatusCode, " ", r.Header.Get("ETag"), " ", r.body)
			}
		}
	}
	return answers
}

// TestTenancy walks the document. An account that has one of everything, and what it
// is called, make no difference to another one: what that can look at, page through
// and filter is the same to the last byte before and after; what it asks of the
// other's ids is answered like ids that nobody has, by the same questions to the
// store, and changes nothing; and it may use all names that the other uses.
func TestTenancy(t *testing.T) {
	t.Parallel()
	b, asked, all, mallory := newTenancy(t)
	before := b.seen(all, mallory)
	alice := &tenant{name: "alpha", token: b.full}
	if err := b.store.InTx(t.Context(), func(tx *store.Tx) (err error) {
		alice.user, err = tx.EnsureAdmin(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.furnish(all, alice)
	if after := b.seen(all, mallory); !cmp.Equal(before, after) {
		t.Errorf("another account's things show:\n%s", cmp.Diff(before, after))
	}
	hers := b.seen(all, alice)
	b.asForeign(t, asked, all, alice, mallory)
	b.asReference(t, all, alice, mallory)
	for _, o := range all { // names are each account's own
		if o.method != "POST" || len(o.owned()) > 0 || refused[o.String()] {
			continue
		}
		if r := b.send("POST", o.at(nil), mallory.token, strings.ReplaceAll(bodies[o.schema].good, "NAME", alice.name)); r.StatusCode != 200 && !everywhere[o.String()] {
			t.Errorf("%s with names that another account uses: %d %s", o, r.StatusCode, r.body)
		}
	}
	if now := b.seen(all, alice); !cmp.Equal(hers, now) {
		t.Errorf("another account changed what is seen:\n%s", cmp.Diff(hers, now))
	}
}

// newTenancy is a bench with one tenant, and what the store is asked.
func newTenancy(t *testing.T) (*bench, *asked, []tenantOperation, *tenant) {
	t.Helper()
	var tracer asked
	b, _ := benchesOn(t, pgtest.Store(t, pgtest.WithTracer(&tracer)), false)
	b.api.Control.Services.Networks, b.api.Control.AlertChannels.Networks = &monitor.Networks{}, &monitor.Networks{}
	all := tenantOperations(t, b)
	mallory := &tenant{name: "beta", token: b.stranger()}
	var err error
	if mallory.user, err = b.store.UserAnywhere(t.Context(), "stranger"); err != nil {
		t.Fatal(err)
	}
	b.furnish(all, mallory)
	return b, &tracer, all, mallory
}

// asForeign sends each operation that names something with the ids of another account,
// alone and beside one's own.
func (b *bench) asForeign(t *testing.T, tracer *asked, all []tenantOperation, owner, stranger *tenant) {
	t.Helper()
	state, tried := dump(t, b), 0
	for _, o := range all {
		names := o.owned()
		for subset := 1; subset < 1<<len(names); subset++ {
			foreign, missing := maps.Clone(stranger.ids), maps.Clone(stranger.ids)
			for i, name := range names {
				if subset&(1<<i) != 0 {
					foreign[name] = owner.ids[name]
					missing[name] = nobodys(name)
				}
			}
			for _, body := range tries(o) {
				tracer.take()
				theirs := b.send(o.method, o.at(foreign), stranger.token, body)
				questions := tracer.queries()
				none := b.send(o.method, o.at(missing), stranger.token, body)
				asked := tracer.queries()
				tried++
				if theirs.StatusCode != none.StatusCode || theirs.body != none.body || theirs.StatusCode < 400 {
					t.Errorf("%s %s of another account's: %d %s; of what isn't there: %d %s", o, body, theirs.StatusCode, theirs.body, none.StatusCode, none.body)
				}
				if diff := cmp.Diff(telling(none.Header), telling(theirs.Header)); diff != "" {
					t.Errorf("%s %s: headers differ:\n%s", o, body, diff)
				}
				if diff := cmp.Diff(asked, questions); diff != "" {
					t.Errorf("%s %s: the store is asked something else:\n%s", o, body, diff)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d requests were tried: the walk is broken", tried)
	}
	if now := dump(t, b); now != state {
		t.Errorf("requests that were refused changed something:\n%s", cmp.Diff(strings.Split(state, "\n"), strings.Split(now, "\n")))
	}
}

// nobodys is an id that nobody has.
func nobodys(name string) string {
	_, bare, qualified := strings.Cut(name, ".")
	if !qualified {
		bare = name
	}
	if id := absent[bare]; id != "" {
		return id
	}
	return absentNumber
}

// tries are the bodies that an operation is tried with: one that would do something,
// nothing, and one that is wrong.
func tries(o tenantOperation) []string {
	if !o.takes {
		return []string{""}
	}
	return []string{bodies[o.schema].good, "{}", `{"label":1,"email":2,"description":3,"ssh":4,"global":5}`}
}

// telling are the headers that say something of the answer. How much of a limit is
// left is the caller's own.
func telling(h http.Header) http.Header {
	h = h.Clone()
	for _, own := range []string{"X-Request-Id", "Date", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		h.Del(own)
	}
	return h
}

// queries are what the store was asked, without the values and without who asked:
// that is remembered for a while.
func (a *asked) queries() []string {
	var all []string
	for _, q := range a.take() {
		if q, _, _ = strings.Cut(q, " ["); !strings.HasPrefix(q, "-- name: TokenPrincipal") {
			all = append(all, q)
		}
	}
	return all
}

// asReference sends bodies that refer to something of another account's, in requests
// that are about one's own.
func (b *bench) asReference(t *testing.T, all []tenantOperation, owner, stranger *tenant) {
	t.Helper()
	tried := 0
	for _, o := range all {
		body := bodies[o.schema]
		if !o.takes || body.reference == "" {
			continue
		}
		tried++
		send := func(id string) (int, string) {
			r := b.send(o.method, o.at(stranger.ids), stranger.token, strings.ReplaceAll(body.reference, "REF", id))
			return r.StatusCode, strings.ReplaceAll(r.body, id+" is not valid", "REF is not valid")
		}
		theirs, text := send(owner.ids[body.refers])
		none, same := send(absentNumber)
		if theirs != none || text != same || theirs != 400 {
			t.Errorf("%s that refers to another account's %s: %d %s; to what isn't there: %d %s", o, body.refers, theirs, text, none, same)
		}
		if mine, text := send(stranger.ids[body.refers]); mine == 400 && text == same {
			t.Errorf("%s that refers to one's own: %d %s: the attack is blunt", o, mine, text)
		}
	}
	if tried != 10 {
		t.Errorf("%d operations with references were tried", tried)
	}
}

// TestForeignIDsTakeAsLongThorough: how long an answer takes doesn't tell an id of another
// account's from one that nobody has. The same questions to the store, which TestTenancy
// demands, are the reason; this measures what comes of it.
func TestForeignIDsTakeAsLongThorough(t *testing.T) {
	t.Parallel()
	b, _, all, mallory := newTenancy(t)
	alice := &tenant{name: "alpha", token: b.full}
	if err := b.store.InTx(t.Context(), func(tx *store.Tx) (err error) {
		alice.user, err = tx.EnsureAdmin(t.Context())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.furnish(all, alice)
	missing := map[string]string{}
	for name := range alice.ids {
		missing[name] = nobodys(name)
	}
	for _, o := range all {
		if len(o.owned()) == 0 || o.method == "POST" {
			continue
		}
		// What else the machine does falls on both alike; it may still take several
		// rounds until a difference is gone that isn't ours.
		var ratio float64
		for range 10 {
			if ratio = b.compare(o, mallory.token, alice.ids, missing); ratio < 1.5 {
				break
			}
		}
		if ratio >= 1.5 {
			t.Errorf("%s: the median times of a foreign and an absent id differ by a factor of %.2f", o, ratio)
		}
	}
}

// compare is the ratio, of at least 1, of the median times of an operation with two
// sets of ids, of requests that are sent in turn: few where they show already that there is no difference.
func (b *bench) compare(o tenantOperation, token string, ids ...map[string]string) (ratio float64) {
	direct := *b
	direct.handler = b.api // to check the answers would take as long as to make them
	const most, few, alike = 21, 7, 1.2
	var times [2][]time.Duration
	for i := range 2 * most {
		which := (i + i/2) % 2 // neither is always the first of two
		began := time.Now()
		direct.send(o.method, o.at(ids[which]), token, "")
		times[which] = append(times[which], time.Since(began))
		if i+1 == 2*few || i+1 == 2*most {
			one, other := median(times[0]), median(times[1])
			if ratio = max(one, other) / min(one, other); ratio < alike {
				break
			}
		}
	}
	return ratio
}

// median is that of an odd number of times.
func median(times []time.Duration) float64 {
	return float64(slices.Sorted(slices.Values(times))[len(times)/2])
}
