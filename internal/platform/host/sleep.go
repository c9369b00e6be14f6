package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
	"steward/internal/wait"
)

// suspendingGateway is one by which clusters can sleep: it knows who is connected, and keeps
// those waiting who come meanwhile.
type suspendingGateway interface {
	// Used are the ports that anybody is connected to, or has been since the last call.
	Used(ctx context.Context) (map[int]bool, error)
	// Rest has those who come from now on wait, if nobody is connected, and reports whether it did.
	Rest(ctx context.Context, port int) (bool, error)
	// Held is how many wait at a port.
	Held(port int) int
	// Fail tells them why they wait in vain.
	Fail(port int, why string)
}

const (
	// lookAtSessions is how often it is looked who is connected, unless Options say otherwise.
	lookAtSessions = 5 * time.Second
	// fallAsleepAtOnce is how many clusters are stopped at the same time.
	fallAsleepAtOnce = 4
	// wokenForCustomer is why a cluster woke that somebody connected to.
	wokenForCustomer = "somebody who connected"
	wokenForChange   = "a change"
	wokenForBackup   = "a backup"
	wokenForPassword = "its password"
	wokenForDisk     = "its disk"
)

// wakeFailed is what those are told who wait for a cluster that can't be woken.
const wakeFailed = "the database system could not be started"

// CanSleep reports whether clusters can sleep here.
func (d *Driver) CanSleep() bool { return d.suspendingGateway() != nil }

// suspendingGateway returns the gateway if clusters can sleep with it, or nil.
func (d *Driver) suspendingGateway() suspendingGateway {
	if d.o.Networks == nil {
		return nil
	}
	g, _ := d.o.Gateway.(suspendingGateway)
	return g
}

// SleepStats counts what became of clusters since the start.
type SleepStats struct {
	Sleeping           int
	Wakes, WakesInVain int
	WakeTime           time.Duration
}

// sleepStats are the counts of a driver.
type sleepStats struct {
	mu    sync.Mutex
	stats SleepStats
}

func (s *sleepStats) woke(after time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.stats.WakesInVain++
		return
	}
	s.stats.Wakes++
	s.stats.WakeTime += after
}

// SleepStats counts the clusters that sleep, and how often some were woken.
func (d *Driver) SleepStats() SleepStats {
	d.sleeps.mu.Lock()
	s := d.sleeps.stats
	d.sleeps.mu.Unlock()
	for _, cs := range d.all() {
		if cs.rest().asleep() {
			s.Sleeping++
		}
	}
	return s
}

// rest is what a cluster's topology says of its sleep, and who has used it.
type rest struct {
	after time.Duration
	// since is since when it sleeps; zero while it doesn't.
	since time.Time
	// port is that of the route; 0 until it is looked for.
	port int
	// users is how much goes on that needs its servers, used is when that, or a session, was last seen.
	users int
	used  time.Time
	// falling reports whether the servers are being stopped, rising whether they are being
	// started, and waking whether somebody sees to it that they are.
	falling, rising, waking bool
}

func (cs *clusterState) rest() rest {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.resting
}

func (cs *clusterState) changeRest(change func(r *rest)) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	change(&cs.resting)
}

// begin sets one of the flags of what is under way; false when it is set.
func (cs *clusterState) begin(flag func(r *rest) *bool) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	f := flag(&cs.resting)
	was := *f
	*f = true
	return !was
}

// archivedWithin is after how many minutes what a server wrote is archived, which takes its server: it
// ends its log a minute after the one before.
const archivedWithin = 2

// noteTopology remembers what is needed of a topology to put the cluster to sleep and wake it.
func (d *Driver) noteTopology(cs *clusterState, t state.Topology) {
	minutes := t.AutoSuspend
	if minutes > 0 && d.o.Continuous {
		minutes = max(minutes, archivedWithin)
	}
	cs.changeRest(func(r *rest) { r.after, r.since = time.Duration(minutes)*d.o.Minute, t.Asleep })
}

// asleep reports whether no server runs until somebody needs one.
func (r rest) asleep() bool { return !r.since.IsZero() }

// still reports whether it sleeps and nothing starts or stops its servers: what was found of it holds.
func (r rest) still() bool { return r.asleep() && r.users == 0 && !r.falling && !r.rising && !r.waking }

// idle reports whether nobody has used the cluster for as long as it is to wait for that.
func (r rest) idle(now time.Time) bool {
	return r.after > 0 && !r.asleep() && r.users == 0 && !r.used.IsZero() && now.Sub(r.used) >= r.after
}

// all are the clusters known so far.
func (d *Driver) all() []*clusterState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.clusters))
}

