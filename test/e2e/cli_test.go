package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/await"
	"steward/test/harness"
)

// TestCommands runs the command line against a running server, and the
// operators' commands against one that is stopped.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := harness.New(t, ofPostgreSQL)
	run := func(args ...string) string {
		t.Helper()
		out, err := s.Command(args...)
		if err != nil {
			t.Fatalf("steward %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := s.Command(args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("steward %s: %v, want a refusal with %q\n%s", strings.Join(args, " "), err, want, out)
		}
	}

	out := run("db", "create", "cli-pg", "--engine", "postgresql/15", "--allow", "127.0.0.1,10.0.0.0/8", "--allow-note", "127.0.0.1=this machine, and = it", "--config", "pg.jit=true", "--config", "pg.timezone=Asia/Tokyo", "--protect", "--json")
	var d harness.Database
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &d); err != nil || d.Status != "active" {
		t.Fatalf("db create --json printed %s: %v", out, err)
	}
	if out := run("db", "list"); !strings.Contains(out, "cli-pg") || !strings.Contains(out, "LABEL") {
		t.Errorf("db list printed %s", out)
	}
	run("db", "update", "cli-pg", "--allow-note", "10.0.0.0/8=VPN")
	if out := run("db", "view", "cli-pg"); !strings.Contains(out, "  127.0.0.1  this machine, and = it\n  10.0.0.0/8  VPN\n") {
		t.Errorf("db view printed %s", out)
	}
	run("db", "update", "cli-pg", "--allow", "127.0.0.1")
	if out := run("db", "view", "cli-pg", "--json"); !strings.Contains(out, `"status": "active"`) {
		t.Errorf("db view printed %s", out)
	}
	if out := run("db", "config", "list", "cli-pg"); !strings.Contains(out, "pg.max_locks_per_transaction") || !strings.Contains(out, "64 to 6400") {
		t.Errorf("db config list printed %s", out)
	}
	if out := run("db", "config", "list", "mysql", "--json"); !strings.Contains(out, `"name": "binlog_retention_period"`) {
		t.Errorf("db config list printed %s", out)
	}
	if out := run("db", "config", "set", "cli-pg", "work_mem=8", "pg.deadlock_timeout=2000", "--unset", "pg.jit"); strings.Contains(out, "jit") || !strings.Contains(out, "pg.deadlock_timeout  2000") {
		t.Errorf("db config set printed %s", out)
	}
	if out := run("db", "config", "set", "cli-pg", "pg.deadlock_timeout=null", "--json"); strings.Contains(out, "deadlock") {
		t.Errorf("db config set printed %s", out)
	}
	if out := strings.Join(strings.Fields(run("db", "config", "get", "cli-pg", "--json")), ""); !strings.HasSuffix(out, `{"pg":{"timezone":"Asia/Tokyo"},"work_mem":8}`) {
		t.Errorf("db config get printed %s", out)
	}
	refused("engine_config.pg.nonsense: There is no such parameter", "db", "config", "set", "cli-pg", "pg.nonsense=1")
	refused("name=value", "db", "config", "set", "cli-pg", "work_mem")
	ca := t.TempDir()
	if out := run("db", "connect", "cli-pg", "--ca-dir", ca); !strings.Contains(out, "sslmode=verify-full") {
		t.Errorf("db connect printed %s", out)
	}
	if _, err := os.Stat(filepath.Join(ca, "cli-pg-ca.crt")); err != nil {
		t.Error(err)
	}
	logicalCommands(t, s, d, run, refused)
	before := run("db", "credentials", "cli-pg")
	if after := run("db", "credentials", "cli-pg", "--reset"); after == before || !strings.Contains(after, "dbadmin") {
		t.Errorf("credentials before and after a reset:\n%s\n%s", before, after)
	}
	if out := run("db", "patch", "cli-pg"); !strings.Contains(out, "15.") {
		t.Errorf("db patch printed %s", out)
	}
	if out := run("db", "restart", "cli-pg"); !strings.Contains(out, "cli-pg is active") {
		t.Errorf("db restart printed %s", out)
	}
	if out := run("event", "list"); !strings.Contains(out, "database_create") || !strings.Contains(out, "100%") {
		t.Errorf("event list printed %s", out)
	}
	if out := run("event", "audit"); !strings.Contains(out, "POST /v4/databases/postgresql/instances/") || !strings.Contains(out, "127.0.0.1") {
		t.Errorf("event audit printed %s", out)
	}
	if out := run("node", "list", "--data", s.Data); !strings.Contains(out, "postgresql-15") || !strings.Contains(out, "running") {
		t.Errorf("node list printed %s", out)
	}
	if out := run("doctor"); !strings.Contains(out, "postgresql/15") {
		t.Errorf("doctor printed %s", out)
	}

	run("user", "create", "someone", "--email", "someone@example.org", "--restricted", "--data", s.Data)
	refused("Username taken", "user", "create", "someone", "--email", "someone@example.org", "--data", s.Data)
	refused("username:", "user", "create", "x_", "--email", "nobody", "--data", s.Data)
	token := strings.TrimSpace(run("token", "create", "--user", "someone", "--scopes", "databases:read_only", "--expires", "1h", "--data", s.Data))
	if len(token) != 64 {
		t.Fatalf("token create printed %q, want the token alone", token)
	}
	refused("scopes:", "token", "create", "--user", "someone", "--scopes", "everything", "--data", s.Data)
	refused("no user", "token", "create", "--user", "nobody", "--scopes", "*", "--data", s.Data)
	admin := s.Token
	s.Token = token
	if out := run("db", "list"); strings.Contains(out, "cli-pg") {
		t.Errorf("a restricted user sees what it isn't granted: %s", out)
	}
	s.Token = admin

	refused("autoscale.max_type", "db", "update", "cli-pg", "--autoscale", "--autoscale-at", "95", "--autoscale-max", "none")
	run("db", "update", "cli-pg", "--autoscale", "--autoscale-at", "50", "--autoscale-max", "g6-standard-1")
	if out := run("db", "view", "cli-pg", "--json"); !strings.Contains(strings.Join(strings.Fields(out), ""), `"autoscale":{"enabled":true,"threshold_percent":50,"max_type":"g6-standard-1"`) {
		t.Errorf("db view printed %s", out)
	}
	refused("lists the commands", "no-such-command")

	run("stop", "--data", s.Data, "--config", s.ConfigPath())
	<-s.Exited()
	if token := strings.TrimSpace(run("token", "create", "--user", "admin", "--scopes", "*", "--data", s.Data)); len(token) != 64 {
		t.Errorf("token create without a server printed %q", token)
	}
	s.Start()
	if status, body := s.Call("GET", "/v4/databases/instances", nil, nil); status != 200 {
		t.Errorf("after the restart: %d %s", status, body)
	}
	deletionProtection(t, s, d)
	refused("no database", "db", "view", "cli-pg")
}

