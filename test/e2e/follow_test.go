package e2e

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/test/harness"
)

// followed is a request to bring a database over and to keep up with it.
func followed(s harness.Source, as string) map[string]any {
	request := from(s, s.Password, map[string]any{"name": "shop", "as": as})
	request["mode"] = "replicate"
	return request
}

// followable is a PostgreSQL whose database shop can be followed.
func followable(t *testing.T) (harness.Source, *sql.DB) {
	t.Helper()
	src := harness.PostgreSQLByHand(t, "wal_level=logical")
	exec1(t, src.Open(t, "postgres"), "CREATE DATABASE shop")
	return src, src.Open(t, "shop")
}

// begin asks for a migration and waits until it follows.
func beginFollowing(t *testing.T, s *harness.Server, d harness.Database, request map[string]any) (m migrated) {
	t.Helper()
	if status, body := s.Call("POST", d.Path()+"/migrations", request, &m); status != http.StatusOK {
		t.Fatalf("migrate: %s", body)
	}
	awaitPhase(t, s, d, m.ID, "following")
	return m
}

func awaitPhase(t *testing.T, s *harness.Server, d harness.Database, id int64, phases ...string) (m migrated) {
	t.Helper()
	s.Eventually(fmt.Sprint("the migration is in one of ", phases), func() error {
		if status, body := s.Call("GET", fmt.Sprintf("%s/migrations/%d", d.Path(), id), nil, &m); status != http.StatusOK {
			t.Fatal(body)
		}
		for _, phase := range phases {
			if m.Phase == phase || m.Status == phase {
				return nil
			}
		}
		if m.Status == "failed" {
			t.Fatal(*orNothing(m.Problem))
		}
		return fmt.Errorf("it is %s, %s", m.Status, m.Phase)
	})
	return m
}

// awaitCaughtUp waits until what follows is as its source, whose customers do less each time that it isn't yet.
func awaitCaughtUp(s *harness.Server, d harness.Database, id int64, slower func()) {
	s.Eventually("it has caught up", func() error {
		out, err := s.Command("db", "migration", "view", d.Label, fmt.Sprint(id))
		if err != nil || !strings.Contains(out, "replicate") || !strings.Contains(out, "following") || !strings.Contains(out, " 0s, ") && !strings.Contains(out, " 1s, ") {
			slower()
			return fmt.Errorf("view: %s, %w", out, err)
		}
		return nil
	})
}

// nothingLeft: a source keeps nothing for us, and has no publication of ours.
func nothingLeft(t *testing.T, source *sql.DB) {
	t.Helper()
	if n := one(t, source, "SELECT (SELECT count(*) FROM pg_replication_slots) || ' ' || (SELECT count(*) FROM pg_publication WHERE pubname LIKE 'steward%')"); n != "0 0" {
		t.Errorf("slots and publications left at the source: %s", n)
	}
}

// customers are three who change what a database has, each by statements of their own, until stop is called. One applies what three do: where a busy machine gives
// it too little time for that, slower has them think for longer.
func customers(t *testing.T, db *sql.DB, statement func(r *rand.Rand, i int) string) (slower func(), stop func() (writes int, last time.Time)) {
	t.Helper()
	var think atomic.Int64
	think.Store(int64(30 * time.Millisecond))
	var mu sync.Mutex
	var writes int
	var last time.Time
	var all sync.WaitGroup
	done := make(chan struct{})
	for n := range 3 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 7))
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(think.Load())):
				}
				if _, err := db.ExecContext(t.Context(), statement(r, i)); err == nil {
					mu.Lock()
					writes, last = writes+1, time.Now()
					mu.Unlock()
				}
			}
		})
	}
	slower = func() { think.Store(min(think.Load()*3/2, int64(time.Second))) }
	return slower, func() (int, time.Time) {
		close(done)
		all.Wait()
		return writes, last
	}
}

