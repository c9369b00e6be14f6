// Package crash kills steward with -9 at every commit and every external step
// of each operation, restarts it, and demands that the world is then complete
// or clean and the API's answer true.
package crash

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/testnet"
	"steward/test/harness"
)

func TestMain(m *testing.M) {
	code := testnet.Run(m) // with the kernel's gateway, where that is possible
	harness.RemoveBinaries()
	os.Exit(code)
}

// operation is one request whose every step is a moment to die at.
type operation struct {
	name string
	// alike reports whether the engine makes no difference.
	alike bool
	// further reports whether make test has others that show about the same.
	further bool
	// prepare makes what the request needs, before failpoints count.
	prepare func(w *world)
	// ask sends the request. It may fail: the server dies at some point.
	ask func(w *world) (status int, err error)
	// steps is about how many failpoints it has, where these aren't counted each time.
	steps int
	// patience is how long a failpoint of it that isn't in at may take to be reached; seconds unless set.
	patience time.Duration
	// at names failpoints at which it is killed besides; once, at these alone.
	at []string
	// check demands the outcome. accepted reports whether the request was answered with 200.
	check func(t *testing.T, w *world, accepted bool)
}

type world struct {
	*harness.Server
	t    *testing.T
	db   harness.Database
	cred harness.Credentials
	n    int
	// rows is how many a cluster of three has been given, gone the process that
	// must not be seen again.
	rows, gone int
	// size is how many nodes there are, backup the one under test and backedUp
	// how many rows it has.
	size, backedUp int
	backup         harness.Backup
	failpoints     *harness.Failpoints
	// later is how many rows a source has got while it was followed.
	later int
	// owner is the operator's name for the account of the database, where that isn't the first one.
	owner string
	// library reports whether a library is to be loaded.
	library bool
}

// once is how often `make test` kills each operation; tests whose names end in Thorough do so further times.
const once = 1

func TestCreateThorough(t *testing.T) {
	w := newWorld(t, postgresql, mariadb)
	// The engine makes little difference here.
	for engine, kills := range map[string]int{"postgresql/15": 2, "mysql/10.11": 1} {
		w.try(kills, creating(engine))
	}
	w.deleteAll()
}

func creating(engine string) operation {
	family, _, _ := strings.Cut(engine, "/")
	return operation{
		name: "create " + family, steps: 38,
		prepare: (*world).deleteAll,
		ask: func(w *world) (int, error) {
			status, _, err := w.TryCall("POST", "/v4/databases/"+family+"/instances", harness.Small(fmt.Sprintf("crash-%d", w.n), engine), nil)
			return status, err
		},
		check: checkCreated,
	}
}

// checkCreated: what was acknowledged comes up; what wasn't is there and comes
// up, or isn't there at all. It is kept for what follows, which deletes it without a trace.
func checkCreated(t *testing.T, w *world, accepted bool) {
	found := w.byLabel(fmt.Sprintf("crash-%d", w.n))
	if len(found) == 0 {
		if accepted {
			t.Error("the accepted database is lost")
		}
		return
	}
	w.db = w.AwaitStatus(found[0], "active")
	w.cred = w.Credentials(w.db)
	w.mustQuery(t)
}

// TestChange kills steward while a database is made, changed and deleted, and what is in it and before it.
func TestChange(t *testing.T) {
	w := newWorld(t, postgresql)
	w.try(once, creating("postgresql/15"))
	w.tryPools(once)
	w.tryInside("postgresql/15", once, making(app), removing(shop), making(trigrams))
	w.change(once)
}

func TestChangeThorough(t *testing.T) { newWorld(t, postgresql).change(2) }

