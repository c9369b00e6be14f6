package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// cheap is a cost of passwords for tests: a real hash takes half a second of the processor with the race detector.
var cheap = control.PasswordCost{MemoryKiB: 64, Passes: 1, Lanes: 1}

// bench is the use cases over a store of the test's own.
type bench struct {
	*control.Control
	t     *testing.T
	store *store.Store
	now   time.Time
	// woken are the operations that a worker was woken for.
	waking sync.Mutex
	woken  []operation.ID
	n      int
}

func newBench(t *testing.T, change ...func(*control.Deps)) *bench {
	t.Helper()
	b := &bench{t: t, now: time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)}
	b.store = pgtest.Store(t, pgtest.WithNow(func() time.Time { return b.now }))
	plans := &catalog.Catalog{
		Plans: []catalog.Plan{
			{ID: "small", DiskMB: 25600}, {ID: "large", DiskMB: 81920}, {ID: "same", DiskMB: 25600}, {ID: "old", DiskMB: 409600, Deprecated: true},
		},
		Regions: []catalog.Region{{ID: "local"}},
		Engines: []catalog.Engine{
			{Engine: cluster.PostgreSQL, Series: "15", EncryptionMissing: "PostgreSQL has no encryption of its own"},
			{Engine: cluster.MySQL, Series: "10.11"},
			{Engine: cluster.MySQL, Series: "11.8", Upgrades: map[string]string{"": "The build of MariaDB 11.8 on this server lacks the programs that move data between series"}},
		},
	}
	deps := control.Deps{
		Store: b.store, Catalog: plans, Ports: [2]int{21000, 21099}, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return b.now }, PasswordCost: cheap,
		Enqueue: func(_ context.Context, _ *store.Tx, id operation.ID) error {
			b.waking.Lock()
			defer b.waking.Unlock()
			b.woken = append(b.woken, id)
			return nil
		},
	}
	for _, c := range change {
		c(&deps)
	}
	b.Control = control.New(deps)
	return b
}

// tenant makes an account with one unrestricted user.
func (b *bench) tenant(name string) account.Principal {
	b.t.Helper()
	var id account.ID
	err := b.store.Pool().QueryRow(b.t.Context(), "INSERT INTO accounts (name, created) VALUES ($1, now()) RETURNING id", name).Scan(&id)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.user(id, account.User{Username: name})
}

func (b *bench) user(in account.ID, u account.User) account.Principal {
	b.t.Helper()
	u.Account, u.Email = in, u.Username+"@example.org"
	u, err := b.store.CreateUser(b.t.Context(), u)
	if err != nil {
		b.t.Fatal(err)
	}
	return account.Principal{Account: in, User: u, Scopes: account.FullScopes()}
}

func (b *bench) restricted(in account.ID, name string) account.Principal {
	b.t.Helper()
	return b.user(in, account.User{Username: name, Restricted: true})
}

func (b *bench) grant(p account.Principal, id cluster.ID, permission account.Permission) {
	b.t.Helper()
	if err := b.store.SetGrant(b.t.Context(), p.User, id, permission); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) spec() cluster.Spec {
	b.n++
	return cluster.Spec{
		Label: fmt.Sprintf("db-%d", b.n), Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "small", Size: 1,
		SSLConnection: true, AllowList: cluster.AllowList{"192.0.2.1"},
	}
}

func (b *bench) create(p account.Principal) cluster.Cluster {
	b.t.Helper()
	c, err := b.Clusters.Create(b.t.Context(), p, b.spec(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// in makes a database in a status.
func (b *bench) in(p account.Principal, status cluster.Status) cluster.Cluster {
	b.t.Helper()
	c := b.create(p)
	if _, err := b.store.Pool().Exec(b.t.Context(), "UPDATE clusters SET status = $1 WHERE id = $2", status, c.ID); err != nil {
		b.t.Fatal(err)
	}
	b.woken = nil
	return b.view(p, c.ID)
}

func (b *bench) view(p account.Principal, id cluster.ID) cluster.Cluster {
	b.t.Helper()
	c, err := b.Clusters.View(b.t.Context(), p, "", id)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// events are those of a database after its create, oldest first.
func (b *bench) events(p account.Principal, id cluster.ID) []operation.Operation {
	b.t.Helper()
	all, _, err := b.Events.List(b.t.Context(), p, store.ListQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	var found []operation.Operation
	for _, o := range slices.Backward(all) {
		if o.Cluster == id && o.Action != operation.Create {
			found = append(found, o)
		}
	}
	return found
}

// kind of an error: 0 for none, -1 for what isn't a fault.
func kind(err error) fault.Kind {
	if err == nil {
		return 0
	}
	found, ok := fault.All(err)
	if !ok {
		return -1
	}
	return found[0].Kind
}

func texts(err error) []string {
	found, _ := fault.All(err)
	var all []string
	for _, f := range found {
		all = append(all, f.Error())
	}
	return all
}