// shops is a change of what shopOfPostgreSQL has, of one or more rows, or one that is rolled back.
func shops(r *rand.Rand, i int) string {
	if i%100 == 99 {
		return "TRUNCATE emptied; INSERT INTO emptied SELECT generate_series(1, 50)"
	}
	id := 1 + r.IntN(1000)
	return []string{
		fmt.Sprintf(`WITH c AS (INSERT INTO customers (name) VALUES (E'new %d\n\\ "quoted"') RETURNING id) INSERT INTO orders (customer, note) SELECT id, repeat('x', %d) FROM c`, i, r.IntN(20000)),
		fmt.Sprintf(`UPDATE orders SET at = now() WHERE id = %d`, id/50*50), // its long note stays as it is
		fmt.Sprintf(`UPDATE orders SET id = id + 1000000, note = NULL WHERE id = %d`, 2500+id),
		fmt.Sprintf(`DELETE FROM orders WHERE id = %d`, 1200+id),
		fmt.Sprintf(`UPDATE customers SET mood = 'bad', name = name || '!' WHERE id = %d`, id),
		`UPDATE "odd ""name"."Ta\ble" SET d = d + 1 WHERE ctid = (SELECT min(ctid) FROM "odd ""name"."Ta\ble")`,
		`INSERT INTO "odd ""name"."Ta\ble" SELECT "co""l", d FROM "odd ""name"."Ta\ble" LIMIT 1`,
		`DELETE FROM "odd ""name"."Ta\ble" WHERE ctid = (SELECT max(ctid) FROM "odd ""name"."Ta\ble")`,
		fmt.Sprintf(`UPDATE parts SET n = (n + 997) %% 2000, v = v || 'u' WHERE n = %d`, r.IntN(2000)), // some move to the other partition
		fmt.Sprintf(`BEGIN; UPDATE customers SET name = 'never' WHERE id = %d; ROLLBACK`, id),
		`WITH a AS (INSERT INTO pairs_a DEFAULT VALUES) INSERT INTO pairs_b DEFAULT VALUES`,
	}[r.IntN(11)]
}

