package operate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
)

// request is something that can be asked of a database, and how to see that
// it was done.
type request struct {
	name string
	// fresh reports whether the request makes the database it is about.
	fresh bool
	// message is what the event says when it is done.
	message string
	ask     func(b *bench, c cluster.Cluster) error
	done    func(b *bench, c cluster.Cluster)
}

var requests = []request{
	{name: "create", fresh: true, done: func(b *bench, c cluster.Cluster) { b.mustServe(c.ID) }},
	{
		name: "allow list",
		ask: func(b *bench, c cluster.Cluster) error {
			return b.update(c, control.UpdateCluster{AllowList: &[]string{"192.0.2.0/24", "::1"}})
		},
		done: func(b *bench, c cluster.Cluster) {
			b.mustServe(c.ID)
			if got := b.view(c.ID).AllowList; !got.Equal(cluster.AllowList{"192.0.2.0/24", "::1"}) {
				b.t.Errorf("allow_list %v", got)
			}
		},
	},
	{
		name: "resize",
		ask:  func(b *bench, c cluster.Cluster) error { return b.update(c, control.UpdateCluster{Type: &large.ID}) },
		done: func(b *bench, c cluster.Cluster) {
			b.mustServe(c.ID)
			if got := b.view(c.ID).Type; got != large.ID {
				b.t.Errorf("type %s", got)
			}
		},
	},
	{
		name:    "patch",
		message: "The servers moved from version 15.1 to 15.2.",
		ask: func(b *bench, c cluster.Cluster) error {
			// The nodes run what was the newest when they were made.
			b.world.Edit(c.ID, func(real *memplatform.Cluster) {
				real.Installation, real.Version = "postgresql-15.1-memory", "15.1"
			})
			return b.control.Clusters.Patch(b.t.Context(), b.admin, c.Engine, c.ID)
		},
		done: func(b *bench, c cluster.Cluster) {
			b.mustServe(c.ID)
			if got := b.view(c.ID).ServerVersion; got != "15.2" {
				b.t.Errorf("server version %s", got)
			}
		},
	},
	{
		name: "restart",
		ask: func(b *bench, c cluster.Cluster) error {
			return b.control.Clusters.Restart(b.t.Context(), b.admin, c.Engine, c.ID)
		},
		done: func(b *bench, c cluster.Cluster) {
			b.mustServe(c.ID)
			if real, _ := b.world.Cluster(c.ID); real.Starts != 2 || real.Restart != int64(b.last) {
				b.t.Errorf("started %d times, the last time for request %d", real.Starts, real.Restart)
			}
		},
	},
	{
		name: "switchover",
		ask: func(b *bench, c cluster.Cluster) error {
			if err := b.update(c, control.UpdateCluster{Size: new(3)}); err != nil {
				return err
			}
			b.runToEnd()
			return b.control.Clusters.Switchover(b.t.Context(), b.admin, c.Engine, c.ID)
		},
		done: func(b *bench, c cluster.Cluster) {
			b.mustServe(c.ID)
			if real, _ := b.world.Cluster(c.ID); real.Primary == 0 || real.Failovers != 1 || !real.LastChange.Planned {
				b.t.Errorf("the primary is node %d after %d changes", real.Primary, real.Failovers)
			}
		},
	},
	{
		name: "suspend",
		ask: func(b *bench, c cluster.Cluster) error {
			return b.control.Clusters.Suspend(b.t.Context(), b.admin, c.Engine, c.ID)
		},
		done: func(b *bench, c cluster.Cluster) { b.mustRest(c) },
	},
	{
		name: "resume",
		ask: func(b *bench, c cluster.Cluster) error {
			if err := b.control.Clusters.Suspend(b.t.Context(), b.admin, c.Engine, c.ID); err != nil {
				return err
			}
			b.runToEnd()
			b.mustRest(c)
			return b.control.Clusters.Resume(b.t.Context(), b.admin, c.Engine, c.ID)
		},
		done: func(b *bench, c cluster.Cluster) { b.mustServe(c.ID) },
	},
	{
		name: "reset",
		ask: func(b *bench, c cluster.Cluster) error {
			return b.control.Clusters.ResetCredentials(b.t.Context(), b.admin, c.Engine, c.ID)
		},
		done: func(b *bench, c cluster.Cluster) { b.mustServe(c.ID) },
	},
	{
		name: "delete",
		ask: func(b *bench, c cluster.Cluster) error {
			return b.control.Clusters.Delete(b.t.Context(), b.admin, c.Engine, c.ID, false)
		},
		done: func(b *bench, c cluster.Cluster) { b.mustBeGone(c) },
	},
	{
		name: "delete of what is suspended",
		ask: func(b *bench, c cluster.Cluster) error {
			if err := b.control.Clusters.Suspend(b.t.Context(), b.admin, c.Engine, c.ID); err != nil {
				return err
			}
			b.runToEnd()
			b.mustRest(c)
			return b.control.Clusters.Delete(b.t.Context(), b.admin, c.Engine, c.ID, false)
		},
		done: func(b *bench, c cluster.Cluster) { b.mustBeGone(c) },
	},
}

