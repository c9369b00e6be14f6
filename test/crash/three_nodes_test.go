package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/test/harness"
)

// TestThreeNodes kills steward at the steps of what happens to clusters of
// several nodes. Rows that were acknowledged before are there afterwards, all
// nodes serve, and there is one primary.
func TestThreeNodes(t *testing.T) { threeNodes(t, once) }

func TestThreeNodesThorough(t *testing.T) { threeNodes(t, 2) }

func threeNodes(t *testing.T, kills int) {
	t.Parallel()
	for engine, builds := range map[string]harness.Option{"postgresql/15": postgresql, "mysql/10.11": mariadb} {
		t.Run(strings.ReplaceAll(engine, "/", "-"), func(t *testing.T) {
			w := newWorld(t, builds)
			for _, op := range threeNodeOperations(engine) {
				switch {
				case kills == once && op.further, strings.HasPrefix(engine, "mysql") && op.alike:
					continue
				case strings.HasPrefix(engine, "mysql") && op.name == "cluster size" && !harness.Everything():
					continue // enginetest and the platform's tests change MariaDB's sizes
				case op.prepare == nil:
					op.prepare = func(w *world) { w.threeNodes(engine) }
				}
				w.try(kills, op)
			}
		})
	}
}

// threeNodeOperations ends with the one that doesn't leave three nodes.
func threeNodeOperations(engine string) []operation {
	restore := restoring(engine, 3)
	restore.alike, restore.further = true, true // TestBackups has one node's
	return []operation{
		{
			name:    "create three",
			steps:   80,
			alike:   true,
			prepare: (*world).deleteAll,
			ask: func(w *world) (int, error) {
				status, _, err := w.TryCall("POST", "/v4/databases/"+strings.Split(engine, "/")[0]+"/instances",
					three(fmt.Sprintf("crash-%d", w.n), engine), nil)
				return status, err
			},
			check: checkCreated,
		},
		{
			name:    "switchover",
			steps:   92,
			further: strings.HasPrefix(engine, "postgresql"), // in TestMaintenance
			ask: func(w *world) (int, error) {
				w.gone = w.Primary(w.db).Pid
				return w.put(map[string]any{"type": "g6-standard-1"})
			},
			prepare: func(w *world) {
				if w.db.Type != "g6-nanode-1" {
					w.deleteAll()
				}
				w.threeNodes(engine)
			},
			check: func(t *testing.T, w *world, accepted bool) {
				if !accepted {
					w.gone = 0
				}
				checkThreeNodes(t, w, accepted)
			},
		},
		{
			name:  "failover and re-join",
			steps: 42,
			ask: func(w *world) (int, error) {
				w.gone = w.Primary(w.db).Pid
				return 200, syscall.Kill(w.gone, syscall.SIGKILL)
			},
			check: checkThreeNodes,
		},
		{
			name:  "settings",
			steps: 78,
			alike: true,
			prepare: func(w *world) {
				w.threeNodes(engine)
				w.gone = 0
			},
			ask: func(w *world) (int, error) {
				return w.put(map[string]any{"engine_config": map[string]any{"pg": map[string]any{"max_locks_per_transaction": locks(w.n)}}})
			},
			check: checkSettings,
		},
		{
			name:    "a library",
			steps:   78,
			alike:   true,
			further: true,
			prepare: func(w *world) {
				w.threeNodes(engine)
				w.gone, w.library = 0, !w.hasLibrary()
			},
			ask: func(w *world) (int, error) {
				var database any // null takes it away
				if w.library {
					database = "defaultdb"
				}
				return w.put(map[string]any{"engine_config": map[string]any{"pg": map[string]any{"cron.database_name": database}}})
			},
			check: checkLibrary,
		},
		{
			name:    "suspend",
			steps:   17,
			alike:   true,
			further: true, // TestAccountsThorough does so with one node
			ask:     func(w *world) (int, error) { w.gone = 0; return w.post("/suspend") },
			check: func(t *testing.T, w *world, accepted bool) {
				if accepted {
					w.AwaitStatus(w.db, "suspended")
				}
				w.makeActive()
				checkThreeNodes(t, w, accepted)
			},
		},
		{
			name:    "resume",
			steps:   58,
			alike:   true,
			further: true,
			prepare: func(w *world) {
				w.threeNodes(engine)
				w.gone = 0
				if status, err := w.post("/suspend"); status != 200 || err != nil {
					w.t.Fatalf("suspend: %d %v", status, err)
				}
				w.AwaitStatus(w.db, "suspended")
			},
			ask: func(w *world) (int, error) { return w.post("/resume") },
			check: func(t *testing.T, w *world, accepted bool) {
				if accepted {
					w.AwaitStatus(w.db, "active")
				}
				w.makeActive()
				checkThreeNodes(t, w, accepted)
			},
		},
		restore,
		{
			name:    "cluster size",
			steps:   44,
			prepare: func(w *world) { w.prepareSize(engine) },
			ask: func(w *world) (int, error) {
				return w.put(map[string]any{"cluster_size": 4 - w.size})
			},
			check: func(t *testing.T, w *world, accepted bool) {
				if accepted {
					w.size = 4 - w.size
				} else { // whether it was heard can be seen
					w.size = w.AwaitStatus(w.db, "active").ClusterSize
				}
				w.AwaitHealthy(w.db, w.size)
				w.mustHaveRows(t, w.rows)
			},
		},
	}
}

// locks is what is asked for in turns of max_locks_per_transaction: replicas are the
// first to have more, the primary to have less.
func locks(n int) int { return []int{128, 80}[n%2] }

