package crash

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

func TestPoolsThorough(t *testing.T) {
	w := newWorld(t, postgresql)
	w.tryPools(2)
	w.deleteAll()
}

// tryPools kills steward while pools are made, changed and deleted, and while their server is restarted: what was accepted comes
// about, who is connected to another pool stays so, and nothing is left.
func (w *world) tryPools(kills int) {
	pool := func(method, label string, in map[string]any) (int, error) {
		path := w.db.Path() + "/connection-pools"
		if label != "" {
			path += "/" + label
		}
		status, _, err := w.TryCall(method, path, in, nil)
		return status, err
	}
	prepare := func(there bool) func(w *world) {
		return func(w *world) {
			w.t.Helper()
			if w.db.ID == 0 {
				w.fresh()
			}
			w.AwaitStatus(w.db, "active")
			has := w.pools()
			switch {
			case there && !strings.Contains(has, `"label":"app"`):
				w.mustPool(pool("POST", "", map[string]any{"label": "app", "database": "defaultdb", "mode": "transaction", "size": 2}))
			case !there && strings.Contains(has, `"label":"app"`):
				w.mustPool(pool("DELETE", "app", nil))
			}
			w.AwaitStatus(w.db, "active")
		}
	}
	for _, op := range []operation{
		{
			name: "create a pool", steps: 22, prepare: prepare(false),
			ask: func(*world) (int, error) {
				return pool("POST", "", map[string]any{"label": "app", "database": "defaultdb", "mode": "transaction", "size": 2})
			},
			check: checkPool(`"size":2`, true),
		},
		{
			name: "change a pool", steps: 18, prepare: prepare(true),
			ask:   func(w *world) (int, error) { return pool("PUT", "app", map[string]any{"size": w.n%7 + 2}) },
			check: checkPool("", true),
		},
		{
			name: "restart behind a pool", steps: 37, prepare: prepare(true),
			ask:   func(w *world) (int, error) { return w.post("/restart") },
			check: checkPool("", true),
		},
		{
			name: "delete a pool", steps: 23, prepare: prepare(true),
			ask:   func(*world) (int, error) { return pool("DELETE", "app", nil) },
			check: checkPool("", false),
		},
	} {
		w.try(kills, op)
	}
}

// pools is what the API says of them.
func (w *world) pools() string {
	w.t.Helper()
	status, body := w.Call("GET", w.db.Path()+"/connection-pools", nil, nil)
	if status != 200 {
		w.t.Fatalf("pools: %d %s", status, body)
	}
	return body
}

func (w *world) mustPool(status int, err error) {
	w.t.Helper()
	if err != nil || status != 200 {
		w.t.Fatalf("pool: %d %v", status, err)
	}
}

// checkPool: what is shown is so. wanted reports whether there is to be a pool after what was accepted.
func checkPool(text string, wanted bool) func(t *testing.T, w *world, accepted bool) {
	return func(t *testing.T, w *world, accepted bool) {
		t.Helper()
		d := w.AwaitStatus(w.db, "active")
		has := w.pools()
		there := strings.Contains(has, `"label":"app"`)
		if accepted && (there != wanted || !strings.Contains(has, text)) {
			t.Errorf("accepted, and there is %s", has)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if there {
			port := w.PoolPort(d)
			w.Eventually("a pool that serves", func() error {
				conn, err := harness.ConnectPool(ctx, d, port, w.cred, "app")
				if err != nil {
					return err
				}
				defer conn.Close(ctx)
				_, err = conn.Exec(ctx, "SELECT 1")
				return err
			})
		} else {
			w.Eventually("no pooler", func() error {
				for pid, line := range w.Processes() {
					if strings.Contains(line, "pgbouncer") {
						return fmt.Errorf("process %d remains: %s", pid, line)
					}
				}
				return nil
			})
		}
		w.mustQuery(t)
	}
}
