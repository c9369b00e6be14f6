package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/linode/linodego"

	"steward/internal/pgtest"
	"steward/test/harness"
)

// TestMaintenanceWindow: a newer minor that comes while steward runs is shown at
// once, and moved to when the window of a cluster of three opens, under load. No
// acknowledged write is lost, and the event says from where to where. Before the
// window nothing moves.
func TestMaintenanceWindow(t *testing.T) {
	t.Parallel()
	const older, newer = "postgresql-15.17-npm", "postgresql-15.18-npm"
	engines := t.TempDir()
	bring := func(build string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(harness.EnginesFolder(), build, "engine.json"))
		if err != nil {
			t.Skip("run make engines: ", err)
		}
		if err := os.Mkdir(filepath.Join(engines, build), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(engines, build, "engine.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bring(older)
	store := pgtest.URL(t)
	s := harness.Prepare(t, harness.WithTags("failpoint"),
		harness.WithConfig(fmt.Sprintf("engines: {folders: [%s], discover_every: 1s}\npool: {size: 0}", engines)))
	s.Start("--store", store)
	startWith(t, store, older)
	spec := harness.Small("windows", "postgresql/15")
	spec["cluster_size"], spec["replication_commit_type"] = 3, "on"
	d := s.CreateActive(spec)
	if d.ServerVersion != "15.17" {
		t.Fatalf("it began with %s", d.ServerVersion)
	}

	// The window opens on an hour that is far enough for the rest to be tried first.
	opens := time.Now().UTC().Add(90 * time.Minute).Truncate(time.Hour)
	window := map[string]any{"frequency": "weekly", "duration": 4, "hour_of_day": opens.Hour(), "day_of_week": (int(opens.Weekday())+6)%7 + 1}
	if status, body := s.Call("PUT", d.Path(), map[string]any{"updates": window}, nil); status != 200 {
		t.Fatal(body)
	}
	bring(newer)
	mustShow(t, s, d, opens)

	w := newWriter(t, s, d)
	s.Stop()
	const soon = 20 * time.Second
	s.Env = []string{"STEWARD_CLOCK_AHEAD=" + (time.Until(opens) - soon).String()}
	begun := time.Now()
	s.Start("--store", store)
	for time.Since(begun) < soon-5*time.Second {
		if nodes, err := s.Nodes(d); err == nil && moved(nodes) > 0 {
			t.Fatalf("moved before the window: %+v", nodes)
		}
		time.Sleep(time.Second)
	}
	var done linodego.Event
	s.Eventually("maintained", func() error {
		events := eventsOf(t, s, d)
		for _, e := range events {
			if string(e.Action) == "database_maintenance" && e.Status == linodego.EventFinished {
				done = e
				return nil
			}
		}
		return fmt.Errorf("%+v", events)
	})
	if want := "The servers moved from version 15.17 to 15.18."; done.Message != want {
		t.Errorf("the event says %q, want %q", done.Message, want)
	}
	if now := s.AwaitHealthy(d, 3); now.ServerVersion != "15.18" {
		t.Errorf("it runs %s", now.ServerVersion)
	}
	if nodes, err := s.Nodes(d); err != nil || moved(nodes) != 3 {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	w.stopAndCheck()
}

// startWith has new databases begin with a build, instead of the newest.
func startWith(t *testing.T, store, build string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "ALTER TABLE clusters ALTER COLUMN installation SET DEFAULT '"+build+"'"); err != nil {
		t.Fatal(err)
	}
}

// mustShow: the database, the account's list and the events tell of what is to come.
func mustShow(t *testing.T, s *harness.Server, d harness.Database, opens time.Time) {
	t.Helper()
	planned := opens.Format("2006-01-02T15:04:05")
	s.Eventually("shown", func() error {
		_, body, err := s.TryCall("GET", d.Path(), nil, nil)
		if err != nil || !strings.Contains(body, `"description":"The servers move from version 15.17 to 15.18.","planned_for":"`+planned+`"`) {
			return fmt.Errorf("%w %s", err, body)
		}
		return nil
	})
	client := linodego.NewClient(nil)
	client.SetBaseURL(s.URL)
	client.SetAPIVersion("v4")
	client.SetToken(s.Token)
	list, err := client.ListMaintenances(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].Entity.Label != d.Label || list[0].Status != "pending" || list[0].StartTime == nil || !list[0].StartTime.Equal(opens) {
		t.Errorf("maintenance: %+v, %v", list, err)
	}
	s.Eventually("told of", func() error {
		for _, e := range eventsOf(t, s, d) {
			if string(e.Action) == "database_maintenance_scheduled" {
				return nil
			}
		}
		return fmt.Errorf("no event")
	})
	if out, err := s.Command("maintenance", "list"); err != nil || !strings.Contains(out, d.Label) || !strings.Contains(out, "15.18") {
		t.Errorf("maintenance list: %v\n%s", err, out)
	}
	if out, err := s.Command("db", "view", d.Label); err != nil || !strings.Contains(out, "15.18") {
		t.Errorf("db view: %v\n%s", err, out)
	}
}

func eventsOf(t *testing.T, s *harness.Server, d harness.Database) []linodego.Event {
	t.Helper()
	var list struct {
		Data []linodego.Event `json:"data"`
	}
	if _, _, err := s.TryCall("GET", "/v4/account/events", nil, &list); err != nil {
		return nil
	}
	return list.Data
}

// moved counts the nodes that run the newer build.
func moved(nodes []harness.Node) (n int) {
	for _, node := range nodes {
		if strings.Contains(node.Installation, "15.18") {
			n++
		}
	}
	return n
}

// writer writes all the time and remembers what was acknowledged.
type writer struct {
	t     *testing.T
	s     *harness.Server
	d     harness.Database
	creds harness.Credentials
	stop  context.CancelFunc
	ended sync.WaitGroup
	acked []int
}

func newWriter(t *testing.T, s *harness.Server, d harness.Database) *writer {
	t.Helper()
	w := &writer{t: t, s: s, d: d, creds: s.Credentials(d)}
	db := s.MustConnect(d, w.creds)
	exec1(t, db, "CREATE TABLE kept (n int PRIMARY KEY)")
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	t.Cleanup(stop)
	w.ended.Go(func() { w.write(ctx) })
	return w
}

func (w *writer) write(ctx context.Context) {
	var db *sql.DB
	defer func() {
		if db != nil {
			db.Close()
		}
	}()
	for n := 0; ctx.Err() == nil; n++ {
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		var err error
		if db == nil {
			db, err = harness.Connect(short, w.d, w.creds, "")
		}
		if err == nil {
			_, err = db.ExecContext(short, fmt.Sprintf("INSERT INTO kept VALUES (%d)", n))
		}
		cancel()
		switch {
		case err == nil:
			w.acked = append(w.acked, n)
		case db != nil: // what became of the row isn't known
			db.Close()
			db = nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// stopAndCheck demands that every acknowledged row is there.
func (w *writer) stopAndCheck() {
	w.t.Helper()
	w.stop()
	w.ended.Wait()
	db := w.s.MustConnect(w.d, w.creds)
	rows, err := db.QueryContext(w.t.Context(), "SELECT n FROM kept")
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	there := map[int]bool{}
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			w.t.Fatal(err)
		}
		there[n] = true
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	for _, n := range w.acked {
		if !there[n] {
			w.t.Errorf("row %d was acknowledged and is lost", n)
		}
	}
	w.t.Logf("%d rows were acknowledged", len(w.acked))
	if len(w.acked) < 100 {
		w.t.Error("too few to show anything")
	}
}

// TestPatchIsSeen on both engines, also when there is nothing to do.
func TestPatchIsSeen(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.WithConfig("pool: {size: 0}"))
	for _, engine := range engines {
		d := s.CreateActive(harness.Small("patch-"+strings.Split(engine, "/")[0], engine))
		if status, body := s.Call("POST", d.Path()+"/patch", nil, nil); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		if _, body := s.Call("GET", d.Path(), nil, nil); !strings.Contains(body, `"status":"updating"`) {
			t.Errorf("%s after a patch was answered: %s", engine, body)
		}
		s.AwaitStatus(d, "active")
	}
}
