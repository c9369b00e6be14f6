package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/parameter"
	"steward/internal/platform"
	"steward/internal/platform/host/plan"
	"steward/internal/platform/host/state"
	"steward/internal/wait"
)

// clusterReconciler reconciles one cluster: it observes, decides and acts. Whoever
// runs it holds the cluster's lock.
type clusterReconciler struct {
	d   *Driver
	cs  *clusterState
	eng engine.Driver
	// want is what to reconcile towards now, requested what the caller asked for: they
	// differ while something else has to be done first.
	want, requested platform.Wanted
	top             state.Topology
	keys            keychain
	// mayRestartPrimary reports whether the primary's server may be restarted on its own
	// data: a failover was considered.
	mayRestartPrimary bool
	// changeBegan is when the primary was found to be down, or began to hand over, which is planned.
	changeBegan time.Time
	planned     bool

	mu    sync.Mutex
	nodes map[int]*nodeReconciler
}

// newClusterReconciler reads the topology and saves the one that is wanted before
// anything else is touched.
func (d *Driver) newClusterReconciler(cs *clusterState, want platform.Wanted) (*clusterReconciler, error) {
	eng, err := d.engine(want.Engine)
	if err != nil {
		return nil, err
	}
	top, err := d.topology(want.ID)
	if err != nil {
		return nil, &permanentError{err.Error()}
	}
	if top.Restoring {
		return nil, &permanentError{"a restore wasn't finished: restore a backup again, or bring the old data back with `steward restore --undo`"}
	}
	cr := &clusterReconciler{d: d, cs: cs, eng: eng, want: want, requested: want, keys: d.keychain(cs), nodes: map[int]*nodeReconciler{}}
	if cr.top, err = cr.targetTopology(top); err != nil {
		return nil, err
	}
	if cr.top != top {
		if err := d.saveTopology(want.ID, cr.top); err != nil {
			return nil, err
		}
	}
	if cr.top.AutoSuspend > 0 {
		d.expect(cs, want.Port)
	}
	return cr, cr.recordPools()
}

// run brings the cluster towards what is wanted, as far as is possible now, and then its pools.
func (cr *clusterReconciler) run(ctx context.Context) error {
	err := cr.runNodes(ctx)
	if cr.want.Suspended || cr.top.Sleeps() {
		return err
	}
	if err != nil {
		cr.d.resumePools(context.WithoutCancel(ctx), cr.cs)
		return err
	}
	return cr.pool(ctx)
}

func (cr *clusterReconciler) runNodes(ctx context.Context) error {
	if cr.want.Suspended {
		return cr.suspend(ctx)
	}
	if cr.top.Sleeps() {
		return cr.sleepOn(ctx)
	}
	if err := cr.d.narrow(ctx, cr.want); err != nil {
		return err
	}
	if cr.top.Size == 1 {
		return errors.Join(cr.reconcileNode(ctx, 0), cr.removeOthers(ctx))
	}
	born, err := cr.d.bootstrapped(cr.want.ID, cr.top)
	if err != nil {
		return err
	}
	if !born {
		return cr.createAll(ctx)
	}
	if err := cr.ensurePrimary(ctx); err != nil {
		return err
	}
	switch {
	case cr.shrinking():
		return cr.shrink(ctx)
	case cr.top.Growing:
		return cr.grow(ctx)
	}
	if err := errors.Join(cr.rollingUpdate(ctx), cr.setRoute(ctx)); err != nil {
		return err
	}
	cr.finishChange()
	return nil
}

// bootstrapped reports whether any node may hold a customer's data. If so, an empty
// database must never replace it.
func (d *Driver) bootstrapped(id cluster.ID, top state.Topology) (bool, error) {
	for ordinal := range top.Size {
		rec, err := state.ReadNode(d.layout.node(id, ordinal))
		if err != nil {
			return false, &permanentError{err.Error()}
		}
		if rec != nil && rec.Bootstrapped {
			return true, nil
		}
	}
	return false, nil
}