// noteTopologies learns what clusters do that were there before this process.
func (d *Driver) noteTopologies() {
	records, err := d.records()
	if err != nil {
		d.log.Warn("look for clusters that sleep", "error", err)
	}
	for _, rec := range records {
		if top, err := d.topology(rec.Cluster); err == nil && top.AutoSuspend > 0 {
			cs := d.clusterState(rec.Cluster)
			d.noteTopology(cs, top)
			d.expect(cs, rec.Port)
		}
	}
}

// expect has connections that wait at a port wake its cluster, also those that do already.
func (d *Driver) expect(cs *clusterState, port int) {
	cs.changeRest(func(r *rest) { r.port = port })
	d.mu.Lock()
	d.byPort[port] = cs
	d.mu.Unlock()
}

// expectNoMore is for clusters that were removed.
func (d *Driver) expectNoMore(cs *clusterState) {
	cs.changeRest(func(r *rest) { *r = rest{users: r.users, falling: r.falling, rising: r.rising, waking: r.waking} })
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.byPort, func(_ int, of *clusterState) bool { return of == cs })
}

// Waiting is told by the gateway that somebody waits for a server at a port. It doesn't block.
func (d *Driver) Waiting(port, _ int) {
	d.mu.Lock()
	cs := d.byPort[port]
	d.mu.Unlock()
	if cs == nil {
		return
	}
	if r := cs.rest(); !r.asleep() && !r.falling {
		return // its server comes back by itself
	}
	if cs.begin(func(r *rest) *bool { return &r.waking }) {
		d.spawn(func() { d.wakeForCustomer(cs) })
	}
}

// keepSleeping puts clusters to sleep that nobody uses, and finishes what a former process began.
func (d *Driver) keepSleeping(g suspendingGateway) {
	for _, cs := range d.all() {
		if r := cs.rest(); r.asleep() && g.Held(r.port) > 0 {
			d.Waiting(r.port, 0)
		}
	}
	slots := make(chan struct{}, fallAsleepAtOnce)
	for wait.Sleep(d.quit, d.o.LookAtSessions) == nil {
		d.lookAtSessions(g, slots)
	}
}

// lookAtSessions notes who is connected and puts to sleep what nobody uses.
func (d *Driver) lookAtSessions(g suspendingGateway, slots chan struct{}) {
	all := slices.DeleteFunc(d.all(), func(cs *clusterState) bool { return cs.rest().after == 0 })
	if len(all) == 0 {
		return
	}
	var used map[int]bool
	if slices.ContainsFunc(all, func(cs *clusterState) bool { return !cs.rest().asleep() }) {
		var err error
		if used, err = g.Used(d.quit); err != nil {
			d.log.Warn("nothing falls asleep", "error", err)
			return
		}
	}
	now := d.o.Now()
	for _, cs := range all {
		cs.changeRest(func(r *rest) {
			if r.users > 0 || r.used.IsZero() || used[r.port] {
				r.used = now
			}
		})
		r := cs.rest()
		if !r.idle(now) && !(r.asleep() && !r.waking && d.anyRunning(cs)) {
			continue
		}
		if !cs.begin(func(r *rest) *bool { return &r.falling }) {
			continue
		}
		d.spawn(func() {
			defer d.notifyChange(cs.id)
			defer cs.changeRest(func(r *rest) { r.falling = false })
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-d.quit.Done():
				return
			}
			if err := d.fallAsleep(g, cs); err != nil && d.quit.Err() == nil {
				d.log.Warn("a database that nobody uses doesn't fall asleep", "cluster_id", cs.id, "error", err)
				cs.changeRest(func(r *rest) { r.used = d.o.Now() }) // not at every look again
			}
		})
	}
}

func (d *Driver) anyRunning(cs *clusterState) bool {
	return slices.ContainsFunc(cs.ordinals(), func(ordinal int) bool { return cs.node(ordinal).running() })
}

