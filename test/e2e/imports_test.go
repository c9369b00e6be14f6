package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/wait"
	"steward/test/harness"
)

// migrated is a migration as the API answers it.
type migrated struct {
	ID                    int64
	Status, Phase         string
	Problem               *string
	Bytes                 int64
	TablesDone, TablesAll int
	LagSeconds            *int64
	Databases             []struct {
		Name, As string
		Done     bool
	}
	Problems []struct {
		Blocking bool
		Message  string
	}
}

// UnmarshalJSON takes the names of the API.
func (m *migrated) UnmarshalJSON(text []byte) error {
	type plain migrated
	var with struct {
		plain
		TablesDone int    `json:"tables_done"`
		TablesAll  int    `json:"tables_all"`
		LagSeconds *int64 `json:"lag_seconds"`
	}
	err := json.Unmarshal(text, &with)
	*m = migrated(with.plain)
	m.TablesDone, m.TablesAll, m.LagSeconds = with.TablesDone, with.TablesAll, with.LagSeconds
	return err
}

// from is a request to bring databases over, by a connection that is encrypted and verified.
func from(s harness.Source, password string, databases ...map[string]any) map[string]any {
	return map[string]any{
		"source":    map[string]any{"host": "127.0.0.1", "port": s.Port, "username": "mover", "password": password, "tls": "verify", "ca": s.CA},
		"databases": databases,
	}
}

// noneTold watches the command lines of all processes until the function that it returns is called, which fails the test when one had a secret on it,
// or when the program that should have been seen wasn't.
func noneTold(t *testing.T, program string, secrets ...string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var seen bool
	var told []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, line := range lines {
				text, _ := os.ReadFile(line) // it may have ended
				seen = seen || strings.Contains(string(text), program)
				if slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(string(text), secret) }) {
					told = append(told, strings.ReplaceAll(string(text), "\x00", " "))
				}
			}
			_ = wait.Sleep(ctx, 50*time.Millisecond) // each program that moves a database runs for longer; without a rest a core would be kept busy
		}
	}()
	return func() {
		t.Helper()
		cancel()
		<-done
		if !seen || len(told) > 0 {
			t.Errorf("%s was seen: %t; with a password: %q", program, seen, told)
		}
	}
}

// migrate brings databases over and waits for the end.
func migrate(t *testing.T, s *harness.Server, d harness.Database, request map[string]any) migrated {
	t.Helper()
	var m migrated
	if status, body := s.Call("POST", d.Path()+"/migrations", request, &m); status != http.StatusOK {
		t.Fatalf("migrate: %s", body)
	}
	return awaitMigrated(t, s, d, m.ID)
}

func awaitMigrated(t *testing.T, s *harness.Server, d harness.Database, id int64) (m migrated) {
	t.Helper()
	s.Eventually("the migration ends", func() error {
		if status, body := s.Call("GET", fmt.Sprintf("%s/migrations/%d", d.Path(), id), nil, &m); status != http.StatusOK {
			t.Fatal(body)
		}
		if m.Status != "finished" && m.Status != "failed" && m.Status != "canceled" {
			return fmt.Errorf("it is %s", m.Status)
		}
		return nil
	})
	return m
}

// shopOfPostgreSQL is a database with some of everything that a schema can have.
const shopOfPostgreSQL = `
CREATE EXTENSION pg_trgm;
CREATE SCHEMA "odd ""name";
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, mood mood DEFAULT 'good', lower_name text GENERATED ALWAYS AS (lower(name)) STORED);
CREATE TABLE orders (id serial PRIMARY KEY, customer bigint NOT NULL REFERENCES customers ON DELETE CASCADE, at timestamptz NOT NULL DEFAULT now(), note text) ;
CREATE INDEX orders_note ON orders USING gin (note gin_trgm_ops);
CREATE TABLE "odd ""name"."Ta\ble" ("co""l" bytea, d double precision);
CREATE TABLE parts (n int NOT NULL, v text) PARTITION BY RANGE (n);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (1000) TO (2000);
CREATE TABLE nothing ();
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
/*
\! touch /tmp/never
*/
  NEW.note := coalesce(NEW.note, 'touched'); RETURN NEW; END $$;
CREATE TRIGGER touched BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION touch();
CREATE MATERIALIZED VIEW counts AS SELECT customer, count(*) AS n FROM orders GROUP BY 1;
CREATE MATERIALIZED VIEW counts_of_counts AS SELECT n, count(*) AS m FROM counts GROUP BY 1;
CREATE FUNCTION watch() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER watching ON ddl_command_end EXECUTE FUNCTION watch();
CREATE PUBLICATION everything FOR ALL TABLES;
COMMENT ON EXTENSION pg_trgm IS 'theirs';
`

