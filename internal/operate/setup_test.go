package operate_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/archive/archivetest"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var (
	small = catalog.Plan{ID: "small", MemoryMB: 1024, DiskMB: 25600, VCPUs: 1}
	large = catalog.Plan{ID: "large", MemoryMB: 4096, DiskMB: 81920, VCPUs: 2}
)

// client is the address that every database of the bench lets in.
var client = netip.MustParseAddr("192.0.2.7")

// bench is a store, a world of clusters in memory, and what works on them.
type bench struct {
	t       *testing.T
	store   *store.Store
	world   *memplatform.World
	driver  *memplatform.Driver
	archive *archivetest.Memory
	// keeps has the platform keep backups itself.
	keeps bool
	// versions are those installed; nil for the usual ones.
	versions map[string][]string
	// change is applied to the operator's options at each start.
	change   func(*operate.Options)
	control  *control.Control
	operator *operate.Operator
	limits   operate.Limits
	admin    account.Principal
	// last is the operation that was asked for last.
	last   operation.ID
	labels atomic.Int64
}

func newBench(t *testing.T, limits operate.Limits) *bench {
	t.Helper()
	return newBenchOn(t, pgtest.Store(t), limits)
}

func newBenchOn(t *testing.T, s *store.Store, limits operate.Limits) *bench {
	t.Helper()
	b := &bench{t: t, store: s, world: memplatform.NewWorld(), archive: archivetest.New(), limits: limits}
	err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
		user, err := tx.EnsureAdmin(t.Context())
		b.admin = account.Principal{Account: user.Account, User: user, Scopes: account.FullScopes()}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.restart()
	return b
}

// restart is what a new process starts with: nothing but store and world.
func (b *bench) restart() {
	b.driver = memplatform.New(b.world, memplatform.Options{Secrets: b.store, Keeps: b.keeps, Versions: b.versions})
	plans := &catalog.Catalog{Plans: []catalog.Plan{small, large}, Regions: []catalog.Region{{ID: "local"}}, Engines: b.driver.Engines()}
	b.control = control.New(control.Deps{
		Store: b.store, Catalog: plans, Ports: [2]int{21000, 23000}, Logger: slog.New(slog.DiscardHandler), Sources: anySource{},
		Enqueue: func(_ context.Context, _ *store.Tx, id operation.ID) error {
			b.last = id
			return nil
		},
	})
	o := operate.Options{
		Store: b.store, Driver: b.driver, Catalog: plans, Archive: b.archive, Recovery: unsaved{}, Sources: anySource{},
		Logger: slog.New(slog.DiscardHandler), Limits: b.limits,
	}
	if b.change != nil {
		b.change(&o)
	}
	b.operator = operate.New(o)
}

// unsaved keeps nothing that recovers databases.
type unsaved struct{}

func (unsaved) Save(context.Context, cluster.ID) error { return nil }

// quick are limits for tests in which steps fail once.
var quick = operate.Limits{Quick: time.Nanosecond, Copies: time.Nanosecond, Seen: time.Nanosecond}

// quickPass ends a pass over what doesn't settle.
const quickPass = 200 * time.Millisecond

// hopeless are limits that give up as soon as anything goes on failing.
var hopeless = operate.Limits{Quick: time.Nanosecond, Copies: time.Nanosecond, GiveUp: time.Nanosecond}

func (b *bench) spec() cluster.Spec {
	return cluster.Spec{
		Label: fmt.Sprintf("db-%d", b.labels.Add(1)), Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: small.ID,
		Size: 1, SSLConnection: true, AllowList: cluster.AllowList{client.String()},
	}
}

