package crash

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUpgrade kills steward while it moves a database to a newer version: afterwards it is of the one or of the other, with all rows.
func TestUpgrade(t *testing.T) {
	w := newWorld(t)
	back := func(w *world) {
		w.keeper("postgresql/15", 1)
		if w.AwaitStatus(w.db, "active").Version == "15" {
			return
		}
		if status, err := w.post("/restore/undo"); err != nil || status != 200 {
			w.t.Fatalf("undo: %d %v", status, err)
		}
		if now := w.AwaitStatus(w.db, "active"); now.Version != "15" {
			w.t.Fatalf("undone, it is of version %s", now.Version)
		}
		w.rows = 0
		w.exec("TRUNCATE kept")
		w.keeper("postgresql/15", 1)
	}
	w.try(1, operation{
		name: "try an upgrade", patience: time.Minute,
		prepare: func(w *world) {
			w.keeper("postgresql/15", 1)
			if _, there := w.FindBackup(w.db, "tried"); !there {
				w.Snapshot(w.db, "tried", "primary")
			}
		},
		ask: func(w *world) (int, error) {
			status, _, err := w.TryCall("POST", w.db.Path()+"/upgrade-check", map[string]any{"version": "17"}, nil)
			return status, err
		},
		check: checkTried,
	})
	w.try(2, operation{
		name: "upgrade", prepare: back, patience: time.Minute,
		ask: func(w *world) (int, error) { return w.put(map[string]any{"version": "17"}) },
		check: func(t *testing.T, w *world, accepted bool) {
			d := w.AwaitStatus(w.db, "active")
			w.disarm()
			if accepted && d.Version != "17" {
				t.Errorf("it is of version %s", d.Version)
			}
			w.mustHaveRows(t, w.rows)
		},
	})
	w.deleteAll()
}

// checkTried: a try that was accepted ends with what it found, and of none is a server or a copy left beside the database, which is as it was.
func checkTried(t *testing.T, w *world, accepted bool) {
	t.Helper()
	var found struct{ Version, Status string }
	w.Eventually("the try has ended", func() error {
		if status, body := w.Call("GET", w.db.Path()+"/upgrade-check", nil, &found); status != 200 || found.Status == "running" {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	if accepted && (found.Status != "passed" || found.Version != "17") {
		t.Errorf("it found %+v", found)
	}
	if d := w.AwaitStatus(w.db, "active"); d.Version != "15" {
		t.Errorf("it is of version %s", d.Version)
	}
	w.disarm()
	w.Eventually("nothing of the copy", func() error {
		copies := filepath.Join(w.Data, "scratch")
		for pid, line := range w.Processes() {
			if strings.Contains(line, copies) {
				return fmt.Errorf("process %d remains: %s", pid, line)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(copies, "*")); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	w.mustHaveRows(t, w.rows)
}
