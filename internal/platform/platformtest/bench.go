package platformtest

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/platform"
)

// Bench is a platform to be tested, with one engine.
type Bench struct {
	Engine cluster.Engine
	Series string
	// Encrypted makes the suite's clusters encrypted at rest.
	Encrypted bool
	// Older and Newer are installations of the series between which a patch can
	// be tried; "" when there aren't two.
	Older, Newer string
	// Short leaves out what goes the same with every engine, or is tried by the engines' suite.
	Short bool
	// Tries reports whether a case is tried that isn't left out so; nil for all.
	Tries func(name string) bool
	// Sizes are the numbers of nodes a cluster can have besides one.
	Sizes []int
	// Remote reports that servers run on machines that aren't ours: they have no process ids here, no programs of which
	// we know the size, and addresses of their own, so that ports don't clash.
	Remote bool
	// Booted lets servers come back that a Reboot ended, where somebody else than the driver starts them; nil where
	// nobody does.
	Booted func(t *testing.T)
	// Restarts reports whether servers can be restarted, and the primary's role be handed over, on request.
	Restarts bool
	// Suspends reports whether clusters can be suspended.
	Suspends bool
	// Keeps is of a platform that keeps backups itself; nil where steward's archive does.
	Keeps *Keeping
	// Secrets are those that the drivers got.
	Secrets *Secrets
	// Port is the first of ten that the suite may use.
	Port int
	// Open makes a driver over whatever is there, as a new steward does. The
	// returned function closes it as a dying steward would: nothing is stopped.
	Open func(t *testing.T) (driver platform.Driver, closeIt func())
	// Login is nil when dbadmin gets in through the gateway, with a verified
	// certificate where the platform has any, and may write.
	Login func(ctx context.Context, c cluster.Cluster, from netip.Addr, password string) error
	// Kill ends the cluster's server without warning.
	Kill func(t *testing.T, d platform.Driver, id cluster.ID)
	// Reboot ends all servers and forgets what a reboot of the machine forgets.
	// Drivers are closed meanwhile.
	Reboot func(t *testing.T)
	// Orphan leaves something of a cluster behind that nobody asked for.
	Orphan func(t *testing.T, id cluster.ID, port int)
	// Leftovers names what is still there of a cluster.
	Leftovers func(t *testing.T, id cluster.ID, port int) []string
}

// patience is long because machines that run tests are busy.
const patience = 90 * time.Second

// Small and Large are the plans of the suite's clusters.
var (
	Small = catalog.Plan{ID: "small", Label: "Small", MemoryMB: 1024, DiskMB: 25600, VCPUs: 1}
	Large = catalog.Plan{ID: "large", Label: "Large", MemoryMB: 2048, DiskMB: 51200, VCPUs: 2}
)

// run is one test's use of a bench.
type run struct {
	*Bench
	t       *testing.T
	driver  platform.Driver
	closeIt func()
	ctx     context.Context
	// meters are of nodes that were measured before.
	meters map[meterOf]*measure.Meter
}

// tries reports whether a case is not left to other tests.
func (b *Bench) tries(name string) bool { return b.Tries == nil || b.Tries(name) }

func (b *Bench) open(t *testing.T) *run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	r := &run{Bench: b, t: t, ctx: ctx, meters: map[meterOf]*measure.Meter{}}
	r.driver, r.closeIt = b.Open(t)
	t.Cleanup(func() { r.closeIt() })
	return r
}

// restart replaces the driver as a restart of steward does.
func (r *run) restart() {
	r.t.Helper()
	r.closeIt()
	r.driver, r.closeIt = r.Bench.Open(r.t)
}

// Wanted is a cluster of one node of the bench's engine, with secrets.
func (b *Bench) Wanted(t *testing.T, id cluster.ID) platform.Wanted {
	t.Helper()
	b.Secrets.Make(t, id)
	return platform.Wanted{
		Cluster: cluster.Cluster{
			ID: id, Port: b.Port + int(id%10),
			Spec: cluster.Spec{
				Label: "suite", Engine: b.Engine, Series: b.Series, Region: "local", Type: Small.ID, Size: 1,
				Encrypted: b.Encrypted, SSLConnection: true, AllowList: cluster.AllowList{"127.0.0.1"},
			}.WithDefaults(),
		},
		Plan: Small,
	}
}

// wanted is such a cluster, removed at the end of the test.
func (r *run) wanted(id cluster.ID) platform.Wanted {
	r.t.Helper()
	want := r.Wanted(r.t, id)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.driver.Remove(ctx, want.Cluster); err != nil {
			r.t.Errorf("remove at the end of the test: %v", err)
		}
	})
	return want
}

// apply applies until all is settled, and returns what a store would keep.
func (r *run) apply(want *platform.Wanted) platform.Observed {
	r.t.Helper()
	seen, err := r.tryApply(want)
	if err != nil {
		r.t.Fatalf("apply: %v", err)
	}
	return seen
}

func (r *run) tryApply(want *platform.Wanted) (seen platform.Observed, err error) {
	r.t.Helper()
	await.NoError(r.t, "settled", func() error {
		if seen, err = r.driver.Apply(r.ctx, *want); err == nil && !seen.Permanent && !seen.Settled {
			return fmt.Errorf("%+v", seen)
		}
		return nil
	})
	if err == nil && !seen.Permanent {
		want.Installation, want.Hosts, want.Members = seen.Installation, seen.Hosts, seen.Members
	}
	return seen, err
}

func (r *run) observe(id cluster.ID) platform.Observed {
	r.t.Helper()
	seen, err := r.driver.Observe(r.ctx, id)
	if err != nil {
		r.t.Fatalf("observe: %v", err)
	}
	return seen
}

// local is the address that the suite's customer comes from.
var local = netip.MustParseAddr("127.0.0.1")

func (r *run) login(want platform.Wanted) error {
	return r.Login(r.ctx, want.Cluster, local, r.Secrets.Text(want.ID, platform.RootPassword))
}

func (r *run) mustLogin(want platform.Wanted) {
	r.t.Helper()
	if err := r.login(want); err != nil {
		r.t.Errorf("customer can't log in: %v", err)
	}
}

// pid tells the primary's process from another; "" when there is none.
func pid(seen platform.Observed) string {
	if len(seen.Nodes) == 0 {
		return ""
	}
	return process(seen.Nodes[0])
}

func process(n platform.Node) string {
	switch {
	case !n.Running:
		return ""
	case n.Pid != 0:
		return strconv.Itoa(n.Pid)
	}
	return fmt.Sprintf("%v, %d restarts", n.Started.UTC(), n.Restarts)
}