func (b *bench) update(c cluster.Cluster, in control.UpdateCluster) error {
	_, err := b.control.Clusters.Update(b.t.Context(), b.admin, c.Engine, c.ID, in, nil)
	return err
}

// begin makes the database, if the request needs one, and sends the request.
func (r request) begin(b *bench) cluster.Cluster {
	b.t.Helper()
	if r.fresh {
		return b.create()
	}
	c := b.active()
	if err := r.ask(b, c); err != nil {
		b.t.Fatalf("%s: %v", r.name, err)
	}
	return c
}

func TestOperations(t *testing.T) {
	t.Parallel()
	for _, r := range requests {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, operate.Limits{})
			c := r.begin(b)
			o := b.runToEnd()
			r.done(b, c)
			if o.Status != operation.Finished || o.Percent != 100 || o.Started == nil || o.Finished == nil || o.Attempt != 1 || o.Message != r.message {
				t.Errorf("event: %+v", o)
			}
			if _, err := b.operator.Run(t.Context(), b.last); err != nil {
				t.Errorf("a wake-up for what is done: %v", err)
			}
			r.done(b, c)
		})
	}
}

// failure is how a step fails: before or after it did its work, with an error or with the death of the process.
type failure struct{ after, death bool }

// failures are each before and after, and with both ends; otherFailures the rest of them.
var (
	failures      = []failure{{after: false, death: false}, {after: true, death: true}}
	otherFailures = []failure{{after: false, death: true}, {after: true, death: false}}
)

// TestEveryStepMayFail fails each step once; the next run, by a new process after a
// death, must finish the work.
func TestEveryStepMayFail(t *testing.T) {
	t.Parallel()
	everyStepMayFail(t, failures)
}

func TestEveryStepMayFailThorough(t *testing.T) {
	t.Parallel()
	everyStepMayFail(t, otherFailures)
}

func everyStepMayFail(t *testing.T, failures []failure) {
	t.Helper()
	for _, r := range requests {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, quick)
			for _, step := range b.stepsOf(r) {
				for _, f := range failures {
					name := fmt.Sprintf("%s after=%v death=%v", step, f.after, f.death)
					c := r.begin(b)
					met := b.strike(memplatform.Fault{Step: step, After: f.after, Times: 1}, f.death)
					o := b.runToEnd()
					if r.done(b, c); t.Failed() {
						t.Fatalf("%s: %+v", name, o)
					}
					if o.Status != operation.Finished || o.Message != r.message || !met {
						t.Errorf("%s: event %+v, come to: %v", name, o, met)
					}
				}
			}
		})
	}
}