// sumsOfPostgreSQL are counts and checksums of all tables.
var sumsOfPostgreSQL = []string{
	`SELECT count(*) || ' ' || coalesce(md5(string_agg(c::text, ',' ORDER BY id)), '') FROM customers c`,
	`SELECT count(*) || ' ' || coalesce(md5(string_agg(o::text, ',' ORDER BY id)), '') FROM orders o`,
	`SELECT count(*) || ' ' || coalesce(md5(string_agg(encode("co""l", 'hex') || d, ',' ORDER BY d)), '') FROM "odd ""name"."Ta\ble"`,
	`SELECT count(*) || ' ' || coalesce(md5(string_agg(v, ',' ORDER BY n)), '') FROM parts`,
	`SELECT count(*) || ' ' || sum(n) FROM counts`,
	`SELECT count(*)::text FROM counts_of_counts`,
}

// importing has a server bring databases over from where they are.
var importing = harness.WithConfig("imports:\n  networks: [127.0.0.0/8]")

// TestMigratePostgreSQL brings databases over, once and for as long as they are written to.
func TestMigratePostgreSQL(t *testing.T) {
	t.Parallel()
	s := harness.New(t, importing, ofPostgreSQL)
	d := s.CreateActive(harness.Small("moved", postgresql))
	t.Run("dump", func(t *testing.T) { migratePostgreSQL(t, s, d) })
	t.Run("replicate", func(t *testing.T) { followPostgreSQL(t, s, d) })
}

// migratePostgreSQL brings a database over from a PostgreSQL that is written to meanwhile, and tells what a source can't bring.
func migratePostgreSQL(t *testing.T, s *harness.Server, d harness.Database) {
	t.Helper()
	src := harness.PostgreSQLByHand(t)
	setUp := src.Open(t, "postgres")
	exec1(t, setUp, "CREATE DATABASE shop")
	shop := src.Open(t, "shop")
	exec1(t, shop, shopOfPostgreSQL)
	exec1(t, shop, `INSERT INTO customers (name) SELECT 'Ä name ' || g || E'\t\n\\' FROM generate_series(1, 3000) g`)
	exec1(t, shop, `INSERT INTO orders (customer, note) SELECT 1 + g % 3000, repeat(md5(g::text), 10) FROM generate_series(1, 30000) g`)
	exec1(t, shop, `INSERT INTO "odd ""name"."Ta\ble" SELECT decode(md5(g::text), 'hex'), random() * g FROM generate_series(1, 500) g`)
	exec1(t, shop, `INSERT INTO parts SELECT g, g::text FROM generate_series(0, 1999) g`)
	exec1(t, shop, `REFRESH MATERIALIZED VIEW counts`)
	exec1(t, shop, `REFRESH MATERIALIZED VIEW counts_of_counts`)
	// What is written meanwhile stays behind: the copy is as of one moment, whose rows are the same for both tables.
	exec1(t, shop, "CREATE TABLE pairs_a (n bigserial PRIMARY KEY)")
	exec1(t, shop, "CREATE TABLE pairs_b (n bigserial PRIMARY KEY)")

	end := underLoad(t, shop, "WITH a AS (INSERT INTO pairs_a DEFAULT VALUES) INSERT INTO pairs_b DEFAULT VALUES")
	request := from(src, src.Password, map[string]any{"name": "shop"})
	var report struct {
		Possible bool
		Version  string
		Problems []struct{ Message string }
	}
	if status, body := s.Call("POST", d.Path()+"/migrations/check", request, &report); status != http.StatusOK || !report.Possible || !strings.HasPrefix(report.Version, "1") {
		t.Fatalf("check: %s", body)
	}
	c := s.Credentials(d)
	told := noneTold(t, "pg_dump", src.Password, c.Password)
	m := migrate(t, s, d, request)
	told()
	if written := end(); written == 0 {
		t.Error("nothing was written meanwhile")
	}
	if m.Status != "finished" || m.Bytes == 0 || m.TablesDone != m.TablesAll || m.TablesAll < 7 || !m.Databases[0].Done {
		t.Fatalf("it ended as %+v (%v)", m, *orNothing(m.Problem))
	}
	if out, err := s.Command("db", "migration", "list", "moved", "--json"); err != nil || !strings.Contains(out, `"finished"`) {
		t.Errorf("list printed %s, %v", out, err)
	}
	if out, err := s.Command("db", "migration", "view", "moved", fmt.Sprint(m.ID)); err != nil || !strings.Contains(out, "public.orders") {
		t.Errorf("view printed %s, %v", out, err)
	}
	c.Logical = "shop"
	moved := s.MustConnect(d, c)
	movedWhole(t, moved, shop, sumsOfPostgreSQL)
	if next := one(t, moved, "SELECT max(id)::text FROM orders"); next != "30001" {
		t.Errorf("the sequence went on with %s", next)
	}
	if n := one(t, shop, "SELECT count(*)::text FROM pg_replication_slots"); n != "0" {
		t.Errorf("%s slots are left at the source", n)
	}
	if there("/tmp/never") {
		t.Error("a command of psql's was run")
	}
	refusedMigrations(t, s, d, src)
}

