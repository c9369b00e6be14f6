package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/wait"
	"steward/test/harness"
)

// TestUpgradeThorough kills steward while it moves a database to a newer version: afterwards it is of the one or of the other, with all rows, also those that
// clients of its pool write meanwhile.
func TestUpgradeThorough(t *testing.T) {
	const kills = 2
	w := newWorld(t, harness.OfBuilds("postgresql-"))
	w.try(kills, operation{
		name: "try an upgrade", steps: 22, patience: time.Minute,
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
	var written func() int
	w.try(kills, operation{
		name: "upgrade", steps: 65, patience: time.Minute, at: []string{"host: after ready"}, // the moved data serves, and isn't on record yet
		prepare: func(w *world) {
			w.backTo("postgresql", "15")
			if !strings.Contains(w.pools(), `"label":"app"`) {
				status, _, err := w.TryCall("POST", w.db.Path()+"/connection-pools", map[string]any{"label": "app", "database": "defaultdb", "mode": "transaction", "size": 2}, nil)
				w.mustPool(status, err)
				w.AwaitStatus(w.db, "active")
			}
			w.exec("CREATE TABLE IF NOT EXISTS pooled (n int); TRUNCATE pooled")
			written = w.writeThroughPool()
		},
		ask: func(w *world) (int, error) { return w.put(map[string]any{"version": "17"}) },
		check: func(t *testing.T, w *world, accepted bool) {
			d := w.AwaitStatus(w.db, "active")
			acknowledged := written()
			var there int
			if err := w.MustConnect(d, w.cred).QueryRowContext(t.Context(), "SELECT count(*) FROM pooled").Scan(&there); err != nil || acknowledged == 0 || there < acknowledged {
				t.Errorf("%d of %d rows of the pool's clients are there, %v", there, acknowledged, err)
			}
			w.disarm()
			if accepted && d.Version != "17" {
				t.Errorf("it is of version %s", d.Version)
			}
			w.mustHaveRows(t, w.rows)
		},
	})
	w.deleteAll()
}

// TestUpgradeMariaDBThorough does so with the other family, whose own program changes the tables of the server.
func TestUpgradeMariaDBThorough(t *testing.T) {
	w := newWorld(t, harness.OfBuilds("mariadb-"))
	w.try(2, operation{
		name: "upgrade", steps: 66, patience: time.Minute,
		prepare: func(w *world) { w.backTo("mysql", "10.11") },
		ask:     func(w *world) (int, error) { return w.put(map[string]any{"version": "11.8"}) },
		check: func(t *testing.T, w *world, accepted bool) {
			d := w.AwaitStatus(w.db, "active")
			w.disarm()
			if accepted && d.Version != "11.8" {
				t.Errorf("it is of version %s", d.Version)
			}
			w.mustHaveRows(t, w.rows)
		},
	})
	w.deleteAll()
}

// backTo has the database be of a version, from which it is moved: what an earlier kill let through is undone.
func (w *world) backTo(engine, version string) {
	w.t.Helper()
	w.keeper(engine+"/"+version, 1)
	if w.AwaitStatus(w.db, "active").Version == version {
		return
	}
	if status, err := w.post("/restore/undo"); err != nil || status != 200 {
		w.t.Fatalf("undo: %d %v", status, err)
	}
	if now := w.AwaitStatus(w.db, "active"); now.Version != version {
		w.t.Fatalf("undone, it is of version %s", now.Version)
	}
	w.rows = 0
	w.exec("TRUNCATE TABLE kept")
	w.keeper(engine+"/"+version, 1)
}

// writeThroughPool has a client of the database's pool write rows until the function that it returns is called, which says how many were acknowledged.
func (w *world) writeThroughPool() (stop func() int) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d, c, port := w.db, w.cred, w.PoolPort(w.db)
	written := make(chan int, 1)
	rest := func() { _ = wait.Sleep(ctx, 10*time.Millisecond) } // full speed would take the processor from what is tried
	go func() {
		acknowledged := 0
		defer func() { written <- acknowledged }()
		for ctx.Err() == nil {
			conn, err := harness.ConnectPool(ctx, d, port, c, "app")
			for err == nil {
				if _, err = conn.Exec(ctx, "INSERT INTO pooled VALUES (1)"); err == nil {
					acknowledged++
				}
				rest()
			}
			if conn != nil {
				_ = conn.Close(context.WithoutCancel(ctx))
			}
			rest()
		}
	}()
	return sync.OnceValue(func() int {
		cancel()
		return <-written
	})
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