// logicalCommands makes a logical database and users, of whom one logs in by the gateway.
func logicalCommands(t *testing.T, s *harness.Server, d harness.Database, run func(args ...string) string, refused func(want string, args ...string)) {
	t.Helper()
	run("db", "user", "create", "cli-pg", "owner one", "--grant", "defaultdb=read")
	if out := run("db", "database", "create", "cli-pg", "orders", "--owner", "owner one"); !strings.Contains(out, "orders") || !strings.Contains(out, "owner one") {
		t.Errorf("db database create printed %s", out)
	}
	out := run("db", "user", "create", "cli-pg", "app", "--grant", "orders=write", "--grant", "defaultdb=read", "--json")
	var made harness.Credentials
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &made); err != nil || made.Password == "" {
		t.Fatalf("db user create printed %s: %v", out, err)
	}
	made.CA = s.Credentials(d).CA
	d = s.AwaitStatus(d, "active")
	s.MustConnect(d, made)
	if out := run("db", "user", "list", "cli-pg"); !strings.Contains(out, "orders=write") || strings.Contains(out, made.Password) {
		t.Errorf("db user list printed %s", out)
	}
	if out := run("db", "connect", "cli-pg", "--user", "owner one", "--database", "orders", "--ca-dir", t.TempDir()); !strings.Contains(out, `user='\''owner one'\'' dbname=orders`) {
		t.Errorf("db connect printed %s", out)
	}
	if out := run("db", "user", "reset", "cli-pg", "app"); !strings.Contains(out, "password") || strings.Contains(out, made.Password) {
		t.Errorf("db user reset printed %s", out)
	}
	if out := run("db", "user", "grant", "cli-pg", "app"); !strings.Contains(out, "app has: -") {
		t.Errorf("db user grant printed %s", out)
	}
	if out := run("db", "extension", "create", "cli-pg", "citext", "--database", "orders"); !strings.Contains(out, "citext") {
		t.Errorf("db extension create printed %s", out)
	}
	if out := run("db", "extension", "list", "cli-pg", "--json"); !strings.Contains(out, `"name": "citext"`) || strings.Contains(out, "dblink") {
		t.Errorf("db extension list printed %s", out)
	}
	refused("doesn't offer dblink", "db", "extension", "create", "cli-pg", "dblink")
	run("db", "extension", "drop", "cli-pg", "citext", "--database", "orders")
	if out := run("db", "extension", "create", "cli-pg", "postgis"); !strings.Contains(out, "postgis") {
		t.Errorf("db extension create printed %s", out)
	}
	var projected string
	err := s.MustConnect(d, s.Credentials(d)).QueryRowContext(t.Context(), "SELECT postgis.ST_AsText(postgis.ST_Transform('SRID=4326;POINT(13.4 52.5)'::postgis.geometry, 3857), 0)").Scan(&projected)
	if err != nil || projected != "POINT(1491681 6891042)" { // PROJ's database of projections is readable inside the server's sandbox
		t.Errorf("the point in Web Mercator is %s, %v", projected, err)
	}
	run("db", "extension", "drop", "cli-pg", "postgis")
	runsJobs(t, s, d, run, refused)
	refused("owns databases: orders", "db", "user", "delete", "cli-pg", "owner one")
	refused("nothing was deleted", "db", "database", "delete", "cli-pg", "orders")
	run("db", "database", "delete", "cli-pg", "orders", "--yes")
	run("db", "user", "delete", "cli-pg", "owner one")
	run("db", "user", "delete", "cli-pg", "app")
	if out := strings.TrimSpace(run("db", "user", "list", "cli-pg", "--json")); out != "[]" {
		t.Errorf("db user list printed %s", out)
	}
}

