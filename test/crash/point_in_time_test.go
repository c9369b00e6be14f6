package crash

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"steward/test/harness"
)

var continuous = harness.WithConfig("backups:\n  continuous: true")

// TestForkToPointInTime is for STEWARD_CRASH=all: TestBackupsOfMariaDB has the same, and
// TestPointInTime in test/e2e PostgreSQL's moments.
func TestForkToPointInTime(t *testing.T) {
	if !everything() {
		t.Skip("make test-crash runs it")
	}
	w := newWorld(t, continuous)
	w.try(1, w.forkingMoment("postgresql/15"))
}

// forkingMoment: a recovery that steward dies in is begun anew. The steps are mostly
// those of any fork; a recovery takes its time.
func (w *world) forkingMoment(engine string) operation {
	moment := ""
	return operation{
		name: "fork of a moment",
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