// change does to a database what one of a single node can be asked for, up to its end.
func (w *world) change(kills int) {
	for _, op := range []operation{
		{
			name: "allow_list", steps: 19,
			ask: func(w *world) (int, error) {
				return w.put(map[string]any{"allow_list": []string{"127.0.0.1", fmt.Sprintf("10.0.0.%d", w.n%250+1)}})
			},
			check: func(t *testing.T, w *world, accepted bool) {
				d := w.AwaitStatus(w.db, "active")
				if accepted && len(d.AllowList) != 2 {
					t.Errorf("allow_list is %v", d.AllowList)
				}
				w.mustQuery(t)
			},
		},
		{
			name: "resize", steps: 42,
			prepare: func(w *world) {
				if w.db.Type != "g6-nanode-1" {
					w.deleteAll()
					w.fresh()
				}
			},
			ask: func(w *world) (int, error) { return w.put(map[string]any{"type": "g6-standard-1"}) },
			check: func(t *testing.T, w *world, accepted bool) {
				w.db = w.AwaitStatus(w.db, "active")
				if accepted && w.db.Type != "g6-standard-1" {
					t.Errorf("type is %s", w.db.Type)
				}
				w.mustQuery(t)
			},
		},
		{
			name: "restart", steps: 36, // TestMaintenance patches
			ask: func(w *world) (int, error) {
				w.gone = w.Primary(w.db).Pid
				return w.post("/restart")
			},
			check: func(t *testing.T, w *world, accepted bool) {
				w.AwaitStatus(w.db, "active")
				if now := w.Primary(w.db).Pid; accepted && now == w.gone {
					t.Errorf("process %d still serves", now)
				}
				w.mustQuery(t)
			},
		},
		{
			name: "reset", steps: 18,
			ask: func(w *world) (int, error) { return w.post("/credentials/reset") },
			check: func(t *testing.T, w *world, accepted bool) {
				w.AwaitStatus(w.db, "active")
				before := w.cred.Password
				w.cred = w.Credentials(w.db)
				if accepted && w.cred.Password == before {
					t.Error("an accepted reset left the password as it was")
				}
				w.mustQuery(t)
			},
		},
		{
			name: "delete", steps: 35,
			ask: func(w *world) (int, error) {
				status, _, err := w.TryCall("DELETE", w.db.Path(), nil, nil)
				return status, err
			},
			check: func(t *testing.T, w *world, accepted bool) {
				status, _ := w.Call("GET", w.db.Path(), nil, nil)
				switch {
				case status == 404:
					w.Eventually("removed", w.Leftovers)
					w.db = harness.Database{}
				case accepted:
					t.Errorf("an accepted delete leaves the database answering %d", status)
				default:
					w.AwaitStatus(w.db, "active")
					w.mustQuery(t)
					w.deleteAll()
				}
			},
		},
	} {
		if op.prepare == nil {
			op.prepare = func(w *world) {
				if w.db.ID == 0 {
					w.fresh()
				}
			}
		}
		w.try(kills, op)
	}
}

// newWorld starts a server for operations to be tried on, one after the other.
func newWorld(t *testing.T, options ...harness.Option) *world {
	t.Parallel()
	w := prepared(t, options...)
	w.Start()
	return w
}

// What databases of the tests are made of.
var (
	postgresql = harness.OfBuilds("postgresql-15")
	mariadb    = harness.OfBuilds("mariadb-10")
)

// prepared is a server that can be killed at its failpoints, before its first start.
func prepared(t *testing.T, options ...harness.Option) *world {
	t.Helper()
	w := &world{Server: harness.Prepare(t, append(options, harness.WithTags("failpoint"))...), t: t}
	w.failpoints = w.Failpoints()
	return w
}

// try kills at as many of the operation's failpoints, at all when STEWARD_CRASH is all. It leaves a server that runs.
func (w *world) try(kills int, op operation) {
	if w.t.Failed() {
		return // a database that isn't as it should be shows nothing
	}
	if kills == once && harness.Everything() {
		return // the test that is Thorough kills at all
	}
	w.t.Run(op.name, func(t *testing.T) {
		outer := w.t
		w.t = t
		defer func() { w.t = outer }()
		if kills == once && len(op.at) > 0 {
			kills = 0
		}
		w.failpoints.Try(t, kills, harness.Operation{
			Name: op.name, Steps: op.steps, Patience: op.patience, At: op.at,
			Prepare: func() {
				w.n++
				if op.prepare != nil {
					op.prepare(w)
				}
			},
			Ask:   func() (int, error) { return op.ask(w) },
			Check: func(accepted bool) { op.check(t, w, accepted) },
		})
	})
}

func (w *world) byLabel(label string) []harness.Database {
	var list struct {
		Data []harness.Database `json:"data"`
	}
	if status, body := w.Call("GET", "/v4/databases/instances", nil, &list); status != 200 {
		w.t.Fatalf("list: %d %s", status, body)
	}
	var found []harness.Database
	for _, d := range list.Data {
		if label == "" || d.Label == label {
			found = append(found, d)
		}
	}
	return found
}

// fresh makes the database the next operation is done to.
func (w *world) fresh() {
	w.db = w.CreateActive(harness.Small(fmt.Sprintf("crash-%d", w.n), "postgresql/15"))
	w.cred = w.Credentials(w.db)
}

// disarm ends the counting of failpoints, also for the cleaning up after a check.
func (w *world) disarm() {
	w.t.Helper()
	w.failpoints.Disarm(w.t)
}

func (w *world) deleteAll() {
	w.disarm()
	for _, d := range w.byLabel("") {
		if status, body := w.Call("DELETE", d.Path(), nil, nil); status != 200 {
			w.t.Errorf("delete: %d %s", status, body)
		}
	}
	w.Eventually("removed", w.Leftovers)
	w.db, w.size = harness.Database{}, 0
}

func (w *world) put(body map[string]any) (int, error) {
	status, _, err := w.TryCall("PUT", w.db.Path(), body, nil)
	return status, err
}

func (w *world) post(action string) (int, error) {
	status, _, err := w.TryCall("POST", w.db.Path()+action, nil, nil)
	return status, err
}

func (w *world) query(d harness.Database, c harness.Credentials) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	db, err := harness.Connect(ctx, d, c, "")
	if err != nil {
		return err
	}
	return db.Close()
}

func (w *world) mustQuery(t *testing.T) {
	t.Helper()
	if err := w.query(w.db, w.cred); err != nil {
		t.Errorf("active but not reachable: %v", err)
	}
}