// fallAsleep stops the servers of a cluster that nobody uses, or that a former process meant to.
func (d *Driver) fallAsleep(g suspendingGateway, cs *clusterState) error {
	limited, cancel := context.WithTimeout(d.quit, reconcileTimeout)
	defer cancel()
	ctx, unlock, ok := cs.tryAcquire(limited)
	if !ok {
		return nil // something is done to it
	}
	defer unlock()
	top, err := d.topology(cs.id)
	if err != nil || top.Suspended || top.Restoring || top.Growing || top.AutoSuspend == 0 || !top.Sleeps() && !cs.rest().idle(d.o.Now()) {
		return err
	}
	want, err := d.recordedCluster(ctx, cs.id, top)
	if err != nil {
		return err
	}
	cr, err := d.newClusterReconciler(cs, want)
	if err != nil {
		return err
	}
	if top.Sleeps() {
		return cr.stopAll(ctx)
	}
	if err := cr.maySleep(ctx); err != nil {
		return err
	}
	failpoint.Here("host: before falling asleep")
	if idle, err := g.Rest(ctx, want.Port); err != nil {
		return errors.Join(err, cr.setRoute(ctx))
	} else if !idle {
		cs.changeRest(func(r *rest) { r.used = d.o.Now() })
		return nil
	}
	failpoint.Here("host: nobody is led to servers that will stop")
	top = cr.top
	top.Asleep, top.Woken = d.o.Now().UTC().Truncate(time.Second), ""
	if err := d.saveTopology(cs.id, top); err != nil {
		return errors.Join(err, cr.setRoute(ctx))
	}
	cr.setTopology(top)
	if cs.rest().users > 0 { // who began meanwhile hasn't seen that it sleeps
		top.Asleep = time.Time{}
		cr.setTopology(top)
		return errors.Join(d.saveTopology(cs.id, top), cr.setRoute(ctx))
	}
	failpoint.Here("host: asleep on record")
	d.log.Info("the database falls asleep", "cluster_id", cs.id, "unused", cs.rest().after)
	return cr.stopAll(ctx)
}

// maySleep is nil when all nodes are as they should be, so that they can be started as they are.
func (cr *clusterReconciler) maySleep(ctx context.Context) error {
	for ordinal := range cr.top.Size {
		nr, err := cr.nodeReconciler(ctx, ordinal)
		if err != nil {
			return err
		}
		if nr.rec == nil || !nr.rec.Bootstrapped || nr.rec.Applied == nil || nr.rec.Upgrading || !nr.ns.running() || nr.ns.isRebuilding() {
			return fmt.Errorf("node %d isn't well", ordinal)
		}
		if problem := nr.ns.crashProblem(cr.d.o.Now()); problem != "" {
			return fmt.Errorf("node %d: %s", ordinal, problem) // asleep it couldn't be seen to be well again
		}
		if s, _ := nr.ns.replicationStatus(); ordinal != cr.top.Primary && !s.Streaming {
			return fmt.Errorf("node %d doesn't follow", ordinal)
		}
	}
	return cr.checkStoppable(ctx)
}

// asleepAsWanted reports whether a cluster that sleeps needs no server for what is wanted of it.
func (d *Driver) asleepAsWanted(want platform.Wanted, top state.Topology) bool {
	if want.AutoSuspend == 0 || !d.CanSleep() || switchoverDue(want, top) || top.Size != max(1, want.Size) || top.Size > 1 && top.Replication != want.Replication {
		return false
	}
	if left, err := d.pending(want); want.Patch && (err != nil || len(left) > 0) {
		return false
	}
	for ordinal := range top.Size {
		rec, err := state.ReadNode(d.layout.node(want.ID, ordinal))
		nr := &nodeReconciler{want: want, top: top}
		if err != nil || rec == nil || rec.Applied == nil || *rec.Applied != nr.settings() || rec.ReadOnly != want.ReadOnly {
			return false
		}
	}
	return true
}

// sleepOn does what can be done to a cluster while it sleeps: it changes whom the
// gateway lets wait.
func (cr *clusterReconciler) sleepOn(ctx context.Context) error {
	if err := cr.setRoute(ctx); err != nil {
		return err
	}
	return cr.stopAll(ctx)
}

// stopAll ends all servers.
func (cr *clusterReconciler) stopAll(ctx context.Context) error {
	// The primary first: its last words reach the replicas.
	for _, ordinal := range append([]int{cr.top.Primary}, cr.top.Replicas()...) {
		nr, err := cr.nodeReconciler(ctx, ordinal)
		if err != nil {
			return err
		}
		if nr.rec == nil || cr.top.Sleeps() && !nr.ns.running() {
			continue
		}
		failpoint.Here("host: before suspending a node")
		if err := nr.stop(ctx); err != nil {
			return err
		}
		if err := nr.killAll(ctx); err != nil {
			return err
		}
		failpoint.Here("host: after suspending a node")
	}
	return nil
}

