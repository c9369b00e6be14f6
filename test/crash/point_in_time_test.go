package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"steward/test/harness"
)

var continuous = harness.WithConfig("backups:\n  continuous: true")

// TestForkToPointInTimeThorough is TestBackupsOfMariaDBThorough's on PostgreSQL, whose moments TestPointInTime in test/e2e has.
func TestForkToPointInTimeThorough(t *testing.T) {
	w := newWorld(t, postgresql, continuous)
	w.try(2, w.forkingMoment("postgresql/15"))
}

// TestRestoreToPointInTimeThorough has steps that are mostly those of any restore, which TestBackups kills.
func TestRestoreToPointInTimeThorough(t *testing.T) {
	w := newWorld(t, postgresql, continuous)
	for _, op := range w.restoringMoment() {
		w.try(2, op)
	}
}

// restoringMoment goes back to a moment in place, and undoes it: whenever steward dies, the database has the rows of the one time
// or of the other.
func (w *world) restoringMoment() []operation {
	moment, then, now := "", 0, 0
	var post func(path string, body any) (int, error)
	prepare := func(w *world) { // afterwards the rows are those of now
		if moment == "" {
			w.deleteAll()
			w.source("postgresql/15")
			moment = w.moment()
			then, now = w.rows-1, w.rows
			return
		}
		if status, err := post("/undo", nil); err == nil && status == 200 {
			w.AwaitStatus(w.db, "active")
		}
	}
	post = func(path string, body any) (int, error) {
		status, text, err := w.TryCall("POST", w.db.Path()+"/restore"+path, body, nil)
		if err == nil && status != 200 {
			w.t.Logf("restore%s: %d %s", path, status, text)
		}
		return status, err
	}
	rows := func(accepted, otherwise *int) func(t *testing.T, w *world, accepted bool) {
		return func(t *testing.T, w *world, done bool) {
			w.AwaitStatus(w.db, "active")
			w.disarm()
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if found, err := w.count(ctx); err != nil || found != *accepted && (done || found != *otherwise) {
				t.Errorf("%d rows (%v), want %d, or %d when it wasn't asked for; accepted: %v", found, err, *accepted, *otherwise, done)
			}
		}
	}
	return []operation{
		{name: "restore to a moment", steps: 144, prepare: prepare, ask: func(*world) (int, error) { return post("", map[string]any{"to": moment}) }, check: rows(&then, &now)},
		{name: "undo of a restore", steps: 46, prepare: func(w *world) {
			prepare(w)
			if status, err := post("", map[string]any{"to": moment}); err != nil || status != 200 {
				w.t.Fatalf("restore: %d %v", status, err)
			}
			w.AwaitStatus(w.db, "active")
		}, ask: func(*world) (int, error) { return post("/undo", nil) }, at: []string{"host: before bringing data back", "host: before start", "host: restore undone"}, check: rows(&now, &then)},
	}
}

// forkingMoment: a recovery that steward dies in is begun anew. The steps are mostly
// those of any fork; a recovery takes its time.
func (w *world) forkingMoment(engine string) operation {
	moment := ""
	return operation{
		name: "fork of a moment", steps: 70,
		prepare: func(w *world) {
			if moment == "" {
				w.source(engine)
				moment = w.moment()
			}
		},
		ask: func(w *world) (int, error) {
			return w.askForFork(engine, map[string]any{"source": w.db.ID, "restore_time": moment})
		},
		check: checkForked,
	}
}

// moment is one after the backup and before a row, which is in the archive.
func (w *world) moment() string {
	time.Sleep(1100 * time.Millisecond)
	moment := time.Now().UTC().Format("2006-01-02T15:04:05")
	time.Sleep(1100 * time.Millisecond)
	db := w.MustConnect(w.db, w.cred)
	statements := []string{
		fmt.Sprintf("INSERT INTO kept VALUES (%d)", w.rows+1), "CREATE TABLE ballast (filling text)", "ALTER TABLE ballast ALTER filling SET STORAGE EXTERNAL",
		"INSERT INTO ballast SELECT repeat(md5(i::text), 300) FROM generate_series(1, 6000) i",
	}
	files := 3
	if w.db.Engine == "mysql" {
		statements, files = statements[:1], w.archived()+1
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(w.t.Context(), statement); err != nil {
			w.t.Fatal(err)
		}
	}
	w.rows++
	w.Eventually("archived", func() error {
		if found := w.archived(); found < files {
			return fmt.Errorf("%d files are archived", found)
		}
		return nil
	})
	return moment
}

// archived is how many files of the source's log are in the archive.
func (w *world) archived() int {
	found, err := filepath.Glob(filepath.Join(w.Data, "backups", "clusters", fmt.Sprint(w.db.ID), "wal", "*", "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(found)
}