// followPostgreSQL brings a database over that is written to until the cutover, through a kill -9: all rows are here once, and what the schema
// does, it does from then on. Nothing is left at the source, also when it is cancelled or ends by itself.
func followPostgreSQL(t *testing.T, s *harness.Server, d harness.Database) {
	t.Helper()
	src, shop := followable(t)
	exec1(t, shop, shopOfPostgreSQL)
	exec1(t, shop, `INSERT INTO customers (name) SELECT 'Ä name ' || g || E'\t\n\\' FROM generate_series(1, 1000) g`)
	exec1(t, shop, `INSERT INTO orders (customer, note) SELECT 1 + g % 1000, CASE WHEN g % 50 > 0 THEN md5(g::text) ELSE (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 150) i) END FROM generate_series(1, 4000) g`)
	exec1(t, shop, `INSERT INTO "odd ""name"."Ta\ble" SELECT decode(md5(g::text), 'hex'), g FROM generate_series(1, 200) g`)
	exec1(t, shop, `INSERT INTO parts SELECT g, g::text FROM generate_series(0, 1999) g`)
	exec1(t, shop, `CREATE TABLE pairs_a (n bigserial PRIMARY KEY); CREATE TABLE pairs_b (n bigserial PRIMARY KEY); CREATE TABLE emptied (n int PRIMARY KEY)`)
	exec1(t, shop, `CREATE TABLE documents (id int PRIMARY KEY, at tstzrange, tags text[], body jsonb, raw json, owner "char", price numeric(10, 2), fixed char(5))`)

	var report struct {
		Possible bool
		Problems []struct{ Message string }
	}
	if status, body := s.Call("POST", d.Path()+"/migrations/check", followed(src, "kept_up"), &report); status != http.StatusOK || report.Possible || !strings.Contains(body, "public.nothing, public.parts_1, public.parts_2") {
		t.Fatalf("tables whose rows nothing tells apart: %s", body)
	}
	exec1(t, shop, `DROP TABLE nothing; ALTER TABLE parts_1 REPLICA IDENTITY FULL; ALTER TABLE parts_2 REPLICA IDENTITY FULL; ALTER TABLE "odd ""name"."Ta\ble" REPLICA IDENTITY FULL; CREATE INDEX ON parts (n)`)
	if status, body := s.Call("POST", d.Path()+"/migrations/check", followed(src, "kept_up"), &report); status != http.StatusOK || !report.Possible || !strings.Contains(body, `"replicates":true`) {
		t.Fatalf("check: %s", body)
	}
	slower, stop := customers(t, shop, shops)
	m := beginFollowing(t, s, d, followed(src, "kept_up"))
	left := leftBehind(t, s, d)
	s.Kill()
	exec1(t, shop, `INSERT INTO documents VALUES (1, '[2020-01-01,)', '{a,NULL,"b c"}', '{"a": [1, null]}', '{"b" : 1}', 'x', 1.50, 'ab'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`)
	exec1(t, shop, `UPDATE documents SET tags = tags || 'c'::text, fixed = 'é' WHERE id = 1`)
	s.Start()
	awaitPhase(t, s, d, m.ID, "following")
	c := s.Credentials(d)
	c.Logical = "kept_up"
	moved := s.MustConnect(d, c)
	s.Eventually("what was written while steward was away is here", func() error {
		if n := one(t, moved, "SELECT count(*)::text FROM documents WHERE fixed IS NOT NULL"); n != "1" {
			return fmt.Errorf("%s documents", n)
		}
		return nil
	})
	if err := left(); err == nil {
		t.Error("who wrote before could still write")
	}
	awaitCaughtUp(s, d, m.ID, slower)
	paused := cutOver(t, s, d, m.ID, stop, moved)
	t.Logf("from the last write at the source to the first here: %v", paused)
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "finished" || m.Problem != nil || !m.Databases[0].Done {
		t.Fatalf("it ended as %+v (%v)", m, *orNothing(m.Problem))
	}
	exec1(t, shop, `REFRESH MATERIALIZED VIEW counts`)
	exec1(t, shop, `REFRESH MATERIALIZED VIEW counts_of_counts`)
	exec1(t, moved, "DELETE FROM first_here")
	for _, sum := range append(sumsOfPostgreSQL[:2:2], `SELECT count(*) || ' ' || coalesce(md5(string_agg(encode("co""l", 'hex') || d, ',' ORDER BY d, "co""l")), '') FROM "odd ""name"."Ta\ble"`,
		`SELECT count(*) || ' ' || coalesce(md5(string_agg(n || v, ',' ORDER BY n, v)), '') FROM parts`, sumsOfPostgreSQL[4], sumsOfPostgreSQL[5],
		"SELECT string_agg(d::text, ',' ORDER BY id) FROM documents d", "SELECT count(*)::text FROM emptied", "SELECT count(*) || ' ' || max(n) FROM pairs_a", "SELECT count(*) || ' ' || max(n) FROM pairs_b",
		`SELECT string_agg(conname || ' ' || convalidated || pg_get_constraintdef(oid), ',' ORDER BY conname) FROM pg_constraint WHERE contype IN ('f', 'p') AND conname NOT LIKE 'first%'`,
		`SELECT string_agg(attname || attidentity::text, ',' ORDER BY attname) FROM pg_attribute WHERE attidentity <> ''`, "SELECT last_value || ' ' || is_called FROM orders_id_seq", "SELECT last_value || ' ' || is_called FROM customers_id_seq") {
		if here, original := one(t, moved, sum), one(t, shop, sum); here != original {
			t.Errorf("%s: %s here, %s at the source", sum, here, original)
		}
	}
	if note := one(t, moved, "INSERT INTO orders (customer) VALUES (1) RETURNING note"); note != "touched" {
		t.Errorf("the trigger made %q of a new row", note)
	}
	if n := one(t, moved, "SELECT count(*)::text FROM pg_namespace WHERE nspname = 'steward_follow'"); n != "0" {
		t.Error("what was noted of following is left")
	}
	nothingLeft(t, shop)
	endFollowing(t, s, d, src, shop)
}

// leftBehind is a session of a steward that was killed, which has yet to commit what it wrote.
func leftBehind(t *testing.T, s *harness.Server, d harness.Database) (commit func() error) {
	t.Helper()
	c := s.Credentials(d)
	c.Logical = "kept_up"
	conn, err := s.MustConnect(d, c).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	run := func(statement string) error {
		_, err := conn.ExecContext(t.Context(), statement)
		return err
	}
	for _, statement := range []string{"SET application_name = 'steward import'", "BEGIN", "UPDATE steward_follow.state SET at = now()"} {
		if err := run(statement); err != nil {
			t.Fatal(err)
		}
	}
	return func() error { return run("COMMIT") }
}

