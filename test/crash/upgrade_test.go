package crash

import (
	"testing"
	"time"
)

// TestUpgrade kills steward while it moves a database to a newer version: afterwards it is of the one or of the other, with all rows.
func TestUpgrade(t *testing.T) {
	for _, c := range []struct {
		engine, from, to string
		kills            int
	}{{"postgresql", "15", "17", 2}, {"mysql", "10.11", "11.8", 1}} {
		t.Run(c.engine, func(t *testing.T) {
			w := newWorld(t)
			back := func(w *world) {
				w.keeper(c.engine+"/"+c.from, 1)
				if w.AwaitStatus(w.db, "active").Version == c.from {
					return
				}
				if status, err := w.post("/restore/undo"); err != nil || status != 200 {
					w.t.Fatalf("undo: %d %v", status, err)
				}
				if now := w.AwaitStatus(w.db, "active"); now.Version != c.from {
					w.t.Fatalf("undone, it is of version %s", now.Version)
				}
				w.rows = 0
				w.exec("TRUNCATE TABLE kept")
				w.keeper(c.engine+"/"+c.from, 1)
			}
			w.try(c.kills, operation{
				name: "upgrade", prepare: back, patience: time.Minute,
				ask: func(w *world) (int, error) { return w.put(map[string]any{"version": c.to}) },
				check: func(t *testing.T, w *world, accepted bool) {
					d := w.AwaitStatus(w.db, "active")
					w.disarm()
					if accepted && d.Version != c.to {
						t.Errorf("it is of version %s", d.Version)
					}
					w.mustHaveRows(t, w.rows)
				},
			})
		})
	}
}
