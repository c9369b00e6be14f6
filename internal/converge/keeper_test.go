package converge_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/archive/archivetest"
	"steward/internal/await"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/converge"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var (
	small  = catalog.Plan{ID: "small", MemoryMB: 1024, DiskMB: 25600, VCPUs: 1}
	large  = catalog.Plan{ID: "large", MemoryMB: 4096, DiskMB: 81920, VCPUs: 2}
	client = netip.MustParseAddr("192.0.2.7")
)

// bench is a store, a world in memory, and a keeper that looks after it.
type bench struct {
	t        *testing.T
	store    *store.Store
	world    *memplatform.World
	driver   *memplatform.Driver
	control  *control.Control
	operator *operate.Operator
	plans    *catalog.Catalog
	keeper   *converge.Keeper
	admin    account.Principal
	last     operation.ID
	n        int
	// woken are the operations that are told to the queue.
	woken sync.Map
}

func newBench(t *testing.T, options ...pgtest.Option) *bench {
	t.Helper()
	return newBenchOn(t, pgtest.Store(t, options...))
}

func newBenchOn(t *testing.T, s *store.Store) *bench {
	t.Helper()
	b := &bench{t: t, store: s, world: memplatform.NewWorld()}
	err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
		user, err := tx.EnsureAdmin(t.Context())
		b.admin = account.Principal{Account: user.Account, User: user, Scopes: account.FullScopes()}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(func() { b.keeper.Stop() })
	return b
}

// start is a new process over the same store and world. Its keeper looks often.
func (b *bench) start() {
	b.driver = memplatform.New(b.world, memplatform.Options{Secrets: b.store})
	b.plans = &catalog.Catalog{Plans: []catalog.Plan{small, large}, Regions: []catalog.Region{{ID: "local"}}, Engines: b.driver.Engines()}
	b.control = control.New(control.Deps{
		Store: b.store, Catalog: b.plans, Ports: [2]int{21000, 21099}, Logger: slog.New(slog.DiscardHandler),
		Enqueue: func(ctx context.Context, tx *store.Tx, id operation.ID) error {
			b.last = id
			return b.enqueue(ctx, tx, id)
		},
	})
	b.operator = operate.New(operate.Options{
		Store: b.store, Driver: b.driver, Catalog: b.plans, Archive: archivetest.New(), Recovery: &notes{}, Logger: slog.New(slog.DiscardHandler),
	})
	b.keep(converge.Options{Every: 50 * time.Millisecond, Grace: 300 * time.Millisecond})
}

func (b *bench) keep(o converge.Options) {
	o.Store, o.Driver, o.Catalog, o.Logger = b.store, b.driver, b.plans, slog.New(slog.DiscardHandler)
	o.Enqueue = b.enqueue
	b.keeper = converge.New(o)
	b.keeper.Start(b.t.Context())
}

func (b *bench) enqueue(_ context.Context, _ *store.Tx, id operation.ID) error {
	b.woken.Store(id, true)
	return nil
}

func (b *bench) active() cluster.Cluster {
	b.t.Helper()
	return b.activeOf(1)
}

// activeOf makes a database of so many nodes.
func (b *bench) activeOf(size int) cluster.Cluster {
	b.t.Helper()
	return b.activeLike(cluster.Spec{Engine: cluster.PostgreSQL, Series: "15", Size: size})
}