// stepsOf are those that a request comes to.
func (b *bench) stepsOf(r request) []memplatform.Step {
	b.t.Helper()
	c := r.begin(b)
	before := len(b.driver.Done())
	b.runToEnd()
	r.done(b, c)
	done := b.driver.Done()[before:]
	if len(done) == 0 {
		b.t.Fatalf("%s comes to no step", r.name)
	}
	return slices.DeleteFunc(slices.Clone(memplatform.Steps), func(s memplatform.Step) bool { return !slices.Contains(done, s) })
}

// strike runs the last operation once with the fault placed. A death ends the
// run's context in the middle of the step and begins with a new process. It reports
// whether the run came to the step.
func (b *bench) strike(f memplatform.Fault, death bool) (met bool) {
	b.t.Helper()
	ctx, kill := context.WithCancel(b.t.Context())
	defer kill()
	if death {
		f.Do, f.Err = kill, context.Canceled
	}
	b.driver.Inject(f)
	before := len(b.driver.Done())
	_, err := b.operator.Run(ctx, b.last)
	if err != nil && !(death && errors.Is(err, context.Canceled)) {
		b.t.Fatalf("run with a fault at %q: %v", f.Step, err)
	}
	met = slices.Contains(b.driver.Done()[before:], f.Step)
	b.driver.Clear()
	if death {
		b.restart()
	}
	return met
}

// TestGivingUp lets each step fail for ever. What is given up must say so, tell
// the truth about the database, and leave nothing half-made.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	givingUp(t, memplatform.Fault{After: true}, memplatform.Fault{Problem: inner})
}

func TestGivingUpThorough(t *testing.T) {
	t.Parallel()
	givingUp(t, memplatform.Fault{})
}

func givingUp(t *testing.T, faults ...memplatform.Fault) {
	t.Helper()
	for _, r := range requests {
		if strings.HasPrefix(r.name, "delete") || r.name == "suspend" {
			continue // below
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, hopeless)
			for _, step := range b.stepsOf(r) {
				if step == memplatform.StepRemove {
					continue // below
				}
				for _, f := range faults {
					f.Step = step
					c := r.begin(b)
					before := len(b.driver.Done())
					b.driver.Inject(f)
					o := b.runToEnd()
					b.driver.Clear()
					b.mustTell(r, c, o)
					if !slices.Contains(b.driver.Done()[before:], step) {
						t.Errorf("fault %+v: it isn't come to", f)
					}
					if t.Failed() {
						t.Fatalf("fault %+v: event %+v", f, o)
					}
					b.remove(c)
				}
			}
		})
	}
}

// inner is what servers and hosts say of themselves, and customers don't read.
const inner = "injected: connect as steward to /var/lib/steward/1/socket: pid 4711 (postgres)"

// mustShowNothingInner demands that a text that customers read has none of that.
func (b *bench) mustShowNothingInner(text string) {
	b.t.Helper()
	for _, word := range []string{"injected", "/", "pid", "connect", "steward"} {
		if strings.Contains(text, word) {
			b.t.Errorf("customers are shown %q: %s", word, text)
		}
	}
}

// mustTell demands that an operation that was tried with a lasting fault is
// either done, or given up in order.
func (b *bench) mustTell(r request, c cluster.Cluster, o operation.Operation) {
	b.t.Helper()
	if o.Status == operation.Finished {
		r.done(b, c)
		return
	}
	if o.Status != operation.FailedStatus || o.Percent != 100 || o.Message == "" {
		b.t.Errorf("event: %+v", o)
	}
	b.mustShowNothingInner(o.Message)
	now := b.view(c.ID)
	real, there := b.world.Cluster(c.ID)
	switch {
	case r.fresh:
		if now.Status != cluster.Failed || there || now.Hosts.Primary != "" {
			b.t.Errorf("a create given up leaves it %s with hosts %v; in the world %v", now.Status, now.Hosts, there)
		}
	case real.Running && real.Routed:
		if now.Status != cluster.Degraded && now.Status != cluster.Failed {
			b.t.Errorf("given up while it serves, and it is %s", now.Status)
		}
	case now.Status != cluster.Failed:
		b.t.Errorf("given up while it doesn't serve, and it is %s", now.Status)
	}
	if now.Type != small.ID {
		b.t.Errorf("a resize given up leaves the type %s", now.Type)
	}
}