func orNothing(text *string) *string {
	if text == nil {
		return new(string)
	}
	return text
}

// uncertified is a request that takes only certificates of authorities that everybody knows.
func uncertified(request map[string]any) map[string]any {
	delete(request["source"].(map[string]any), "ca")
	return request
}

// unencrypted is a request by a connection without TLS.
func unencrypted(request map[string]any) map[string]any {
	request["source"].(map[string]any)["tls"] = "off"
	return uncertified(request)
}

// refusedMigrations tries what must fail with a reason, and leaves nothing behind.
func refusedMigrations(t *testing.T, s *harness.Server, d harness.Database, src harness.Source) {
	t.Helper()
	for name, c := range map[string]struct {
		request map[string]any
		reason  string
	}{
		"there already":        {from(src, src.Password, map[string]any{"name": "shop"}), "already"},
		"wrong password":       {from(src, "wrong", map[string]any{"name": "shop", "as": "again"}), "doesn't let the user in"},
		"nobody's certificate": {uncertified(from(src, src.Password, map[string]any{"name": "shop", "as": "again"})), "certificate"},
		"no database":          {from(src, src.Password, map[string]any{"name": "nowhere", "as": "again"}), "does not exist"},
	} {
		m := migrate(t, s, d, c.request)
		if m.Status != "failed" || !strings.Contains(*orNothing(m.Problem), c.reason) {
			t.Errorf("%s: it ended as %s, %s", name, m.Status, *orNothing(m.Problem))
		}
	}
	var all struct{ Data []struct{ Name string } }
	s.Call("GET", d.Path()+"/databases", nil, &all)
	for _, database := range all.Data {
		if database.Name == "again" {
			t.Error("a migration that failed has left a database")
		}
	}
}