// cutOver stops the writers, cuts over, and returns how long nobody could write.
func cutOver(t *testing.T, s *harness.Server, d harness.Database, id int64, stop func() (int, time.Time), moved *sql.DB) time.Duration {
	t.Helper()
	writes, last := stop()
	if writes == 0 {
		t.Error("nothing was written meanwhile")
	}
	if status, body := s.Call("POST", fmt.Sprintf("%s/migrations/%d/cutover", d.Path(), id), nil, nil); status != http.StatusOK || !strings.Contains(body, `"cutover":"`) {
		t.Fatalf("cutover: %d %s", status, body)
	}
	for {
		var m migrated
		s.Call("GET", fmt.Sprintf("%s/migrations/%d", d.Path(), id), nil, &m)
		if m.Status == "failed" {
			t.Fatal(*orNothing(m.Problem))
		}
		if m.Phase == "validating" {
			break
		}
		if time.Since(last) > 2*time.Minute {
			t.Fatalf("it isn't cut over: %+v", m)
		}
		time.Sleep(10 * time.Millisecond) // what waits in longer steps would add to the pause that is measured
	}
	exec1(t, moved, "CREATE TABLE first_here (n int)")
	paused := time.Since(last)
	return paused
}

// endFollowing: cancelled, and by a change of the source's tables, following ends and leaves nothing on either side; a network that is quiet meanwhile ends nothing.
func endFollowing(t *testing.T, s *harness.Server, d harness.Database, src harness.Source, shop *sql.DB) {
	t.Helper()
	m := beginFollowing(t, s, d, followed(src, "canceled"))
	if out, err := s.Command("db", "migration", "cancel", d.Label, fmt.Sprint(m.ID)); err != nil {
		t.Fatalf("cancel: %v\n%s", err, out)
	}
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "canceled" || *orNothing(m.Problem) != "It was canceled." {
		t.Errorf("after it was cancelled it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	nothingLeft(t, shop)
	m = beginFollowing(t, s, d, followed(src, "changed"))
	exec1(t, shop, "ALTER TABLE documents ADD COLUMN more int DEFAULT 1; INSERT INTO documents (id) VALUES (3)")
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "failed" || !strings.Contains(*orNothing(m.Problem), "documents") {
		t.Errorf("after the source's tables were changed it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	nothingLeft(t, shop)
	m = beginFollowing(t, s, d, followed(src, "disturbed"))
	c := s.Credentials(d)
	c.Logical = "disturbed"
	exec1(t, s.MustConnect(d, c), "DELETE FROM documents")
	exec1(t, shop, "UPDATE documents SET more = 2")
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "failed" || !strings.Contains(*orNothing(m.Problem), "was changed here") {
		t.Errorf("after rows were changed here it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	nothingLeft(t, shop)
	followByCommand(t, s, d, src)
	nothingLeft(t, shop)
	exec1(t, shop, soldByPostgreSQL)
	quiet{t: t, s: s, d: d, src: src, shop: shop, sum: sumOfSold}.network()
	nothingLeft(t, shop)
	var all struct{ Data []struct{ Name string } }
	s.Call("GET", d.Path()+"/databases", nil, &all)
	for _, database := range all.Data {
		if database.Name == "canceled" || database.Name == "changed" || database.Name == "disturbed" {
			t.Errorf("%s is left", database.Name)
		}
	}
}

// followByCommand brings the database over once more, by the command line.
func followByCommand(t *testing.T, s *harness.Server, d harness.Database, src harness.Source) {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(src.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := s.Command("db", "migration", "create", d.Label, "--host", "127.0.0.1", "--port", fmt.Sprint(src.Port), "--username", "mover", "--password-file", password, "--tls", "require",
		"--database", "shop=by_command", "--mode", "replicate")
	_, id, told := strings.Cut(strings.TrimSpace(out), "steward db migration cutover "+d.Label+" ")
	if err != nil || !told {
		t.Fatalf("create: %v\n%s", err, out)
	}
	if out, err := s.Command("db", "migration", "cutover", d.Label, id); err != nil || !strings.Contains(out, "validating") && !strings.Contains(out, "finished") {
		t.Errorf("cutover: %v\n%s", err, out)
	}
	s.Eventually("it is done", func() error {
		if out, err := s.Command("db", "migration", "view", d.Label, id, "--json"); err != nil || !strings.Contains(out, `"status": "finished"`) {
			return fmt.Errorf("view: %s, %w", out, err)
		}
		return nil
	})
}