func (b *bench) remove(c cluster.Cluster) {
	b.t.Helper()
	if err := b.control.Clusters.Delete(b.t.Context(), b.admin, "", c.ID, false); err != nil {
		b.t.Fatalf("delete: %v", err)
	}
	b.runToEnd()
	b.mustBeGone(c)
}

// TestSmallerTypeOfGrownData: data that has grown since a smaller plan was asked for keeps the one that it has.
func TestSmallerTypeOfGrownData(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used int64
		want operation.Status
		plan string
	}{{1 << 30, operation.Finished, small.ID}, {24 << 30, operation.FailedStatus, large.ID}} {
		b := newBench(t, quick)
		db := b.active()
		if err := b.update(db, control.UpdateCluster{Type: &large.ID}); err != nil {
			t.Fatal(err)
		}
		b.runToEnd()
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET used_bytes = 1"); err != nil {
			t.Fatal(err)
		}
		if err := b.update(b.view(db.ID), control.UpdateCluster{Type: &small.ID}); err != nil {
			t.Fatal(err)
		}
		b.world.Edit(db.ID, func(m *memplatform.Cluster) { m.UsedBytes = c.used })
		if o := b.runToEnd(); o.Status != c.want || c.want == operation.FailedStatus && !strings.Contains(o.Message, "may take 20480 MB") {
			t.Errorf("%d bytes: %+v", c.used, o)
		}
		if now := b.view(db.ID); now.Type != c.plan {
			t.Errorf("%d bytes: type %s", c.used, now.Type)
		}
	}
}

// TestResizeCarriesTheUpdateBesideItAlong: both events end alike, also when the
// process dies in the middle.
func TestResizeCarriesTheUpdateBesideItAlong(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name   string
		limits operate.Limits
		fault  *memplatform.Fault
		death  bool
		want   operation.Status
	}{
		{"done", quick, nil, false, operation.Finished},
		{"done after a death", quick, &memplatform.Fault{Step: memplatform.StepRoute, Times: 1}, true, operation.Finished},
		{"given up", hopeless, &memplatform.Fault{Step: memplatform.StepRoute}, false, operation.FailedStatus},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, f.limits)
			c := b.active()
			if err := b.update(c, control.UpdateCluster{Type: &large.ID, AllowList: &[]string{"192.0.2.0/24"}, Config: map[string]any{"work_mem": 16.0}}); err != nil {
				t.Fatal(err)
			}
			companion := b.event(b.last).Params.Companion
			switch {
			case f.death:
				b.strike(*f.fault, true)
				if got := b.event(companion); got.Status != operation.Started {
					t.Errorf("in the middle of it: %+v", got)
				}
			case f.fault != nil:
				b.driver.Inject(*f.fault)
			}
			if o := b.runToEnd(); o.Action != operation.Resize || o.Status != f.want {
				t.Errorf("resize: %+v", o)
			}
			if o := b.event(companion); o.Action != operation.Update || o.Status != f.want || o.Percent != 100 || o.Finished == nil {
				t.Errorf("update: %+v", o)
			}
			if got, want := b.view(c.ID).Config["work_mem"], f.want == operation.Finished; (got == int64(16)) != want {
				t.Errorf("work_mem is %v", got)
			}
			if f.want == operation.Finished {
				b.mustServe(c.ID)
				if now := b.view(c.ID); now.Type != large.ID || !now.AllowList.Equal(cluster.AllowList{"192.0.2.0/24"}) {
					t.Errorf("%+v", now)
				}
			}
		})
	}
}