// migrationsAreKeptIn: where nothing is allowed, a source with a private address is refused before anything is connected to.
func migrationsAreKeptIn(t *testing.T, s *harness.Server, d harness.Database) {
	for _, host := range []string{"127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1", d.Hosts.Primary} {
		request := map[string]any{
			"source":    map[string]any{"host": host, "port": 5432, "username": "u", "password": "hunter22", "tls": "off"},
			"databases": []map[string]any{{"name": "shop"}},
		}
		for _, path := range []string{"/migrations", "/migrations/check"} {
			if status, body := s.Call("POST", d.Path()+path, request, nil); status != http.StatusBadRequest || !strings.Contains(body, "source.host") {
				t.Errorf("%s %s: %d %s", path, host, status, body)
			}
		}
	}
	request := map[string]any{
		"source":    map[string]any{"host": "localhost", "port": 5432, "username": "u", "password": "hunter22", "tls": "off"},
		"databases": []map[string]any{{"name": "shop"}},
	}
	if status, body := s.Call("POST", d.Path()+"/migrations/check", request, nil); status != http.StatusBadRequest || !strings.Contains(body, "may not be reached") {
		t.Errorf("a name that leads to loopback: %d %s", status, body)
	}
	if strings.Contains(s.LogTail(), "hunter22") {
		t.Error("a source's password is in the log")
	}
}