// nodeReconciler returns the reconciler of a node, the same until the topology changes.
func (cr *clusterReconciler) nodeReconciler(ctx context.Context, ordinal int) (*nodeReconciler, error) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	if nr := cr.nodes[ordinal]; nr != nil {
		return nr, nil
	}
	nr, err := cr.d.newNodeReconciler(ctx, cr.keys, cr.want, cr.top, ordinal)
	if err == nil {
		cr.nodes[ordinal] = nr
	}
	return nr, err
}

// setTopology replaces the topology, and with it all reconcilers of nodes.
func (cr *clusterReconciler) setTopology(top state.Topology) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	cr.top = top
	clear(cr.nodes)
}

// reconcileNode observes one node, plans and carries out the plan.
func (cr *clusterReconciler) reconcileNode(ctx context.Context, ordinal int) error {
	nr, err := cr.nodeReconciler(ctx, ordinal)
	if err != nil {
		return err
	}
	s, err := nr.status(ctx)
	if err != nil {
		return err
	}
	if s.Replicated && !s.Replica && s.Bootstrapped && !s.Running && !cr.mayRestartPrimary {
		return fmt.Errorf("node %d: the primary has ended meanwhile", ordinal)
	}
	steps := plan.Steps(s)
	if slices.Contains(steps, plan.Start) && !s.Replicated { // of several nodes others may take over
		if err := nr.ns.mayStart(nr.d.o.Now(), nr.purpose(), func() string { return lastWords(nr.dir, nr.eng) }); err != nil {
			return err
		}
	}
	for _, step := range steps {
		if err := nr.runStep(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// purpose is what a server would be started for: another one may have it run that ended before.
func (nr *nodeReconciler) purpose() string {
	var data unix.Stat_t
	_ = unix.Stat(nr.node.Data, &data) // a clone isn't there yet
	return fmt.Sprint(data.Ino, nr.inst.ID(), nr.digest, nr.settings(), nr.want.Restart)
}

// runStep carries out a step and logs it.
func (nr *nodeReconciler) runStep(ctx context.Context, s plan.Step) error {
	failpoint.Here("host: before " + string(s))
	began := time.Now()
	if err := nr.execute(ctx, s); err != nil {
		if nr.top.Size > 1 {
			return fmt.Errorf("node %d: %s: %w", nr.ns.ordinal, s, err)
		}
		return fmt.Errorf("%s: %w", s, err)
	}
	nr.d.log.Debug("step done", "cluster_id", nr.want.ID, "node", nr.ns.ordinal, "step", string(s), "ms", milliseconds(time.Since(began)))
	failpoint.Here("host: after " + string(s))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// createAll makes all nodes of a new cluster at the same time. They are clones
// of one template: no data has to travel. Only the identity of the primary's
// clone must be there before the others take it over.
func (cr *clusterReconciler) createAll(ctx context.Context) error {
	cloned := make(chan struct{})
	var work sync.WaitGroup
	errs := make([]error, cr.top.Size)
	work.Go(func() {
		done := sync.OnceFunc(func() { close(cloned) })
		defer done()
		errs[cr.top.Primary] = cr.createPrimary(ctx, done)
	})
	for _, ordinal := range cr.top.Replicas() {
		work.Go(func() {
			<-cloned
			if exists(cr.d.engineNode(cr.want, engine.Installation{}, cr.top, cr.top.Primary).Data) {
				errs[ordinal] = cr.reconcileNode(ctx, ordinal)
			}
		})
	}
	work.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := cr.awaitReplicas(ctx); err != nil {
		return err
	}
	return cr.setRoute(ctx)
}

func (cr *clusterReconciler) createPrimary(ctx context.Context, cloned func()) error {
	nr, err := cr.nodeReconciler(ctx, cr.top.Primary)
	if err != nil {
		return err
	}
	s, err := nr.status(ctx)
	if err != nil {
		return err
	}
	for _, step := range plan.Steps(s) {
		if step != plan.Discard && step != plan.Clone {
			cloned()
		}
		if err := nr.runStep(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// awaitReplicas waits for a moment until all replicas stream.
func (cr *clusterReconciler) awaitReplicas(ctx context.Context) error {
	const patience = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, ordinal := range cr.top.Replicas() {
		if err := cr.awaitStreaming(ctx, ordinal); err != nil {
			return err
		}
	}
	return nil
}

// awaitStreaming waits until a replica follows the primary, has applied most of what
// there is, and has all that it ever acknowledged.
func (cr *clusterReconciler) awaitStreaming(ctx context.Context, ordinal int) error {
	nr, err := cr.nodeReconciler(ctx, ordinal)
	if err != nil {
		return err
	}
	primary, err := cr.nodeReconciler(ctx, cr.top.Primary)
	if err != nil {
		return err
	}
	for pause := 2 * time.Millisecond; ; pause = min(pause*5/4, 100*time.Millisecond) {
		s, err := nr.replicationStatus(ctx)
		if err == nil && s.Streaming && s.Lag < 2*time.Second {
			if nr.isComplete() {
				return nil
			}
			_, _ = primary.replicationStatus(ctx) // it is recorded, for the replica to be compared with
		}
		switch {
		case !cr.cs.node(cr.top.Primary).running():
			return fmt.Errorf("node %d can't follow the primary, which has ended", ordinal)
		case !nr.ns.running(): // what reconciles it next starts it again, or has it rebuilt
			return fmt.Errorf("node %d doesn't follow the primary: its server has ended", ordinal)
		}
		if wait.Sleep(ctx, pause) != nil {
			return fmt.Errorf("node %d doesn't follow the primary yet: %s", ordinal, s.Problem)
		}
	}
}

// rollingUpdate reconciles the replicas first, one by one, then the primary. A primary
// that needs a restart switches over first, unless a setting is lowered that must not be
// lower on replicas than on their primary.
func (cr *clusterReconciler) rollingUpdate(ctx context.Context) error {
	if lower, err := cr.lowersSettings(ctx); err != nil {
		return err
	} else if lower {
		if err := cr.reconcileNode(ctx, cr.top.Primary); err != nil {
			return err
		}
	}
	copying, failed := cr.reconcileReplicas(ctx)
	restart, err := cr.restartDue(ctx)
	why := "a planned restart"
	if !restart && switchoverDue(cr.want, cr.top) {
		restart, why = true, "a requested switchover"
	}
	switch {
	case err != nil:
		return errors.Join(failed, err)
	case restart && copying:
		// The copy comes from the primary, which is restarted later: after a switchover,
		// or in place if the copy failed.
		return errors.Join(failed, errors.New("the primary isn't restarted while its data is copied"))
	case restart && failed == nil:
		if err := cr.switchOver(ctx, why); err != nil {
			return fmt.Errorf("switch over: %w", err)
		}
		_, failed = cr.reconcileReplicas(ctx)
	}
	return errors.Join(failed, cr.reconcileNode(ctx, cr.top.Primary))
}

// reconcileReplicas reconciles the replicas one by one, those first that the others would
// wait for. copying reports whether one is being given a copy of the data.
func (cr *clusterReconciler) reconcileReplicas(ctx context.Context) (copying bool, err error) {
	var well, unwell []int
	for _, ordinal := range cr.top.Replicas() {
		if cr.cs.node(ordinal).readable() {
			well = append(well, ordinal)
		} else {
			unwell = append(unwell, ordinal)
		}
	}
	var errs []error
	for _, ordinal := range slices.Concat(unwell, well) {
		errs = append(errs, cr.reconcileReplica(ctx, ordinal))
		copying = copying || cr.cs.node(ordinal).isRebuilding()
	}
	return copying, errors.Join(errs...)
}

// switchoverDue reports whether the primary is the node that was asked to hand its role over.
func switchoverDue(want platform.Wanted, top state.Topology) bool {
	return want.Switchover != nil && top.Size > 1 && top.Primary == *want.Switchover
}

// switchOver makes the replica that follows best the primary instead of this one.
func (cr *clusterReconciler) switchOver(ctx context.Context, why string) error {
	candidate, err := cr.switchoverCandidate(ctx)
	if err != nil {
		return err
	}
	return cr.switchover(ctx, candidate, why)
}

// lowersSettings reports whether the primary runs with a higher value than is wanted of a
// setting that must not be lower on its replicas.
func (cr *clusterReconciler) lowersSettings(ctx context.Context) (bool, error) {
	nr, err := cr.nodeReconciler(ctx, cr.top.Primary)
	return err == nil && lowers(nr.rec, cr.want), err
}

// lowers reports whether a node runs with more of something than is wanted of which a replica must not have less than its
// primary: by its settings, or by its plan.
func lowers(rec *state.Node, want platform.Wanted) bool {
	switch {
	case rec == nil || rec.Launch == nil:
		return false
	case rec.Launch.Config.Lowers(want.Config, string(want.Engine)):
		return true
	case want.Engine != cluster.PostgreSQL || rec.Applied == nil:
		return false
	}
	return parameter.LowersPostgreSQL(want.Plan.MemoryMB, want.Plan.VCPUs, rec.Applied.Plan.MemoryMB, rec.Applied.Plan.VCPUs)
}

// restartDue reports whether the primary has to be restarted.
func (cr *clusterReconciler) restartDue(ctx context.Context) (bool, error) {
	nr, err := cr.nodeReconciler(ctx, cr.top.Primary)
	if err != nil {
		return false, err
	}
	s, err := nr.status(ctx)
	return s.Running && (s.OtherBuild || s.Restart), err
}

// reconcileReplica reconciles a replica, or begins to rebuild it in the background.
func (cr *clusterReconciler) reconcileReplica(ctx context.Context, ordinal int) error {
	ns := cr.cs.node(ordinal)
	nr, err := cr.nodeReconciler(ctx, ordinal)
	if err != nil {
		return err
	}
	if reason := cr.rebuildReason(nr); reason != "" {
		return cr.rebuild(ctx, ns, reason)
	}
	s, err := nr.status(ctx)
	if err != nil {
		return err
	}
	steps := plan.Steps(s)
	if slices.Contains(steps, plan.Stop) {
		if err := cr.mayStop(ctx, nr, s); err != nil {
			return err
		}
	}
	if err := nr.runSteps(ctx, steps...); err != nil {
		return err
	}
	if len(steps) == 0 || plan.OnlyKeyring(steps) {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return cr.awaitStreaming(short, ordinal)
}

// mayStop waits until a running replica may be restarted. One that is to have less of
// what it must not have less of than its primary has to apply the primary's own restart
// first: it wouldn't start otherwise.
func (cr *clusterReconciler) mayStop(ctx context.Context, nr *nodeReconciler, s plan.Status) error {
	if s.Streaming {
		if err := cr.awaitOthers(ctx, nr.ns.ordinal); err != nil {
			return err
		}
	}
	if !lowers(nr.rec, cr.want) {
		return nil
	}
	primary, err := cr.nodeReconciler(ctx, cr.top.Primary)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return applied(short, primary, nr)
}

// awaitOthers waits for a moment until all other replicas stream: a node that is
// well isn't stopped while another isn't.
func (cr *clusterReconciler) awaitOthers(ctx context.Context, ordinal int) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for _, other := range cr.top.Replicas() {
		if other == ordinal {
			continue
		}
		if cr.cs.node(other).isRebuilding() { // its copy is put in its place once this reconciler lets go of the cluster
			return fmt.Errorf("node %d isn't restarted before all others are well: node %d: %w", ordinal, other, platform.ErrCopying)
		}
		if err := cr.awaitStreaming(ctx, other); err != nil {
			return fmt.Errorf("node %d isn't restarted before all others are well: %w", ordinal, err)
		}
	}
	return nil
}

// rebuildReason returns why a replica needs a new copy of the data; "" when it doesn't.
func (cr *clusterReconciler) rebuildReason(nr *nodeReconciler) string {
	switch {
	case nr.ns.isRebuilding():
		return "it is being rebuilt"
	case !cr.d.hasData(nr.node.Data):
		return "it has no data"
	case nr.rec == nil || !nr.rec.Bootstrapped:
		return "it never had all data"
	}
	return nr.ns.rebuildReason(cr.d.o.Now())
}

// route is where the gateway should lead: writes to the primary, reads to the
// replicas that are close behind it, or to the primary when there is none.
func (d *Driver) route(cs *clusterState, want platform.Wanted, top state.Topology) gateway.Route {
	r := gateway.Route{
		Cluster: want.ID, Engine: want.Engine, Port: want.Port, Allow: want.AllowList.Prefixes(),
		Primary: d.listenAddress(top.Primary, want.Port), Reads: d.readers(cs, want.Port, top),
	}
	if want.LockedOut { // the servers have a password that was reset
		r.Allow = nil
	}
	if top.Sleeps() { // until the primary answers
		return sleepingRoute(r)
	}
	return r
}

// readers are the servers that reads are spread over.
func (d *Driver) readers(cs *clusterState, port int, top state.Topology) []netip.AddrPort {
	var list []netip.AddrPort
	for _, ordinal := range top.Replicas() {
		if cs.node(ordinal).readable() {
			list = append(list, d.listenAddress(ordinal, port))
		}
	}
	if len(list) == 0 {
		return []netip.AddrPort{d.listenAddress(top.Primary, port)}
	}
	return list
}

// setRoute makes the gateway lead where it should.
func (cr *clusterReconciler) setRoute(ctx context.Context) error {
	nr, err := cr.nodeReconciler(ctx, cr.top.Primary)
	if err != nil {
		return err
	}
	return nr.setRoute(ctx)
}

// suspend ends all servers; data, addresses and records stay. Whoever connects
// is turned away.
func (cr *clusterReconciler) suspend(ctx context.Context) error {
	if err := cr.checkStoppable(ctx); err != nil {
		return err
	}
	if err := cr.d.stopPooler(ctx, cr.cs); err != nil {
		return err
	}
	closed := gateway.Route{Cluster: cr.want.ID, Port: cr.want.Port}
	if err := cr.d.o.Gateway.Set(ctx, closed); err != nil {
		return err
	}
	return cr.stopAll(ctx)
}

var errNoServer = errors.New("the server isn't running")

// recordedCluster returns what the nodes' records say of a cluster: enough to bring it
// back as it was, without the store.
func (d *Driver) recordedCluster(ctx context.Context, id cluster.ID, top state.Topology) (platform.Wanted, error) {
	var want platform.Wanted
	var rec *state.Node
	for _, ordinal := range append([]int{top.Primary}, top.Replicas()...) {
		r, err := state.ReadNode(d.layout.node(id, ordinal))
		if err == nil && r != nil && r.Applied != nil {
			rec = r
			break
		}
	}
	if rec == nil {
		return want, fmt.Errorf("cluster %d: no node of it was ever finished", id)
	}
	want = d.recordedWanted(rec)
	want.Size, want.Replication, want.Suspended, want.AutoSuspend = top.Size, top.Replication, top.Suspended, top.AutoSuspend
	pools, err := d.pools(id)
	if err != nil {
		return want, err
	}
	if pools != nil {
		want.Pools, want.PoolPort = pools.Pools, pools.Port
	}
	inst := d.installation(rec.Installation)
	want.Series, want.Installation = inst.Series, rec.Installation
	want.Hosts = cluster.Hosts{Primary: d.o.PrimaryAddress.String(), Secondary: d.o.SecondaryAddress.String()}
	routes, err := d.o.Gateway.Routes(ctx)
	if err != nil {
		return want, fmt.Errorf("look at the gateway: %w", err)
	}
	for _, r := range routes {
		if r.Port == rec.Port && r.Cluster == id {
			for _, prefix := range r.Allow {
				want.AllowList = append(want.AllowList, prefix.String())
			}
		}
	}
	return want, nil
}
