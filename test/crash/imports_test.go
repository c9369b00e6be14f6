package crash

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

// movedRows is how many a source has at first.
const movedRows = 20000

// TestMigrations kills steward while a database is brought over, and while that is cancelled: what was accepted comes about, with all rows, and
// nothing that isn't complete is left.
func TestMigrations(t *testing.T) { migrations(t, once) }

func TestMigrationsThorough(t *testing.T) { migrations(t, 2) }

func migrations(t *testing.T, kills int) {
	src := harness.PostgreSQLByHand(t, "wal_level=logical")
	if _, err := src.Open(t, "postgres").ExecContext(t.Context(), "CREATE DATABASE shop"); err != nil {
		t.Fatal(err)
	}
	shop := src.Open(t, "shop")
	if _, err := shop.ExecContext(t.Context(), fmt.Sprintf(`CREATE TABLE rows AS SELECT g AS n, repeat(md5(g::text), 4) AS t FROM generate_series(1, %d) g; ALTER TABLE rows ADD PRIMARY KEY (n);
		CREATE TABLE later (n int); ALTER TABLE later REPLICA IDENTITY FULL`, movedRows)); err != nil { // where nothing would refuse a row that is written twice
		t.Fatal(err)
	}
	w := newWorld(t, postgresql, harness.WithConfig("imports:\n  networks: [127.0.0.0/8]"))
	begin := func(w *world) (int, error) { return w.migrate(src, "dump") }
	var begun int64 // is read before steward may die
	for _, op := range []operation{
		{name: "bring a database over", steps: 30, prepare: (*world).unmoved, ask: begin, check: checkMoved("finished")},
		{
			name: "cancel that", steps: 14, prepare: func(w *world) {
				w.unmoved()
				if status, err := begin(w); err != nil || status != 200 {
					w.t.Fatalf("migrate: %d %v", status, err)
				}
				begun = w.migrations()[0].ID
			},
			ask: func(w *world) (int, error) {
				status, _, err := w.TryCall("DELETE", fmt.Sprintf("%s/migrations/%d", w.db.Path(), begun), nil, nil)
				return status, err
			},
			check: checkMoved(""),
		},
	} {
		w.try(kills, op)
	}
	for _, op := range w.following(src, shop, "postgresql") {
		w.try(kills, op)
	}
	var left string
	if err := shop.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM pg_replication_slots) || ' ' || (SELECT count(*) FROM pg_publication)").Scan(&left); err != nil || left != "0 0" {
		t.Errorf("slots and publications left at the source: %s, %v", left, err)
	}
	w.deleteAll()
	w.Eventually("nothing left", w.Leftovers)
}

