package crash

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"steward/test/harness"
)

// TestForkOfAMoment: a recovery that steward dies in is begun anew.
func TestForkOfAMoment(t *testing.T) {
	moment := ""
	op := operation{
		name: "fork of a moment",
		prepare: func(w *world) {
			if w.db.ID == 0 {
				w.source("postgresql/15")
				moment = w.moment()
			}
		},
		ask: func(w *world) (int, error) {
			spec := harness.Small(fmt.Sprintf("fork-%d", w.n), "postgresql/15")
			spec["fork"] = map[string]any{"source": w.db.ID, "restore_time": moment}
			status, _, err := w.TryCall("POST", "/v4/databases/postgresql/instances", spec, nil)
			return status, err
		},
		check: checkForked,
	}
	// The steps are mostly those of any fork; a recovery takes its time.
	const stride = 12
	steps(t, op, stride, harness.WithConfig("backups:\n  continuous: true"))
}

// moment is one after the backup and before a row, which is in the archive.
func (w *world) moment() string {
	time.Sleep(1100 * time.Millisecond)
	moment := time.Now().UTC().Format("2006-01-02T15:04:05")
	time.Sleep(1100 * time.Millisecond)
	db := w.MustConnect(w.db, w.cred)
	for _, statement := range []string{
		"INSERT INTO kept VALUES (2)", "CREATE TABLE ballast (filling text)", "ALTER TABLE ballast ALTER filling SET STORAGE EXTERNAL",
		"INSERT INTO ballast SELECT repeat(md5(i::text), 300) FROM generate_series(1, 6000) i",
	} {
		if _, err := db.ExecContext(w.t.Context(), statement); err != nil {
			w.t.Fatal(err)
		}
	}
	w.Eventually("archived", func() error {
		found, err := filepath.Glob(filepath.Join(w.Data, "backups", "clusters", fmt.Sprint(w.db.ID), "wal", "*", "*"))
		if err == nil && len(found) < 3 {
			err = fmt.Errorf("%d files are archived", len(found))
		}
		return err
	})
	return moment
}