// activeLike makes a database of that engine and size.
func (b *bench) activeLike(spec cluster.Spec) cluster.Cluster {
	b.t.Helper()
	b.n++
	spec.Label, spec.Region, spec.Type = fmt.Sprintf("db-%d", b.n), "local", small.ID
	spec.SSLConnection, spec.AllowList = true, cluster.AllowList{client.String()}
	c, err := b.control.Clusters.Create(b.t.Context(), b.admin, spec, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.run()
	return b.mustBecome(c.ID, cluster.Active)
}

func (b *bench) run() {
	b.t.Helper()
	if _, err := b.operator.Run(b.t.Context(), b.last); err != nil {
		b.t.Fatal(err)
	}
}

// applied is how many passes the driver has made since it was started.
func (b *bench) applied() int {
	n := 0
	for _, step := range b.driver.Done() {
		if step == memplatform.StepRoute {
			n++
		}
	}
	return n
}

// adopted waits until the keeper has made the row of a new database true once more, and lets others work on it.
func (b *bench) adopted(id cluster.ID) {
	b.t.Helper()
	await.True(b.t, "it is adopted", func() bool { return b.applied() == 2 })
	await.True(b.t, "the keeper lets go of it", func() bool {
		_, release, ok, err := b.store.Lease(b.t.Context(), id)
		if err != nil {
			b.t.Fatal(err)
		}
		if ok {
			release()
		}
		return ok
	})
}

// triedAgain waits until the keeper has tried a step twice more: what came of the first time is on record then.
func (b *bench) triedAgain(step memplatform.Step) {
	b.t.Helper()
	tries := func() int {
		return len(slices.DeleteFunc(b.driver.Done(), func(s memplatform.Step) bool { return s != step }))
	}
	before := tries()
	await.True(b.t, "the keeper tries again", func() bool { return tries() >= before+2 })
}

func (b *bench) view(id cluster.ID) cluster.Cluster {
	b.t.Helper()
	c, err := b.control.Clusters.View(b.t.Context(), b.admin, "", id)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// lookedAgain returns when the keeper has looked at a database that it looks after
// twice more, and has done what followed from the first of these looks.
func (b *bench) lookedAgain(id cluster.ID) {
	b.t.Helper()
	for range 3 { // the first may have begun before
		before := b.driver.Looks(id)
		b.driver.Change(id)
		await.True(b.t, fmt.Sprintf("cluster %d is looked at again", id), func() bool { return b.driver.Looks(id) > before })
	}
}

// passedOver returns when the keeper had several occasions to look at a database that
// it leaves alone: as often as it was told of that, it looked at another one since.
func (b *bench) passedOver(id, other cluster.ID) {
	b.t.Helper()
	for range 3 {
		b.driver.Change(id)
		b.lookedAgain(other)
	}
}

// withoutGrace has a keeper whose grace is over with the next look.
func (b *bench) withoutGrace() {
	b.t.Helper()
	b.keeper.Stop()
	b.keep(converge.Options{Every: 50 * time.Millisecond, Grace: time.Nanosecond})
}

func (b *bench) mustBecome(id cluster.ID, status cluster.Status) cluster.Cluster {
	b.t.Helper()
	var c cluster.Cluster
	await.True(b.t, fmt.Sprintf("cluster %d is %s", id, status), func() bool {
		c = b.view(id)
		return c.Status == status
	})
	return c
}

// events are the actions of a cluster's events beyond its create, oldest first.
func (b *bench) events(id cluster.ID) []operation.Operation {
	b.t.Helper()
	all, _, err := b.control.Events.List(b.t.Context(), b.admin, store.ListQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	var found []operation.Operation
	for _, o := range all {
		if o.Cluster == id && o.Action != operation.Create {
			found = append([]operation.Operation{o}, found...)
		}
	}
	return found
}

func (b *bench) mustHaveEvents(id cluster.ID, want ...operation.Action) {
	b.t.Helper()
	var got []operation.Action
	for _, o := range b.events(id) {
		got = append(got, o.Action)
		if o.Status == operation.Notification && (o.Message == "" || o.Percent != 100 || o.Label == "") {
			b.t.Errorf("event: %+v", o)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("events %v, want %v", got, want)
	}
}

func (b *bench) mustServe(id cluster.ID) {
	b.t.Helper()
	c := b.view(id)
	answer, err := b.control.Clusters.Credentials(b.t.Context(), b.admin, c.Engine, id)
	if err == nil {
		err = b.world.Login(id, client, answer.Password)
	}
	if err != nil {
		b.t.Error(err)
	}
}

func TestABrokenDatabaseFailsAndIsHealed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, other := b.active(), b.active()
	b.driver.Break(c.ID, "the disk is on fire")
	b.mustBecome(c.ID, cluster.Failed)
	b.mustHaveEvents(c.ID, operation.Failed)
	if e := b.events(c.ID)[0]; strings.Contains(e.Message, "the disk is on fire") || e.Status != operation.Notification {
		t.Errorf("event: %+v", e)
	}
	if got := b.view(c.ID); got.Hosts != c.Hosts || got.UsedBytes == nil {
		t.Errorf("its addresses are gone: %+v", got)
	}
	b.driver.Mend(c.ID)
	b.mustBecome(c.ID, cluster.Active)
	b.mustHaveEvents(c.ID, operation.Failed, operation.Recovered)
	b.mustServe(c.ID)
	b.mustHaveEvents(other.ID)
}

func TestACrashRestartDoesNotFlap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	b.keeper.Stop()
	b.keep(converge.Options{Every: 50 * time.Millisecond, Grace: time.Hour})
	for range 5 {
		// Down for less than the grace, then up by itself.
		b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.Running = false })
		b.driver.Change(c.ID)
		await.True(b.t, "it is up again", func() bool {
			real, _ := b.world.Cluster(c.ID)
			return real.Running
		})
		b.driver.Crash(c.ID)
	}
	b.lookedAgain(c.ID)
	await.True(b.t, "it is up at last", func() bool {
		real, _ := b.world.Cluster(c.ID)
		return real.Running
	})
	b.lookedAgain(c.ID)
	b.mustHaveEvents(c.ID)
	b.mustServe(c.ID)
}