// TestNodesComeOrStayAway: a change of the number of nodes ends with as many, or as
// it was.
func TestNodesComeOrStayAway(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name   string
		limits operate.Limits
		fault  *memplatform.Fault
		size   int
		want   operation.Status
	}{
		{"done", quick, nil, 3, operation.Finished},
		{"a copy takes its time", hopeless, &memplatform.Fault{Step: memplatform.StepRoute, Times: 20, Err: fmt.Errorf("node 1: %w", platform.ErrCopying)}, 3, operation.Finished},
		{"given up", hopeless, &memplatform.Fault{Step: memplatform.StepRoute}, 1, operation.FailedStatus},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, f.limits)
			c := b.active()
			if f.fault != nil {
				b.driver.Inject(*f.fault)
			}
			if err := b.update(c, control.UpdateCluster{Size: new(3)}); err != nil {
				t.Fatal(err)
			}
			o := b.runToEnd()
			if o.Action != operation.Resize || o.Status != f.want {
				t.Errorf("resize: %+v", o)
			}
			now := b.view(c.ID)
			if now.Size != f.size || (now.Nodes() == c.Nodes()) != (f.size == 1) {
				t.Errorf("%+v, before %+v", now.Nodes(), c.Nodes())
			}
			if world, _ := b.world.Cluster(c.ID); f.want == operation.Finished && world.Size != f.size {
				t.Errorf("the platform has %d nodes", world.Size)
			}
		})
	}
}

func TestServingDatabaseIsDegradedWhenAChangeIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, hopeless)
	c := b.active()
	if err := b.update(c, control.UpdateCluster{AllowList: &[]string{"10.0.0.0/8"}}); err != nil {
		t.Fatal(err)
	}
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepRoute})
	if o := b.runToEnd(); o.Status != operation.FailedStatus {
		t.Errorf("event: %+v", o)
	}
	if got := b.view(c.ID); got.Status != cluster.Degraded {
		t.Errorf("it serves and is %s", got.Status)
	}
}

func TestDeleteIsNeverGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, hopeless)
	c := b.active()
	if err := b.control.Clusters.Delete(t.Context(), b.admin, c.Engine, c.ID, false); err != nil {
		t.Fatal(err)
	}
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepRemove, Times: 12})
	for range 12 {
		again, err := b.operator.Run(t.Context(), b.last)
		if err != nil || again <= 0 || again > 30*time.Second {
			t.Fatalf("again in %v, %v", again, err)
		}
		if o := b.event(b.last); o.Status != operation.Started {
			t.Fatalf("event: %+v", o)
		}
	}
	b.runToEnd()
	b.mustBeGone(c)
}

func TestLastingProblemIsGivenUpAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.create()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepStart, Problem: inner})
	o := b.runToEnd()
	if o.Attempt != 1 || o.Status != operation.FailedStatus || o.Message != "It can't be done as things are; the operator's log tells why." {
		t.Errorf("event: %+v", o)
	}
	if _, there := b.world.Cluster(c.ID); there {
		t.Error("half of it was left")
	}
}

// TestHalfMadeIsRemovedBeforeAnythingIsSaid makes the removal after a create that
// is given up fail: the operation goes on until nothing is left.
func TestHalfMadeIsRemovedBeforeAnythingIsSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t, hopeless)
	c := b.create()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepBootstrap, Problem: "No."})
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepRemove, Times: 2})
	for range 2 {
		if again, err := b.operator.Run(t.Context(), b.last); err != nil || again == 0 {
			t.Fatalf("again in %v, %v", again, err)
		}
		if got := b.view(c.ID); got.Status != cluster.Provisioning {
			t.Fatalf("it is %s already", got.Status)
		}
	}
	b.runToEnd()
	if _, there := b.world.Cluster(c.ID); there || b.view(c.ID).Status != cluster.Failed {
		t.Errorf("there: %v, status %s", there, b.view(c.ID).Status)
	}
}

