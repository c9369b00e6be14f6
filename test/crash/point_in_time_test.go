package crash

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

// TestForkToPointInTime: a recovery that steward dies in is begun anew.
func TestForkToPointInTime(t *testing.T) { forkToPointInTime(t, "postgresql/15") }

func TestForkToPointInTimeOfMariaDB(t *testing.T) { forkToPointInTime(t, "mysql/10.11") }

// The steps are mostly those of any fork; a recovery takes its time.
func forkToPointInTime(t *testing.T, engine string) {
	moment := ""
	family, _, _ := strings.Cut(engine, "/")
	op := operation{
		name: "fork of a moment",
		prepare: func(w *world) {
			if w.db.ID == 0 {
				w.source(engine)
				moment = w.moment(family)
			}
		},
		ask: func(w *world) (int, error) {
			spec := harness.Small(fmt.Sprintf("fork-%d", w.n), engine)
			spec["fork"] = map[string]any{"source": w.db.ID, "restore_time": moment}
			status, _, err := w.TryCall("POST", "/v4/databases/"+family+"/instances", spec, nil)
			return status, err
		},
		check: checkForked,
	}
	steps(t, op, 1, harness.WithConfig("backups:\n  continuous: true"))
}

// moment is one after the backup and before a row, which is in the archive.
func (w *world) moment(family string) string {
	time.Sleep(1100 * time.Millisecond)
	moment := time.Now().UTC().Format("2006-01-02T15:04:05")
	time.Sleep(1100 * time.Millisecond)
	db := w.MustConnect(w.db, w.cred)
	statements := []string{
		"INSERT INTO kept VALUES (2)", "CREATE TABLE ballast (filling text)", "ALTER TABLE ballast ALTER filling SET STORAGE EXTERNAL",
		"INSERT INTO ballast SELECT repeat(md5(i::text), 300) FROM generate_series(1, 6000) i",
	}
	files := 3
	if family == "mysql" {
		statements, files = statements[:1], w.archived()+1
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(w.t.Context(), statement); err != nil {
			w.t.Fatal(err)
		}
	}
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