// ask begins a create.
func (b *bench) create() cluster.Cluster {
	b.t.Helper()
	c, err := b.control.Clusters.Create(b.t.Context(), b.admin, b.spec(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if c.Status != cluster.Provisioning {
		b.t.Fatalf("a new database is %s", c.Status)
	}
	return c
}

// active makes a database that serves.
func (b *bench) active() cluster.Cluster {
	b.t.Helper()
	c := b.create()
	b.runToEnd()
	c = b.view(c.ID)
	if c.Status != cluster.Active {
		b.t.Fatalf("the new database is %s", c.Status)
	}
	return c
}

// runToEnd runs the last operation until it is over.
func (b *bench) runToEnd() operation.Operation {
	b.t.Helper()
	const most = 20
	for range most {
		if _, err := b.operator.Run(b.t.Context(), b.last); err != nil {
			b.t.Fatalf("run: %v", err)
		}
		if o := b.event(b.last); o.Status.Done() {
			return o
		}
	}
	b.t.Fatalf("operation %d isn't over after %d runs: %+v", b.last, most, b.event(b.last))
	return operation.Operation{}
}

func (b *bench) event(id operation.ID) operation.Operation {
	b.t.Helper()
	o, err := b.control.Events.View(b.t.Context(), b.admin, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

func (b *bench) view(id cluster.ID) cluster.Cluster {
	b.t.Helper()
	c, err := b.control.Clusters.View(b.t.Context(), b.admin, "", id)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// login is nil when the credentials that the API answers let the client in.
func (b *bench) login(c cluster.Cluster) error {
	answer, err := b.control.Clusters.Credentials(b.t.Context(), b.admin, c.Engine, c.ID)
	if err != nil {
		return err
	}
	return b.world.Login(c.ID, client, answer.Password)
}

// mustServe demands that all the API says of the database is so.
func (b *bench) mustServe(id cluster.ID) {
	b.t.Helper()
	c := b.view(id)
	if c.Status != cluster.Active || c.Hosts.Primary == "" || c.Hosts.Secondary == "" || len(c.Members) != c.Size || c.ServerVersion == "" || c.UsedBytes == nil {
		b.t.Errorf("the API says: %+v", c)
	}
	real, ok := b.world.Cluster(id)
	if !ok {
		b.t.Fatalf("cluster %d isn't there", id)
	}
	if !real.Running || !real.Routed || !real.AllowList.Equal(c.AllowList) || real.Plan.ID != c.Type || real.Installation != c.Installation || real.Port != c.Port {
		b.t.Errorf("the API says %+v,\nbut there is %+v", c, real)
	}
	if err := b.login(c); err != nil {
		b.t.Errorf("log in: %v", err)
	}
}

// mustRest demands that the database is suspended: nothing runs, and all of
// what the API showed of it before is still so.
func (b *bench) mustRest(c cluster.Cluster) {
	b.t.Helper()
	now := b.view(c.ID)
	if now.Status != cluster.Suspended || now.Hosts != c.Hosts || now.Port != c.Port || len(now.Members) != len(c.Members) ||
		now.ServerVersion != c.ServerVersion || now.UsedBytes == nil {
		b.t.Errorf("suspended, the API says %+v, before %+v", now, c)
	}
	if real, there := b.world.Cluster(c.ID); !there || real.Running || !real.Suspended {
		b.t.Errorf("there is %+v", real)
	}
	if _, err := b.control.Clusters.Credentials(b.t.Context(), b.admin, c.Engine, c.ID); !fault.IsKind(err, fault.Precondition) {
		b.t.Errorf("credentials: %v", err)
	}
}

// mustBeGone demands that nothing is left of the database.
func (b *bench) mustBeGone(c cluster.Cluster) {
	b.t.Helper()
	if _, err := b.control.Clusters.View(b.t.Context(), b.admin, "", c.ID); !fault.IsKind(err, fault.NotFound) {
		b.t.Errorf("view: %v", err)
	}
	if _, err := b.store.ClusterForWork(b.t.Context(), c.ID); !fault.IsKind(err, fault.NotFound) {
		b.t.Errorf("its row: %v", err)
	}
	if left, ok := b.world.Cluster(c.ID); ok {
		b.t.Errorf("left in the world: %+v", left)
	}
	var secrets int
	if err := b.store.Pool().QueryRow(b.t.Context(), "SELECT count(*) FROM cluster_secrets WHERE cluster_id = $1", c.ID).Scan(&secrets); err != nil || secrets != 0 {
		b.t.Errorf("%d secrets are left, %v", secrets, err)
	}
}