// dumps: what the command line writes can be read in, and a dump runs no command where it is read.
func dumps(t *testing.T, s *harness.Server, d harness.Database) {
	label := d.Label
	db := s.MustConnect(d, s.Credentials(d))
	exec1(t, db, "CREATE TABLE written (n int PRIMARY KEY, word varchar(200))")
	exec1(t, db, `INSERT INTO written VALUES (1, 'Ä first'), (2, 'a "b" c')`)
	exec1(t, db, "CREATE VIEW words AS SELECT word FROM written")
	run := func(args ...string) string {
		t.Helper()
		out, err := s.Command(args...)
		if err != nil {
			t.Fatalf("steward %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	dir := t.TempDir()
	run("db", "database", "create", label, "copy")
	files := []string{"plain.sql", "packed.sql.zst", "packed.sql.gz"}
	if d.Engine == "mysql" && !all() {
		files = files[:1] // who wrote what is packed makes no difference
	}
	for i, name := range files {
		file := filepath.Join(dir, name)
		if out := run("db", "export", label, "-o", file, "--json"); !strings.Contains(out, `"database": "defaultdb"`) {
			t.Errorf("export printed %s", out)
		}
		if i > 0 {
			run("db", "database", "delete", label, "copy", "--yes")
			run("db", "database", "create", label, "copy")
		}
		if out := run("db", "import", label, file, "--database", "copy", "--json"); !strings.Contains(out, `"database": "copy"`) {
			t.Errorf("import printed %s", out)
		}
		copied := s.Credentials(d)
		copied.Logical = "copy"
		again := s.MustConnect(d, copied)
		if words := one(t, again, "SELECT count(*) FROM words"); words != "2" {
			t.Errorf("%s brought %s words", name, words)
		}
		again.Close()
	}
	if out, err := s.Command("db", "export", label, "-o", filepath.Join(dir, "plain.sql")); err == nil {
		t.Errorf("a file was written over: %s", out)
	}
	hostileDumps(t, s, label, d.Engine == "mysql", dir)
}

// hostileDumps are those whose commands must not run.
func hostileDumps(t *testing.T, s *harness.Server, label string, mysql bool, dir string) {
	t.Helper()
	mark := filepath.Join(dir, "ran")
	more := filepath.Join(dir, "more.sql") // what a dump would have be read besides
	if err := os.WriteFile(more, []byte("CREATE TABLE included (n int);\n\\! touch "+mark+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := []string{
		"\\! touch " + mark + "\n", "SELECT 1;\n\\! touch " + mark + "\n", "COPY (SELECT 1) TO PROGRAM 'touch " + mark + "';\n",
		"\\restrict x\n\\unrestrict x\n\\! touch " + mark + "\n", "\\copy (SELECT 1) TO PROGRAM 'touch " + mark + "'\n", "SELECT 1 \\g |touch " + mark + "\n",
		"SELECT 1 \\o |touch " + mark + "\n;\n", "CREATE TABLE read (t text);\nCOPY read FROM PROGRAM 'touch " + mark + "';\n",
		"\\i " + more + "\n", "\\ir " + more + "\n", "\\set x `touch " + mark + "`\n", "SELECT 'SELECT 1' \\gexec\n", "SELECT pg_read_file('/etc/passwd');\n", "ALTER SYSTEM SET archive_command = 'true';\n",
	}
	if mysql {
		commands = []string{
			"\\! touch " + mark + "\n", "system touch " + mark + "\n", "SELECT 1;\nsystem touch " + mark + ";\n", "SELECT 1 INTO OUTFILE '" + mark + "';\n",
			"tee " + mark + "\n", "pager touch " + mark + "\nSELECT 1;\n", "delimiter ;;\n\\! touch " + mark + "\n;;\n",
			"source " + more + "\n", "SELECT 1;\n\\. " + more + "\n", "CREATE TABLE loaded (t text);\nLOAD DATA LOCAL INFILE '" + more + "' INTO TABLE loaded;\n",
			"SET GLOBAL general_log_file = '" + mark + "';\n", "SELECT LOAD_FILE('" + more + "') IS NULL OR 1/0;\nSET GLOBAL local_infile = ON;\n",
		}
	}
	for i, dump := range commands {
		file := filepath.Join(dir, fmt.Sprintf("hostile-%d.sql", i))
		if err := os.WriteFile(file, []byte(dump), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := s.Command("db", "import", label, file, "--database", "copy")
		if err == nil && dump != commands[0] && !strings.HasPrefix(dump, "delimiter") {
			t.Errorf("%q was read in: %s", dump, out)
		}
		if there(mark) {
			t.Fatalf("%q ran a command", dump)
		}
	}
}

// movedWhole demands that what was moved has the sums that it has at the source, is as of one point in time, and has its trigger.
func movedWhole(t *testing.T, moved, source *sql.DB, sums []string) {
	t.Helper()
	for _, sum := range sums {
		if here, original := one(t, moved, sum), one(t, source, sum); here != original {
			t.Errorf("%s: %s here, %s at the source", sum, here, original)
		}
	}
	if a, b := one(t, moved, "SELECT COUNT(*) FROM pairs_a"), one(t, moved, "SELECT COUNT(*) FROM pairs_b"); a != b {
		t.Errorf("%s rows of one table, %s of the other: they are of two points in time", a, b)
	}
	exec1(t, moved, "INSERT INTO orders (customer) VALUES (1)")
	if note := one(t, moved, "SELECT note FROM orders ORDER BY id DESC LIMIT 1"); note != "touched" {
		t.Errorf("the trigger made %q of a new row", note)
	}
}

// TestMigrateMariaDBThorough brings databases over, once and for as long as they are written to.
func TestMigrateMariaDBThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, importing, ofMariaDB)
	d := s.CreateActive(harness.Small("moved", mariadb))
	t.Run("dump", func(t *testing.T) { migrateMariaDB(t, s, d) })
	t.Run("replicate", func(t *testing.T) { followMySQLFamily(t, s, d, harness.MariaDBByHand(t), all()) })
}

// migrateMariaDB brings a database over from a MariaDB that is written to meanwhile.
func migrateMariaDB(t *testing.T, s *harness.Server, d harness.Database) {
	t.Helper()
	src := harness.MariaDBByHand(t)
	exec1(t, src.Open(t, ""), "CREATE DATABASE shop")
	shop := src.Open(t, "shop")
	for _, statement := range []string{
		"CREATE TABLE customers (id int AUTO_INCREMENT PRIMARY KEY, name varchar(200) NOT NULL, photo blob) CHARACTER SET utf8mb4",
		"CREATE TABLE orders (id int AUTO_INCREMENT PRIMARY KEY, customer int NOT NULL, note text, FOREIGN KEY (customer) REFERENCES customers (id))",
		"INSERT INTO customers (name, photo) SELECT CONCAT('Ä ', seq, '\\n\\\\! touch /tmp/never'), UNHEX(MD5(seq)) FROM seq_1_to_2000",
		"INSERT INTO orders (customer, note) SELECT 1 + seq % 2000, REPEAT(MD5(seq), 8) FROM seq_1_to_20000",
		"CREATE VIEW names AS SELECT name FROM customers",
		"CREATE TRIGGER noted BEFORE INSERT ON orders FOR EACH ROW SET NEW.note = COALESCE(NEW.note, 'touched')",
		"CREATE PROCEDURE twice(IN n int) BEGIN SELECT n * 2; END",
		"CREATE TABLE pairs_a (n int AUTO_INCREMENT PRIMARY KEY)",
		"CREATE TABLE pairs_b (n int AUTO_INCREMENT PRIMARY KEY)",
	} {
		exec1(t, shop, statement)
	}
	end := underLoad(t, shop, "START TRANSACTION; INSERT INTO pairs_a VALUES (); INSERT INTO pairs_b VALUES (); COMMIT")
	c := s.Credentials(d)
	told := noneTold(t, "mariadb-dump", src.Password, c.Password)
	m := migrate(t, s, d, from(src, src.Password, map[string]any{"name": "shop", "as": "shop2"}))
	told()
	if written := end(); written == 0 {
		t.Error("nothing was written meanwhile")
	}
	if m.Status != "finished" || m.Bytes == 0 || m.TablesDone != m.TablesAll || m.TablesAll != 4 || !m.Databases[0].Done {
		t.Fatalf("it ended as %+v (%v)", m, *orNothing(m.Problem))
	}
	c.Logical = "shop2"
	moved := s.MustConnect(d, c)
	movedWhole(t, moved, shop, []string{
		"SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(CONCAT_WS('#', id, name, HEX(photo))))) FROM customers",
		"SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(CONCAT_WS('#', id, customer, note)))) FROM orders",
		"SELECT COUNT(*) FROM names",
	})
	if four := one(t, moved, "CALL twice(2)"); four != "4" {
		t.Errorf("the procedure says %s", four)
	}
	if there("/tmp/never") {
		t.Error("a command was run that a dump brings")
	}
	if m := migrate(t, s, d, uncertified(from(src, src.Password, map[string]any{"name": "shop", "as": "again"}))); m.Status != "failed" || !strings.Contains(*orNothing(m.Problem), "certificate") {
		t.Errorf("with nobody's certificate it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	wrong := migrate(t, s, d, from(src, "wrong", map[string]any{"name": "shop", "as": "again"}))
	if wrong.Status != "failed" || !strings.Contains(*orNothing(wrong.Problem), "doesn't let the user in") {
		t.Errorf("with a wrong password it ended as %s, %s", wrong.Status, *orNothing(wrong.Problem))
	}
	if m := migrate(t, s, d, unencrypted(from(src, src.Password, map[string]any{"name": "shop", "as": "plain"}))); m.Status != "finished" {
		t.Errorf("without TLS it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
}

// TestMigrationBeginsAnewThorough: an import whose target ends in the middle begins anew when it is back, one whose source has a table emptied in the middle at once. Both are
// complete.
func TestMigrationBeginsAnewThorough(t *testing.T) {
	t.Parallel()
	src := harness.MariaDBByHand(t)
	exec1(t, src.Open(t, ""), "CREATE DATABASE shop")
	shop := src.Open(t, "shop")
	exec1(t, shop, "CREATE TABLE sold (n int PRIMARY KEY, t text); CREATE TABLE taken (n int PRIMARY KEY)")
	exec1(t, shop, "INSERT INTO sold SELECT seq, REPEAT(MD5(seq), 5) FROM seq_1_to_100000")
	s := harness.New(t, importing)
	d := s.CreateActive(harness.Small("ended", mariadb))
	for as, disturb := range map[string]func(){
		"ended": func() {
			if err := syscall.Kill(s.Primary(d).Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		"emptied": func() { exec1(t, shop, "TRUNCATE taken; INSERT INTO taken VALUES (1)") },
	} {
		narrow, widen := src.Narrow(t, 4<<20)
		var m migrated
		if status, body := s.Call("POST", d.Path()+"/migrations", from(narrow, src.Password, map[string]any{"name": "shop", "as": as}), &m); status != http.StatusOK {
			t.Fatalf("migrate: %s", body)
		}
		s.Eventually("rows are copied", func() error {
			var now migrated
			if s.Call("GET", fmt.Sprintf("%s/migrations/%d", d.Path(), m.ID), nil, &now); now.Bytes == 0 {
				return fmt.Errorf("it is in the phase %s", now.Phase)
			}
			return nil
		})
		disturb()
		widen()
		if m = awaitMigrated(t, s, d, m.ID); m.Status != "finished" {
			t.Fatalf("%s: it ended as %s, %s", as, m.Status, *orNothing(m.Problem))
		}
		c := s.Credentials(d)
		c.Logical = as
		const sum = "SELECT CONCAT(COUNT(*), ' ', (SELECT COUNT(*) FROM taken)) FROM sold"
		if here, original := one(t, s.MustConnect(d, c), sum), one(t, shop, sum); here != original {
			t.Errorf("%s: %s rows here, %s at the source", as, here, original)
		}
	}
}

// TestMigrationKilledThorough: an import that was killed begins anew and is complete; one that is cancelled leaves nothing.
func TestMigrationKilledThorough(t *testing.T) {
	t.Parallel()
	src := harness.PostgreSQLByHand(t)
	exec1(t, src.Open(t, "postgres"), "CREATE DATABASE shop")
	shop := src.Open(t, "shop")
	exec1(t, shop, "CREATE TABLE rows (n bigint PRIMARY KEY, t text)")
	exec1(t, shop, "INSERT INTO rows SELECT g, repeat(md5(g::text), 5) FROM generate_series(1, 100000) g")
	s := harness.New(t, importing)
	d := s.CreateActive(harness.Small("killed", postgresql))
	// begin stops in the middle of the rows, for as long as it isn't widened.
	begin := func(as string) (m migrated, widen func()) {
		t.Helper()
		narrow, widen := src.Narrow(t, 4<<20)
		if status, body := s.Call("POST", d.Path()+"/migrations", from(narrow, src.Password, map[string]any{"name": "shop", "as": as}), &m); status != http.StatusOK {
			t.Fatalf("migrate: %s", body)
		}
		awaitPhase(t, s, d, m.ID, "copying")
		return m, widen
	}
	m, widen := begin("killed")
	s.Kill()
	widen()
	s.Start()
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "finished" {
		t.Fatalf("after a kill it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	c := s.Credentials(d)
	c.Logical = "killed"
	sum := "SELECT count(*) || ' ' || sum(hashtext(t)) FROM rows"
	if here, original := one(t, s.MustConnect(d, c), sum), one(t, shop, sum); here != original {
		t.Errorf("%s here, %s at the source", here, original)
	}
	m, _ = begin("canceled")
	if out, err := s.Command("db", "migration", "cancel", "killed", fmt.Sprint(m.ID)); err != nil {
		t.Fatalf("cancel: %v\n%s", err, out)
	}
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "canceled" {
		t.Errorf("after it was cancelled it ended as %s", m.Status)
	}
	var all struct{ Data []struct{ Name string } }
	s.Call("GET", d.Path()+"/databases", nil, &all)
	for _, database := range all.Data {
		if database.Name == "canceled" {
			t.Error("it has left a database")
		}
	}
	if out, err := s.Command("db", "migration", "list", "killed", "--json"); err != nil || !strings.Contains(out, `"canceled"`) {
		t.Errorf("list printed %s, %v", out, err)
	}
	if out, err := s.Command("db", "migration", "view", "killed", fmt.Sprint(m.ID)); err != nil || !strings.Contains(out, "public.rows") {
		t.Errorf("view printed %s, %v", out, err)
	}
}

// there reports whether a file is.
func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// underLoad writes into a source until the function that it returns is called.
func underLoad(t testing.TB, db *sql.DB, statement string) (end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			if _, err := db.ExecContext(ctx, statement); err == nil {
				n++
			}
			_ = wait.Sleep(ctx, 20*time.Millisecond) // full speed would take the processor from what is tried
		}
		done <- n
	}()
	return func() int {
		cancel()
		return <-done
	}
}