func TestARebootIsMadeGood(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var all []cluster.Cluster
	for range 6 {
		all = append(all, b.active())
	}
	b.keeper.Stop()
	b.world.Reboot()
	// What was asked for just before must be true afterwards, too.
	b.world.Edit(all[0].ID, func(real *memplatform.Cluster) { real.Routed = false })
	b.start()
	await.True(b.t, "all are up", func() bool {
		for _, c := range all {
			if real, _ := b.world.Cluster(c.ID); !real.Running || !real.Routed {
				return false
			}
		}
		return true
	})
	for _, c := range all {
		b.mustBecome(c.ID, cluster.Active)
		b.mustServe(c.ID)
		b.mustHaveEvents(c.ID)
	}
}

func TestAdoptionRestartsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	before, _ := b.world.Cluster(c.ID)
	b.keeper.Stop()
	b.start()
	await.True(b.t, "it was applied", func() bool { return b.applied() > 0 })
	b.lookedAgain(c.ID)
	after, _ := b.world.Cluster(c.ID)
	if after.Starts != before.Starts || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if n := b.applied(); n != 1 {
		t.Errorf("a settled database was applied %d times", n)
	}
}

// TestAChangeThatWasGivenUpIsMadeTrueLater: a resize, an allow_list and a reset
// that fail leave a degraded database; when the trouble is over, all of its row
// is true again.
func TestAChangeThatWasGivenUpIsMadeTrueLater(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		step memplatform.Step
		ask  func(b *bench, c cluster.Cluster) error
	}{
		{"resize", memplatform.StepConfigure, func(b *bench, c cluster.Cluster) error {
			_, err := b.control.Clusters.Update(b.t.Context(), b.admin, "", c.ID, control.UpdateCluster{Type: &large.ID}, nil)
			return err
		}},
		{"allow list", memplatform.StepRoute, func(b *bench, c cluster.Cluster) error {
			_, err := b.control.Clusters.Update(b.t.Context(), b.admin, "", c.ID, control.UpdateCluster{AllowList: &[]string{"192.0.2.0/24"}}, nil)
			return err
		}},
		{"reset", memplatform.StepPassword, func(b *bench, c cluster.Cluster) error {
			return b.control.Clusters.ResetCredentials(b.t.Context(), b.admin, "", c.ID)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			db := b.active()
			b.adopted(db.ID)
			b.operator.Limits = operate.Limits{Pass: time.Second, Quick: 1, GiveUp: 1}
			if err := c.ask(b, db); err != nil {
				t.Fatal(err)
			}
			b.driver.Inject(memplatform.Fault{Step: c.step, Cluster: db.ID})
			await.True(b.t, "it is given up", func() bool {
				b.run() // in vain while the keeper is at the database
				op, err := b.store.OperationForWork(b.t.Context(), b.last)
				if err != nil {
					b.t.Fatal(err)
				}
				return op.Status.Done()
			})
			b.mustBecome(db.ID, cluster.Degraded)
			b.triedAgain(c.step)
			b.driver.Clear()
			healed := b.mustBecome(db.ID, cluster.Active)
			b.mustServe(db.ID)
			real, _ := b.world.Cluster(db.ID)
			if real.Plan.ID != healed.Type || !real.AllowList.Equal(healed.AllowList) {
				t.Errorf("row %+v, real %+v", healed, real)
			}
			actions := b.events(db.ID)
			if last := actions[len(actions)-1]; last.Action != operation.Recovered {
				t.Errorf("last event: %+v", last)
			}
		})
	}
}

func TestALostDatabaseIsNotReplacedByAnEmptyOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	if err := b.driver.Remove(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b.driver.Change(c.ID)
	b.mustBecome(c.ID, cluster.Failed)
	if e := b.events(c.ID); !strings.Contains(e[0].Message, platform.LostReason) {
		t.Errorf("event: %+v", e)
	}
	b.lookedAgain(c.ID)
	if _, there := b.world.Cluster(c.ID); there {
		t.Error("an empty database was made in its place")
	}
}

func TestACreateThatWasGivenUpStaysFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.active()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepStart, Problem: "no"})
	c, err := b.control.Clusters.Create(t.Context(), b.admin, cluster.Spec{
		Label: "unlucky", Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: small.ID, Size: 1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.run()
	b.driver.Clear()
	b.passedOver(c.ID, other.ID)
	if _, there := b.world.Cluster(c.ID); there || b.view(c.ID).Status != cluster.Failed {
		t.Errorf("there: %v, status %s", there, b.view(c.ID).Status)
	}
}

func TestDiskGuard(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	fill := func(percent int64) {
		b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.UsedBytes = small.DiskBytes() * percent / 100 })
		b.driver.Change(c.ID)
	}
	guarded := func(want bool) func() bool {
		return func() bool {
			real, _ := b.world.Cluster(c.ID)
			return real.ReadOnly == want && b.view(c.ID).ReadOnly == want
		}
	}
	fill(94)
	await.True(b.t, "the use is known", func() bool { return *b.view(c.ID).UsedBytes == small.DiskBytes()*94/100 })
	b.mustHaveEvents(c.ID)
	fill(96)
	await.True(b.t, "read-only", guarded(true))
	b.mustHaveEvents(c.ID, operation.LowDiskSpace)
	fill(91)
	await.True(b.t, "the use is known", func() bool { return *b.view(c.ID).UsedBytes == small.DiskBytes()*91/100 })
	if !guarded(true)() {
		t.Error("writable again at 91 %")
	}
	fill(50)
	await.True(b.t, "writable", guarded(false))
	b.mustHaveEvents(c.ID, operation.LowDiskSpace, operation.LowDiskSpace)
	if b.view(c.ID).Status != cluster.Active {
		t.Errorf("status %s", b.view(c.ID).Status)
	}
}

func TestDiskGuardAndABiggerPlan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.UsedBytes = small.DiskBytes() })
	b.driver.Change(c.ID)
	await.True(b.t, "read-only", func() bool { return b.view(c.ID).ReadOnly })
	if _, err := b.control.Clusters.Update(t.Context(), b.admin, "", c.ID, control.UpdateCluster{Type: &large.ID}, nil); err != nil {
		t.Fatal(err)
	}
	b.run()
	await.True(b.t, "writable", func() bool {
		real, _ := b.world.Cluster(c.ID)
		return !real.ReadOnly && !b.view(c.ID).ReadOnly
	})
}

// TestDiskGuardIsRepeated: a death between closing the guard and recording it
// loses neither the guard nor its event.
func TestDiskGuardIsRepeated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	b.keeper.Stop()
	b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.UsedBytes, real.ReadOnly = small.DiskBytes(), true })
	b.start()
	await.True(b.t, "read-only", func() bool {
		real, _ := b.world.Cluster(c.ID)
		return real.ReadOnly && b.view(c.ID).ReadOnly
	})
	b.mustHaveEvents(c.ID, operation.LowDiskSpace)
}

func TestOrphansAreRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	b.keeper.Stop()
	b.world.Put(memplatform.Cluster{ID: 4711, Port: 21077, Running: true, Routed: true})
	b.start()
	await.True(b.t, "the orphan is gone", func() bool {
		_, there := b.world.Cluster(4711)
		return !there
	})
	b.mustServe(c.ID)
}

// TestOperationsAreLeftAlone: what an operation is in charge of is not looked after.
func TestOperationsAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, other := b.active(), b.active()
	b.withoutGrace()
	if err := b.control.Clusters.Patch(t.Context(), b.admin, "", c.ID); err != nil {
		t.Fatal(err)
	}
	b.driver.Break(c.ID, "stopped for the patch")
	b.passedOver(c.ID, other.ID)
	if got := b.view(c.ID); got.Status != cluster.Updating {
		t.Errorf("status %s", got.Status)
	}
	b.mustHaveEvents(c.ID, operation.Patch)
}

// TestASlowRecoveryIsTold: a server that takes long to come up is failed
// meanwhile, not active.
func TestASlowRecoveryIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	told := make(chan struct{})
	tell := sync.OnceFunc(func() { close(told) })
	t.Cleanup(tell)
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepStart, Do: func() { <-told }, Cluster: c.ID})
	b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.Running = false })
	b.driver.Change(c.ID)
	b.mustBecome(c.ID, cluster.Failed)
	if real, _ := b.world.Cluster(c.ID); real.Running {
		t.Error("it was told too late")
	}
	tell()
	b.mustBecome(c.ID, cluster.Active)
	b.mustHaveEvents(c.ID, operation.Failed, operation.Recovered)
}

