package crash

import (
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
}