// runsJobs has a database load pg_cron and run a job of it.
func runsJobs(t *testing.T, s *harness.Server, d harness.Database, run func(args ...string) string, refused func(want string, args ...string)) {
	t.Helper()
	if out := run("db", "extension", "offered", "--engine-version", "15"); !strings.Contains(out, "pg.cron.database_name") || !strings.Contains(out, "pg_repack") {
		t.Errorf("db extension offered printed %s", out)
	}
	refused("version: ", "db", "extension", "offered", "--engine-version", "8")
	refused("set engine_config.pg.cron.database_name first", "db", "extension", "create", "cli-pg", "pg_cron")
	refused("for superusers only", "db", "extension", "create", "cli-pg", "pg_repack")
	run("db", "config", "set", "cli-pg", "pg.cron.database_name=defaultdb")
	d = s.AwaitStatus(d, "active")
	run("db", "extension", "create", "cli-pg", "pg_cron")
	db := s.MustConnect(d, s.Credentials(d))
	if _, err := db.ExecContext(t.Context(), "SELECT cron.schedule('@reboot', 'CREATE TABLE ran AS SELECT current_user AS who')"); err != nil {
		t.Fatal(err)
	}
	run("db", "restart", "cli-pg")
	d = s.AwaitStatus(d, "active")
	db = s.MustConnect(d, s.Credentials(d))
	await.True(t, "the job has run", func() bool {
		var who string
		return db.QueryRowContext(t.Context(), "SELECT who FROM ran").Scan(&who) == nil && who == "dbadmin"
	})
}