// checkSettings: what the API says is chosen is in force, and it's what was asked for
// if that was heard.
func checkSettings(t *testing.T, w *world, accepted bool) {
	t.Helper()
	checkThreeNodes(t, w, accepted)
	var view struct {
		Config struct {
			PG struct {
				Locks int `json:"max_locks_per_transaction"`
			} `json:"pg"`
		} `json:"engine_config"`
	}
	if status, body := w.Call("GET", w.db.Path(), nil, &view); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	chosen := view.Config.PG.Locks
	if accepted && chosen != locks(w.n) {
		t.Errorf("%d locks are chosen, %d were asked for", chosen, locks(w.n))
	}
	if chosen == 0 {
		return
	}
	db := w.MustConnect(w.db, w.cred)
	w.Eventually("in force", func() error {
		var got int
		if err := db.QueryRowContext(t.Context(), "SHOW max_locks_per_transaction").Scan(&got); err != nil {
			return err
		}
		if got != chosen {
			return fmt.Errorf("%d locks in the server, %d in the API", got, chosen)
		}
		return nil
	})
}

// checkLibrary: primary and replicas have loaded what the API says is to be loaded, and its extension works.
func checkLibrary(t *testing.T, w *world, accepted bool) {
	t.Helper()
	checkThreeNodes(t, w, accepted)
	w.disarm()
	chosen := w.hasLibrary()
	if accepted && chosen != w.library {
		t.Errorf("a library is chosen: %t", chosen)
	}
	w.Eventually("in force on primary and replicas", func() error {
		reads := w.db
		reads.Hosts.Primary = w.db.Hosts.Secondary
		return errors.Join(w.loads(t, w.db, chosen), w.loads(t, reads, chosen))
	})
	if !chosen {
		return
	}
	w.mustPool(w.inside("POST", "extensions", "", map[string]any{"name": "pg_cron"}))
	w.exec("SELECT cron.schedule('often', '* * * * *', 'SELECT 1')")
	w.mustPool(w.inside("DELETE", "extensions", "pg_cron", nil))
}

// hasLibrary reports whether a library is chosen for the database.
func (w *world) hasLibrary() bool {
	w.t.Helper()
	var view struct {
		Config struct {
			PG map[string]any `json:"pg"`
		} `json:"engine_config"`
	}
	if status, body := w.Call("GET", w.db.Path(), nil, &view); status != 200 {
		w.t.Fatalf("%d %s", status, body)
	}
	return view.Config.PG["cron.database_name"] != nil
}

// loads returns an error while the servers behind a database's address haven't loaded pg_cron, or have, against what is wanted.
func (w *world) loads(t *testing.T, d harness.Database, wanted bool) error {
	t.Helper()
	db, err := harness.Connect(t.Context(), d, w.cred, "")
	if err != nil {
		return err
	}
	defer db.Close()
	const unknown, secret = "42704", "42501" // which settings are that the library brings, to customers
	want := unknown
	if wanted {
		want = secret
	}
	_, err = db.ExecContext(t.Context(), "SHOW cron.database_name")
	if said, ok := errors.AsType[*pgconn.PgError](err); !ok || said.Code != want {
		return fmt.Errorf("loaded is to be %t: %w", wanted, err)
	}
	return nil
}

// prepareSize makes a database of three, once, and adds a row. Every other time that
// it is to become one of a single node another than the first is the primary.
func (w *world) prepareSize(engine string) {
	w.t.Helper()
	w.threeNodes(engine)
	if w.size == 3 && w.n/2%2 == 0 && w.Primary(w.db).Ordinal == 0 {
		killed := w.Primary(w.db).Pid
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			w.t.Fatal(err)
		}
		w.AwaitHealthy(w.db, 3, killed)
	}
}

// makeActive makes the database active whatever became of the request.
func (w *world) makeActive() {
	w.t.Helper()
	w.disarm() // what follows isn't the operation's
	w.Eventually("settled", func() error {
		var d harness.Database
		if status, body := w.Call("GET", w.db.Path(), nil, &d); status != 200 {
			return fmt.Errorf("%d %s", status, body)
		}
		switch d.Status {
		case "active":
			return nil
		case "suspended":
			_, err := w.post("/resume")
			if err != nil {
				return err
			}
		}
		return fmt.Errorf("it is %s", d.Status)
	})
}

func three(label, engine string) harness.Spec {
	spec := harness.Small(label, engine)
	spec["cluster_size"] = 3
	return spec
}

// threeNodes makes the cluster of three that operations are done to, unless there is one, and adds a
// row to it.
func (w *world) threeNodes(engine string) {
	w.t.Helper()
	if w.db.ID == 0 {
		w.db = w.CreateActive(three(fmt.Sprintf("crash-%d", w.n), engine))
		w.cred = w.Credentials(w.db)
	}
	if w.size == 0 { // it has just been made
		w.rows, w.size = 0, 3
		w.exec("CREATE TABLE kept (n int PRIMARY KEY)")
	}
	w.rows++
	w.exec(fmt.Sprintf("INSERT INTO kept VALUES (%d)", w.rows))
}

func (w *world) exec(statement string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	db, err := harness.Connect(ctx, w.db, w.cred, "")
	if err == nil {
		defer db.Close()
		_, err = db.ExecContext(ctx, statement)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", statement, err)
	}
}

func checkThreeNodes(t *testing.T, w *world, _ bool) {
	t.Helper()
	var gone []int
	if w.gone != 0 {
		gone = append(gone, w.gone)
	}
	w.db = w.AwaitHealthy(w.db, 3, gone...)
	w.mustHaveRows(t, w.rows)
}