// wakeForCustomer wakes a cluster that somebody waits for.
func (d *Driver) wakeForCustomer(cs *clusterState) {
	defer cs.changeRest(func(r *rest) { r.waking = false })
	limited, cancel := context.WithTimeout(d.quit, reconcileTimeout)
	defer cancel()
	ctx, unlock, err := cs.acquire(limited)
	if err != nil {
		d.log.Warn("wake", "cluster_id", cs.id, "error", err)
		return
	}
	defer unlock()
	if err := d.wake(ctx, cs, wokenForCustomer); err != nil && d.quit.Err() == nil {
		d.log.Warn("a database can't be woken", "cluster_id", cs.id, "error", err)
	}
}

// use wakes a cluster that sleeps, for what has a name, and keeps it awake until done is called.
func (d *Driver) use(ctx context.Context, cs *clusterState, why string) (done func(), err error) {
	cs.changeRest(func(r *rest) { r.users++ })
	done = sync.OnceFunc(func() {
		cs.changeRest(func(r *rest) {
			r.users--
			r.used = d.o.Now()
		})
	})
	if top, err := d.topology(cs.id); err != nil || !top.Sleeps() {
		return done, err
	}
	ctx, unlock, err := cs.acquire(ctx)
	if err == nil {
		err = d.wake(ctx, cs, why)
		unlock()
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// wake starts the servers of a cluster that sleeps, as they were. One that doesn't start
// sleeps no more: it is down, and treated as others that are. The caller holds the lock.
func (d *Driver) wake(ctx context.Context, cs *clusterState, why string) error {
	top, err := d.topology(cs.id)
	if err != nil || !top.Sleeps() || top.Suspended {
		return err
	}
	cs.changeRest(func(r *rest) { r.rising = true })
	defer cs.changeRest(func(r *rest) { r.rising = false })
	began := time.Now()
	failpoint.Here("host: before waking")
	want, err := d.recordedCluster(ctx, cs.id, top)
	if err == nil {
		top.Woken = why
		err = d.startAll(ctx, cs, want, top)
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return err // neither woken nor in vain
	}
	cs.changeRest(func(r *rest) { r.used = d.o.Now() })
	d.sleeps.woke(time.Since(began), err)
	defer d.notifyChange(cs.id)
	if err == nil {
		failpoint.Here("host: awake")
		d.log.Info("the database woke", "cluster_id", cs.id, "why", why, "ms", milliseconds(time.Since(began)))
		return nil
	}
	if now, errTop := d.topology(cs.id); errTop == nil && now.Sleeps() {
		now.Asleep, now.Woken = time.Time{}, why
		err = errors.Join(err, d.saveTopology(cs.id, now))
	}
	if g := d.suspendingGateway(); g != nil {
		g.Fail(cs.rest().port, wakeFailed)
	}
	if top.Size > 1 {
		d.startHealthMonitor(cs)
		cs.requestRecovery()
	}
	return fmt.Errorf("wake cluster %d for %s: %w", cs.id, why, err)
}

// startAll starts all servers of a cluster that sleeps at the same time. Whoever waits is
// led to the primary as soon as it answers.
func (d *Driver) startAll(ctx context.Context, cs *clusterState, want platform.Wanted, top state.Topology) error {
	cr, err := d.newClusterReconciler(cs, want)
	if err != nil {
		return err
	}
	cr.mayRestartPrimary = true
	cr.setTopology(top)
	var replicas sync.WaitGroup
	for _, ordinal := range top.Replicas() {
		replicas.Go(func() {
			if err := cr.reconcileNode(ctx, ordinal); err != nil {
				d.log.Warn("a replica doesn't wake with its primary", "cluster_id", cs.id, "node", ordinal, "error", err)
			}
		})
	}
	err = cr.reconcileNode(ctx, top.Primary)
	replicas.Wait()
	if err != nil {
		return err
	}
	top.Asleep = time.Time{}
	cr.setTopology(top)
	if top.Size == 1 {
		return nil
	}
	d.startHealthMonitor(cs)
	if err := errors.Join(cr.awaitReplicas(ctx), cr.setRoute(ctx)); err != nil {
		d.log.Warn("not all replicas woke with their primary", "cluster_id", cs.id, "error", err)
		cs.requestRecovery()
	}
	return nil
}

// wakeUp puts on record that the cluster sleeps no more.
func (nr *nodeReconciler) wakeUp(context.Context) error {
	failpoint.Here("host: before awake on record")
	top := nr.top
	top.Asleep = time.Time{}
	if err := nr.d.saveTopology(nr.want.ID, top); err != nil {
		return err
	}
	nr.top = top
	failpoint.Here("host: awake on record")
	return nil
}

// sleepingRoute is a route while its cluster sleeps: those who may connect wait.
func sleepingRoute(r gateway.Route) gateway.Route {
	r.Primary, r.Reads = gateway.Route{}.Primary, nil
	return r
}
