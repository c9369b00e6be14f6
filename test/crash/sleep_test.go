package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"steward/internal/wait"
	"steward/test/harness"
)

// TestSleep kills steward while databases fall asleep and while they wake: nothing is
// lost, nobody is left waiting, and they sleep again.
func TestSleep(t *testing.T) { sleep(t, once, "postgresql/15", 1) }

func TestSleepThorough(t *testing.T) {
	t.Parallel()
	t.Run("postgresql", func(t *testing.T) { sleep(t, 2, "postgresql/15", 1) })
	t.Run("mysql", func(t *testing.T) { sleep(t, 2, "mysql/10.11", 3) })
}

func sleep(t *testing.T, kills int, engine string, size int) {
	w := newWorld(t, postgresql, mariadb)
	w.Kill()
	w.Env = append(w.Env, "STEWARD_MINUTE=100ms")
	w.Start()
	w.try(kills, operation{
		name: "sleep and wake", steps: 55,
		prepare: func(w *world) { w.makeAutoSuspended(engine, size) },
		ask: func(w *world) (int, error) {
			status, err := w.put(map[string]any{"auto_suspend": map[string]any{"idle_minutes": 1}})
			if err != nil {
				return status, err
			}
			if err := w.awaitAsleep(); err != nil {
				return status, err
			}
			return status, w.query(w.db, w.cred)
		},
		check: checkAutoSuspended,
	})
}

// makeAutoSuspended makes the database that operations are done to, once, has it stay awake, and adds a row.
func (w *world) makeAutoSuspended(engine string, size int) {
	w.t.Helper()
	if w.db.ID == 0 {
		spec := harness.Small(fmt.Sprintf("crash-%d", w.n), engine)
		spec["cluster_size"] = size
		w.db = w.CreateActive(spec)
		w.cred = w.Credentials(w.db)
		w.rows, w.size = 0, size
		w.exec("CREATE TABLE kept (n int PRIMARY KEY)")
	}
	w.makeActive()
	if status, err := w.put(map[string]any{"auto_suspend": map[string]any{"idle_minutes": 0}}); status != 200 {
		w.t.Fatal(status, err)
	}
	w.AwaitStatus(w.db, "active")
	w.rows++
	w.exec(fmt.Sprintf("INSERT INTO kept VALUES (%d)", w.rows))
}

// awaitAsleep waits until the API says that the database sleeps; an error when steward has ended,
// as is meant to happen: await would end the test.
func (w *world) awaitAsleep() error {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for {
		var d harness.Database
		if _, _, err := w.TryCall("GET", w.db.Path(), nil, &d); err != nil {
			return err
		}
		if d.Sleeping {
			return nil
		}
		if wait.Sleep(ctx, 50*time.Millisecond) != nil {
			return errors.New("it doesn't fall asleep")
		}
	}
}

func checkAutoSuspended(t *testing.T, w *world, accepted bool) {
	t.Helper()
	w.mustHaveRows(t, w.rows) // whatever it was at
	w.makeActive()
	if !accepted {
		return
	}
	for range 2 {
		if err := w.awaitAsleep(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if rows, err := w.count(ctx); err != nil || rows != w.rows {
			t.Errorf("%d rows, want %d: %v", rows, w.rows, err)
		}
	}
	for _, o := range []string{"database_failed", "database_failover", "database_degraded"} {
		if w.told(o) {
			t.Errorf("event %s", o)
		}
	}
}

// told reports whether there is an event of an action.
func (w *world) told(action string) bool {
	w.t.Helper()
	return slices.ContainsFunc(w.Events(), func(e harness.Event) bool { return e.Action == action })
}