// TestLostFilesAreNotReplaced: a data folder that isn't there (a disk that isn't
// mounted) must not be answered with a new, empty database.
func TestLostFilesAreNotReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	if err := b.driver.Remove(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := b.update(c, control.UpdateCluster{AllowList: &[]string{}}); err != nil {
		t.Fatal(err)
	}
	o := b.runToEnd()
	if _, there := b.world.Cluster(c.ID); there {
		t.Error("an empty database was made in place of the lost one")
	}
	if o.Status != operation.FailedStatus || o.Message != platform.LostReason || b.view(c.ID).Status != cluster.Failed {
		t.Errorf("event %+v, status %s", o, b.view(c.ID).Status)
	}
}

func TestPlanThatLeftTheCatalog(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	if err := b.control.Clusters.Patch(t.Context(), b.admin, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	b.operator.Catalog.Plans = b.operator.Catalog.Plans[1:]
	o := b.runToEnd()
	if o.Status != operation.FailedStatus || !strings.Contains(o.Message, small.ID) || b.view(c.ID).Status != cluster.Degraded {
		t.Errorf("event %+v, status %s", o, b.view(c.ID).Status)
	}
	if _, there := b.world.Cluster(c.ID); !there {
		t.Error("its data is gone")
	}
}

// TestManyWakeUps: wake-ups may come several times and at the same time; the
// work is done once, and nobody is let to interfere.
func TestManyWakeUps(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.create()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepStart, Delay: 50 * time.Millisecond, Times: 1})
	var runs sync.WaitGroup
	for range 4 {
		runs.Go(func() {
			if _, err := b.operator.Run(t.Context(), b.last); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	runs.Wait()
	b.mustServe(c.ID)
	if o := b.event(b.last); o.Attempt != 1 {
		t.Errorf("it was carried out %d times", o.Attempt)
	}
	if real, _ := b.world.Cluster(c.ID); real.Starts != 1 {
		t.Errorf("the server was started %d times", real.Starts)
	}
}

func TestLeaseOfAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.create()
	_, release, ok, err := b.store.Lease(t.Context(), c.ID)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	released := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { release(); close(released) })
	if _, err := b.operator.Run(t.Context(), b.last); err != nil {
		t.Fatal(err)
	}
	<-released
	b.mustServe(c.ID)
}

func TestUnknownOperation(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	if again, err := b.operator.Run(t.Context(), 12345); err != nil || again != 0 {
		t.Errorf("a wake-up for what isn't there: %v, %v", again, err)
	}
}

// TestOverhead bounds what carrying out a create adds to the platform's own
// work: it is in every customer's way. It asks the store and waits for nothing else: it takes some six times as
// long as to ask as often whether the store is there.
func TestOverhead(t *testing.T) {
	asked := &queries{}
	b := newBenchOn(t, pgtest.Store(t, pgtest.WithTracer(asked)), operate.Limits{})
	create, ask := time.Hour, time.Hour
	for round := 0; round < 10 || create > 20*ask && round < 200; round++ { // a busy machine lets few through without a pause
		b.create()
		before, began := asked.n.Load(), time.Now()
		if _, err := b.operator.Run(t.Context(), b.last); err != nil {
			t.Fatal(err)
		}
		create = min(create, time.Since(began))
		n := asked.n.Load() - before
		if n > 25 {
			t.Errorf("a create that costs the platform nothing asks the store %d times", n)
		}
		began = time.Now()
		for range n {
			if err := b.store.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ask = min(ask, time.Since(began))
	}
	t.Logf("at best a create took %v, to ask the store as often %v", create, ask)
	if create > 20*ask {
		t.Errorf("a create that costs the platform nothing took %v, to ask the store as often %v", create, ask)
	}
}

// queries counts those of a store.
type queries struct{ n atomic.Int64 }

func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.n.Add(1)
	return ctx
}

func (*queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