// TestAPlatformThatCannotBeLookedAt is no reason to call a database failed at once.
func TestAPlatformThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.active()
	b.withoutGrace()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepObserve})
	b.lookedAgain(c.ID)
	b.mustHaveEvents(c.ID)
	b.driver.Clear()
	b.mustBecome(c.ID, cluster.Active)
}

// counter counts queries.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestIdleDatabasesCostLittle: a look at a healthy database is one read and
// nothing else, no lease, no write, no pass of the driver.
func TestIdleDatabasesCostLittle(t *testing.T) {
	t.Parallel()
	queries := &counter{}
	b := newBench(t, pgtest.WithTracer(queries))
	const databases = 10
	var ids []cluster.ID
	for range databases {
		ids = append(ids, b.active().ID)
	}
	looks := func() (n int) {
		for _, id := range ids {
			n += b.driver.Looks(id)
		}
		return n
	}
	b.keeper.Stop()
	b.start()
	await.True(b.t, "all are adopted", func() bool { return b.applied() == databases })
	b.keeper.Stop()
	b.keep(converge.Options{Every: 20 * time.Millisecond})
	await.True(b.t, "all are adopted", func() bool { return b.applied() == 2*databases })
	seen := looks()
	await.True(b.t, "all were looked at since", func() bool { return looks() >= seen+2*databases })
	before, applied, seen := queries.n.Load(), b.applied(), looks()
	await.True(b.t, "ten rounds are over", func() bool { return looks() >= seen+10*databases })
	rounds := float64(looks()-seen)/databases + 2 // those that were under way at both ends
	if n := float64(queries.n.Load() - before); n > rounds*(databases+1) {
		t.Errorf("%.0f queries in %.1f rounds", n, rounds)
	}
	if n := b.applied() - applied; n != 0 {
		t.Errorf("%d passes of the driver", n)
	}
}

func (b *bench) suspended() cluster.Cluster {
	b.t.Helper()
	c := b.active()
	if err := b.control.Clusters.Suspend(b.t.Context(), b.admin, "", c.ID); err != nil {
		b.t.Fatal(err)
	}
	b.run()
	return b.mustBecome(c.ID, cluster.Suspended)
}

// TestSuspendedDatabasesRest: looks, restarts and reboots don't wake them, and
// what runs of them all the same is stopped.
func TestSuspendedDatabasesRest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, lost := b.suspended(), b.suspended()
	before, _ := b.world.Cluster(c.ID)
	if err := b.driver.Remove(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b.lookedAgain(c.ID)
		b.lookedAgain(lost.ID)
		b.keeper.Stop()
		b.world.Reboot()
		b.start()
	}
	b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.Running, real.Suspended = true, false })
	b.driver.Change(c.ID)
	await.True(b.t, "it is stopped again", func() bool {
		real, _ := b.world.Cluster(c.ID)
		return !real.Running && real.Suspended
	})
	if real, _ := b.world.Cluster(c.ID); real.Starts != before.Starts || b.view(c.ID).Status != cluster.Suspended {
		t.Errorf("%+v, status %s", real, b.view(c.ID).Status)
	}
	if _, there := b.world.Cluster(lost.ID); there || b.view(lost.ID).Status != cluster.Suspended {
		t.Errorf("the lost one: there %v, %s", there, b.view(lost.ID).Status)
	}
	b.mustHaveEvents(c.ID, operation.Suspend)
	if err := b.control.Clusters.Resume(t.Context(), b.admin, "", c.ID); err != nil {
		t.Fatal(err)
	}
	b.run()
	b.mustBecome(c.ID, cluster.Active)
	b.mustServe(c.ID)
	b.lookedAgain(c.ID)
	b.mustHaveEvents(c.ID, operation.Suspend, operation.Resume)
}

func TestDeletedWhileFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, other := b.active(), b.active()
	b.driver.Break(c.ID, "broken")
	b.mustBecome(c.ID, cluster.Failed)
	if err := b.control.Clusters.Delete(t.Context(), b.admin, "", c.ID, false); err != nil {
		t.Fatal(err)
	}
	b.run()
	if _, there := b.world.Cluster(c.ID); there {
		t.Error("it is still there")
	}
	b.passedOver(c.ID, other.ID)
	if _, there := b.world.Cluster(c.ID); there {
		t.Error("it came back")
	}
}