// TestFollowMariaDBThorough kills steward while a database follows a MariaDB, as TestMigrations does of a PostgreSQL.
func TestFollowMariaDBThorough(t *testing.T) {
	const kills = 2
	src := harness.MariaDBByHand(t)
	owner := src.Open(t, "")
	for _, statement := range []string{"SET GLOBAL binlog_format = ROW", "CREATE DATABASE shop"} {
		if _, err := owner.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	shop := src.Open(t, "shop")
	for _, statement := range []string{
		"CREATE TABLE `rows` (n int PRIMARY KEY, t text)", fmt.Sprintf("INSERT INTO `rows` SELECT seq, REPEAT(MD5(seq), 4) FROM seq_1_to_%d", movedRows),
		"CREATE TABLE later (n int)", // where nothing would refuse a row that is written twice
	} {
		if _, err := shop.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, mariadb, harness.WithConfig("imports:\n  networks: [127.0.0.0/8]"))
	w.db = w.CreateActive(harness.Small("crash-maria", "mysql/10.11"))
	w.cred = w.Credentials(w.db)
	for _, op := range w.following(src, shop, "mysql") {
		w.try(kills, op)
	}
	w.tryInside("mysql/10.11", kills, making(app)) // this database is there
	w.deleteAll()
	w.Eventually("nothing left", w.Leftovers)
}

// following are operations of a database that follows its source, is written to there, and is cut over: each row is here once.
func (w *world) following(src harness.Source, shop *sql.DB, driver string) []operation {
	follow := func(w *world) (int, error) { return w.migrate(src, "replicate") }
	var begun int64 // is read before steward may die
	following := func(w *world) {
		w.unmoved()
		if status, err := follow(w); err != nil || status != 200 {
			w.t.Fatalf("migrate: %d %v", status, err)
		}
		w.awaitFollowing()
		begun = w.migrations()[0].ID
	}
	return []operation{
		{name: "follow it", steps: 60, prepare: (*world).unmoved, ask: follow, check: w.cutOver},
		{
			name: "write while it follows", prepare: following, at: []string{driver + ": rows sent", driver + ": rows written"},
			ask: func(w *world) (int, error) {
				for range 5 {
					w.later++
					if _, err := shop.ExecContext(w.t.Context(), "INSERT INTO later SELECT count(*) FROM later"); err != nil {
						return 0, err
					}
				}
				return 200, nil
			},
			check: w.cutOver,
		},
		{
			name: "cut it over", steps: 19, prepare: following,
			ask: func(w *world) (int, error) {
				status, _, err := w.TryCall("POST", fmt.Sprintf("%s/migrations/%d/cutover", w.db.Path(), begun), nil, nil)
				return status, err
			},
			check: w.cutOver,
		},
	}
}

// awaitFollowing waits until the newest migration follows its source, or has ended.
func (w *world) awaitFollowing() {
	w.t.Helper()
	w.Eventually("the migration follows", func() error {
		m := w.migrations()[0]
		if m.ended() || m.Phase != nil && slices.Contains([]string{"following", "cutting_over", "validating"}, *m.Phase) {
			return nil
		}
		return fmt.Errorf("it is %s", m.Status)
	})
}

// cutOver brings what follows its source to its end: with all rows.
func (w *world) cutOver(t *testing.T, _ *world, accepted bool) {
	t.Helper()
	if all := w.migrations(); len(all) == 0 || all[0].Databases[0].As != w.moved() {
		if accepted {
			t.Fatal("a migration that was accepted isn't there")
		}
		return
	}
	w.awaitFollowing()
	if m := w.migrations()[0]; !m.ended() {
		if status, body := w.Call("POST", fmt.Sprintf("%s/migrations/%d/cutover", w.db.Path(), m.ID), nil, nil); status != 200 && !w.migrations()[0].ended() {
			t.Fatalf("cutover: %d %s", status, body)
		}
	}
	checkMoved("finished")(t, w, true)
}

// migrate asks for the source's database.
func (w *world) migrate(src harness.Source, mode string) (int, error) {
	status, _, err := w.TryCall("POST", w.db.Path()+"/migrations", map[string]any{
		"source":    map[string]any{"host": "127.0.0.1", "port": src.Port, "username": "mover", "password": src.Password, "tls": "off"},
		"databases": []map[string]any{{"name": "shop", "as": w.moved()}}, "mode": mode,
	}, nil)
	return status, err
}

// moved names the database that comes.
func (w *world) moved() string { return fmt.Sprintf("moved%d", w.n) }

// unmoved has a database into which none is brought over.
func (w *world) unmoved() {
	w.t.Helper()
	if w.db.ID == 0 {
		w.fresh()
	}
	w.AwaitStatus(w.db, "active")
	w.awaitMigrations()
}

type movedView struct {
	ID        int64
	Status    string
	Phase     *string
	Problem   *string
	Databases []struct{ As string }
}

func (m movedView) problem() string {
	if m.Problem == nil {
		return ""
	}
	return *m.Problem
}

func (m movedView) ended() bool {
	return m.Status != "pending" && m.Status != "running" && m.Status != "canceling"
}

func (w *world) migrations() []movedView {
	w.t.Helper()
	var all struct{ Data []movedView }
	if status, body := w.Call("GET", w.db.Path()+"/migrations", nil, &all); status != 200 {
		w.t.Fatalf("migrations: %d %s", status, body)
	}
	return all.Data
}

// awaitMigrations waits until all have ended.
func (w *world) awaitMigrations() (all []movedView) {
	w.t.Helper()
	w.Eventually("the migrations end", func() error {
		all = w.migrations()
		for _, m := range all {
			if !m.ended() {
				return fmt.Errorf("%d is %s", m.ID, m.Status)
			}
		}
		return nil
	})
	return all
}

// checkMoved: there is a complete database or none, and the former after a migration that was accepted and not cancelled.
func checkMoved(want string) func(t *testing.T, w *world, accepted bool) {
	return func(t *testing.T, w *world, accepted bool) {
		t.Helper()
		all := slices.DeleteFunc(w.awaitMigrations(), func(m movedView) bool { return m.Databases[0].As != w.moved() })
		if len(all) == 0 && accepted && want != "" {
			t.Fatal("a migration that was accepted isn't there")
		}
		finished := len(all) > 0 && all[0].Status == "finished"
		if accepted && want != "" && all[0].Status != want {
			t.Errorf("it ended as %+v: %s", all[0], all[0].problem())
		}
		_, body := w.Call("GET", w.db.Path()+"/databases", nil, nil)
		if there := strings.Contains(body, `"`+w.moved()+`"`); there != finished {
			t.Errorf("it ended as %+v, and the database is there: %t", all, there)
		}
		if !finished || !strings.Contains(body, `"`+w.moved()+`"`) {
			return
		}
		c := w.cred
		c.Logical = w.moved()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		db, err := harness.Connect(ctx, w.db, c, "")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		table := "rows"
		if w.db.Engine == "mysql" {
			table = "`rows`"
		}
		var rows, sum, later, each int
		err = db.QueryRowContext(ctx, "SELECT count(*), sum(n), (SELECT count(*) FROM later), (SELECT count(DISTINCT n) FROM later) FROM "+table).Scan(&rows, &sum, &later, &each)
		if err != nil || rows != movedRows || sum != movedRows*(movedRows+1)/2 || later != w.later || each != w.later {
			t.Errorf("it has %d rows, the sum %d, and %d later ones, %d of them different; %d were written, %v", rows, sum, later, each, w.later, err)
		}
		if status, body := w.Call("DELETE", w.db.Path()+"/databases/"+w.moved(), nil, nil); status != 200 { // many would fill the server's memory, where its data is
			t.Errorf("delete what was brought over: %d %s", status, body)
		}
	}
}
