package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform/host/failover"
	"steward/internal/platform/host/plan"
	"steward/internal/wait"
)

// ensurePrimary replaces or restarts the primary when its server has ended or
// hangs, or its data is gone.
func (cr *clusterReconciler) ensurePrimary(ctx context.Context) error {
	old, err := cr.nodeReconciler(ctx, cr.top.Primary)
	if err != nil {
		return err
	}
	why := old.down()
	if why == "" {
		return nil
	}
	cr.changeBegan = time.Now()
	failpoint.Here("host: before fencing")
	// Whatever is left of it must not commit any more.
	if err := old.killAll(ctx); err != nil {
		return fmt.Errorf("fence node %d: %w", cr.top.Primary, err)
	}
	failpoint.Here("host: after fencing")
	return cr.replacePrimary(ctx, old, why)
}

// down says why the primary can't go on; "" when it can.
func (nr *nodeReconciler) down() string {
	switch {
	case !nr.d.hasData(nr.node.Data):
		return "its data is gone"
	case !nr.ns.running():
		return "its server ended"
	case nr.ns.isHung():
		return "its server doesn't answer"
	}
	return ""
}

// replacePrimary decides who is the primary after the old one was fenced, and
// makes it so. Replicas that may know more than the others are waited for.
func (cr *clusterReconciler) replacePrimary(ctx context.Context, old *nodeReconciler, why string) error {
	const patience = 10 * time.Second
	began := time.Now()
	for {
		situation, err := cr.failoverState(ctx, old)
		if err != nil {
			return err
		}
		situation.WaitExpired = time.Since(began) > patience
		decision := failover.Decide(situation)
		cr.d.log.Info("the primary is down", "cluster_id", cr.want.ID, "node", cr.top.Primary, "why", why, "action", string(decision.Action), "candidate", decision.Candidate, "replicas", fmt.Sprintf("%+v", situation.Replicas))
		switch decision.Action {
		case failover.Restart:
			return cr.restartPrimary(ctx, old, situation)
		case failover.Promote:
			reason := fmt.Sprintf("Node %d is no longer the primary: %s. Node %d took over.", cr.top.Primary, why, decision.Candidate)
			err := cr.failover(ctx, old, decision, reason)
			if !errors.Is(err, engine.ErrUndrainable) {
				return err
			}
			old.ns.setUndrainable()
			cr.d.log.Warn("the dead primary's last writes can't be had from its files", "cluster_id", cr.want.ID, "node", cr.top.Primary, "error", err)
			continue
		case failover.GiveUp:
			return &permanentError{"no node has the cluster's data any more: a backup has to be restored"}
		}
		for _, ordinal := range cr.top.Replicas() {
			cr.restartReplica(ctx, ordinal)
		}
		if err := wait.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// failoverState asks all replicas for their replication status once they are disconnected.
func (cr *clusterReconciler) failoverState(ctx context.Context, old *nodeReconciler) (failover.State, error) {
	situation := failover.State{
		HasData: cr.d.hasData(old.node.Data), CanDrain: cr.canDrain(old), RestartFailed: old.ns.isUnstartable(),
		Synchronous: synchronous(cr.want.Replication, cr.want.Commit),
		Replicas:    make([]failover.Replica, len(cr.top.Replicas())),
	}
	var work sync.WaitGroup
	for i, ordinal := range cr.top.Replicas() {
		nr, err := cr.nodeReconciler(ctx, ordinal)
		if err != nil {
			return situation, err
		}
		work.Go(func() { situation.Replicas[i] = nr.replicaState(ctx) })
	}
	work.Wait()
	// Who was asked after the end of ctx hasn't failed to answer.
	return situation, ctx.Err()
}

// canDrain reports whether what the old primary wrote last may be had from its files.
func (cr *clusterReconciler) canDrain(old *nodeReconciler) bool {
	return cr.eng.CanDrain(old.inst) && !old.ns.isUndrainable()
}

// synchronous reports whether acknowledged writes are on two nodes.
func synchronous(r cluster.Replication, c cluster.Commit) bool {
	return r == cluster.SemiSynch || c == cluster.CommitOn || c == cluster.CommitRemoteWrite || c == cluster.CommitRemoteApply
}

// replicaState disconnects the replica from the old primary and returns how far it is.
func (nr *nodeReconciler) replicaState(ctx context.Context) failover.Replica {
	c := failover.Replica{Ordinal: nr.ns.ordinal, HasData: nr.rec != nil && nr.rec.Bootstrapped && nr.d.hasData(nr.node.Data) && !nr.ns.isDiverged()}
	if !c.HasData || !nr.ns.running() {
		return c
	}
	c.Complete = nr.isComplete()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := nr.eng.Disconnect(ctx, nr.node); err != nil {
		nr.d.log.Warn("replica doesn't let go of the old primary", "cluster_id", nr.want.ID, "node", c.Ordinal, "error", err)
		return c
	}
	s, err := nr.replicationStatus(ctx)
	if err != nil {
		nr.d.log.Warn("replica doesn't report its replication status", "cluster_id", nr.want.ID, "node", c.Ordinal, "error", err)
		return c
	}
	c.Answers, c.Received = true, s.Received
	return c
}

// isComplete reports whether the replica has everything that it ever acknowledged.
func (nr *nodeReconciler) isComplete() bool { return nr.eng.KeepsReceived() || nr.ns.hasCaughtUp() }

// restartPrimary starts the server again on its own data. While others could
// take over it isn't waited for as long.
func (cr *clusterReconciler) restartPrimary(ctx context.Context, old *nodeReconciler, s failover.State) error {
	patience := reconcileTimeout
	if slices.ContainsFunc(s.Replicas, func(c failover.Replica) bool { return c.HasData && c.Answers }) {
		patience = 20 * time.Second
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cr.mayRestartPrimary = true
	if err := cr.reconcileNode(short, cr.top.Primary); err != nil {
		old.ns.markUnstartable()
		return fmt.Errorf("start the primary again: %w", err)
	}
	for _, ordinal := range cr.top.Replicas() {
		cr.cs.node(ordinal).resetDisconnected()
	}
	return nil
}

// failover makes the candidate the primary: it gets the old primary's last writes, then
// the topology names it, and only then does it take writes.
func (cr *clusterReconciler) failover(ctx context.Context, old *nodeReconciler, decision failover.Decision, reason string) error {
	if decision.MayLose {
		reason += " Writes that were acknowledged in the last moments may be missing."
	}
	if cr.d.hasData(old.node.Data) && cr.canDrain(old) {
		candidate, err := cr.nodeReconciler(ctx, decision.Candidate)
		if err != nil {
			return err
		}
		failpoint.Here("host: before drain")
		if err := cr.eng.Drain(ctx, old.node, candidate.node); err != nil {
			return fmt.Errorf("drain node %d to node %d: %w", cr.top.Primary, decision.Candidate, err)
		}
		failpoint.Here("host: after drain")
	}
	top := cr.top
	top.Primary, top.Failovers, top.Last, top.Reason = decision.Candidate, top.Failovers+1, cr.d.o.Now().UTC(), reason
	top.Change = cluster.PrimaryChange{From: cr.top.Primary, To: decision.Candidate, Planned: cr.planned, Began: cr.d.o.Now().Add(-time.Since(cr.changeBegan)).UTC()}
	if err := cr.d.saveTopology(cr.want.ID, top); err != nil {
		return err
	}
	cr.setTopology(top)
	failpoint.Here("host: new primary recorded")
	cr.d.log.Warn("the primary changes", "cluster_id", cr.want.ID, "reason", reason)
	took, err := cr.promote(ctx)
	if err != nil {
		return err
	}
	cr.noteTook(took)
	cr.d.notifyChange(cr.want.ID)
	return nil
}

// noteTook adds to the topology how long the change of the primary took. It is for people: a
// topology without it is as good.
func (cr *clusterReconciler) noteTook(took time.Duration) {
	top := cr.top
	top.Change.Took = max(took, time.Nanosecond)
	if err := cr.d.saveTopology(cr.want.ID, top); err != nil {
		cr.d.log.Warn("note how long a failover took", "cluster_id", cr.want.ID, "error", err)
		return
	}
	cr.mu.Lock()
	defer cr.mu.Unlock()
	cr.top = top // the nodes' roles stay
}

// finishChange notes how long a change of the primary took that another attempt, or another process, had recorded before
// the new one took writes: it does by now.
func (cr *clusterReconciler) finishChange() {
	if cr.top.Change.Unfinished() {
		cr.noteTook(cr.d.o.Now().Sub(cr.top.Change.Began))
		cr.d.notifyChange(cr.want.ID)
	}
}

// customersFirst is how long a new primary has the machine for those who waited for it: they log in all at once, and what
// follows, the old one's start above all, made that take twice as long (bench/failover, two cores, eight writers).
const customersFirst = 100 * time.Millisecond

// promote makes the topology's primary take writes and the running replicas follow
// it, all at the same time, and returns how long customers had none.
func (cr *clusterReconciler) promote(ctx context.Context) (time.Duration, error) {
	var work sync.WaitGroup
	for _, ordinal := range cr.top.Replicas() {
		if ns := cr.cs.node(ordinal); ns.running() {
			work.Go(func() {
				if err := cr.repoint(ctx, ordinal); err != nil {
					cr.d.log.Warn("replica doesn't follow the new primary yet", "cluster_id", cr.want.ID, "node", ordinal, "error", err)
				}
			})
		}
	}
	defer work.Wait()
	nr, err := cr.nodeReconciler(ctx, cr.top.Primary)
	if err != nil {
		return 0, err
	}
	if err := nr.writeFiles(); err != nil {
		return 0, err
	}
	if err := nr.runStep(ctx, plan.Role); err != nil {
		return 0, err
	}
	work.Go(func() { cr.d.leadPools(ctx, cr.cs) })
	if err := nr.setRoute(ctx); err != nil {
		return 0, err
	}
	took := time.Since(cr.changeBegan)
	if err := wait.Sleep(ctx, customersFirst); err != nil {
		return 0, err
	}
	if _, err := nr.replicationStatus(ctx); err != nil {
		return 0, err
	}
	if nr.rec != nil {
		// What a replica has of fences may be its primary's, which an older steward made.
		nr.rec.Loaded, nr.rec.Fenced = nr.digest, 0
		if err := nr.save(false); err != nil {
			return 0, err
		}
	}
	cr.d.saveReplication(cr.cs)
	return took, nil
}

// repoint makes a running replica follow the current primary.
func (cr *clusterReconciler) repoint(ctx context.Context, ordinal int) error {
	nr, err := cr.nodeReconciler(ctx, ordinal)
	if err != nil {
		return err
	}
	if err := nr.writeFiles(); err != nil {
		return err
	}
	if err := nr.takeRole(ctx); err != nil {
		return err
	}
	nr.ns.resetDisconnected()
	nr.rec.Loaded = nr.digest
	return nr.save(false)
}

// restartReplica starts a replica's server as it was last started, so that it can
// report its replication status.
func (cr *clusterReconciler) restartReplica(ctx context.Context, ordinal int) {
	nr, err := cr.nodeReconciler(ctx, ordinal)
	if err != nil || nr.rec == nil || nr.rec.Launch == nil || nr.ns.running() {
		return
	}
	if nr.rec.Launch.Listen != nr.node.Listen { // of another gateway, before all was stopped
		if err := nr.writeFiles(); err != nil {
			cr.d.log.Warn("replica can't be started", "cluster_id", cr.want.ID, "node", ordinal, "error", err)
			return
		}
		nr.rec.Launch = nr.newLaunch()
	}
	if err := cr.d.relaunch(ctx, cr.cs, nr.ns, nr.rec); err != nil {
		cr.d.log.Warn("replica can't be started", "cluster_id", cr.want.ID, "node", ordinal, "error", err)
	}
}

// switchover moves the primary role to a replica on purpose. No acknowledged write
// is lost: the old primary has stopped or is read-only before the candidate takes
// writes, and the candidate has everything by then.
func (cr *clusterReconciler) switchover(ctx context.Context, candidate *nodeReconciler, why string) error {
	old, err := cr.nodeReconciler(ctx, cr.top.Primary)
	if err != nil {
		return err
	}
	reason := fmt.Sprintf("Node %d handed its role over to node %d for %s.", cr.top.Primary, candidate.ns.ordinal, why)
	cr.changeBegan, cr.planned = time.Now(), true
	defer func() { cr.planned = false }()
	failpoint.Here("host: before switchover")
	if cr.eng.CanDrain(old.inst) {
		err = old.stop(ctx) // its last writes are drained from its files
	} else {
		err = cr.demote(ctx, old, candidate)
	}
	if err != nil {
		return err
	}
	failpoint.Here("host: old primary has stopped writing")
	if err := cr.disconnectAll(ctx); err != nil {
		return err
	}
	return cr.failover(ctx, old, failover.Decision{Action: failover.Promote, Candidate: candidate.ns.ordinal}, reason)
}

// switchoverCandidate returns the furthest of the replicas that follow closely.
func (cr *clusterReconciler) switchoverCandidate(ctx context.Context) (*nodeReconciler, error) {
	var best *nodeReconciler
	var most uint64
	var problems []string
	for _, ordinal := range cr.top.Replicas() {
		nr, err := cr.nodeReconciler(ctx, ordinal)
		if err != nil {
			return nil, err
		}
		s, err := nr.replicationStatus(ctx)
		switch {
		case err != nil:
			problems = append(problems, err.Error())
		case !s.Streaming || s.Lag > maxLag:
			problems = append(problems, fmt.Sprintf("node %d doesn't follow closely: %s", ordinal, s.Problem))
		case best == nil || s.Applied > most:
			best, most = nr, s.Applied
		}
	}
	if best == nil {
		return nil, errors.New("no replica can take over now: " + strings.Join(problems, "; "))
	}
	return best, nil
}

// demote makes the primary read-only and waits until the candidate has everything.
// The gateway holds new connections meanwhile. When that takes too long, the
// primary takes writes again.
func (cr *clusterReconciler) demote(ctx context.Context, old, candidate *nodeReconciler) error {
	const patience = 20 * time.Second
	cr.d.pausePools(ctx, cr.cs)
	cr.d.withhold(ctx, old.ns.ordinal, cr.want.Port, stopGrace)
	held := old.route()
	held.Primary = netip.AddrPort{} // held, until there is one
	if err := cr.d.o.Gateway.Set(ctx, held); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := cr.eng.StepDown(short, old.node)
	if err == nil {
		err = caughtUp(short, old, candidate)
	}
	if err == nil {
		return nil
	}
	undo, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	return errors.Join(err, cr.eng.Promote(undo, old.node), old.setRoute(undo))
}

// caughtUp waits until the candidate has all that the old primary has.
func caughtUp(ctx context.Context, old, candidate *nodeReconciler) error {
	return reaches(ctx, old, candidate, func(s engine.ReplicationStatus) uint64 { return s.Received })
}

// applied waits until a replica has not only got but applied what the primary has now.
func applied(ctx context.Context, primary, replica *nodeReconciler) error {
	return reaches(ctx, primary, replica, func(s engine.ReplicationStatus) uint64 { return s.Applied })
}

// reaches waits until a node is as far as another one is now.
func reaches(ctx context.Context, other, node *nodeReconciler, far func(engine.ReplicationStatus) uint64) error {
	last, err := other.replicationStatus(ctx)
	if err != nil {
		return err
	}
	for {
		s, err := node.replicationStatus(ctx)
		if err == nil && far(s) >= last.Received {
			return nil
		}
		if wait.Sleep(ctx, 2*time.Millisecond) != nil {
			return fmt.Errorf("node %d doesn't catch up: %s of %s", node.ns.ordinal, s.Position, last.Position)
		}
	}
}

func (cr *clusterReconciler) disconnectAll(ctx context.Context) error {
	var running []*nodeReconciler
	for _, ordinal := range cr.top.Replicas() {
		nr, err := cr.nodeReconciler(ctx, ordinal)
		if err != nil {
			return err
		}
		if nr.ns.running() {
			running = append(running, nr)
		}
	}
	var work sync.WaitGroup
	problems := make([]error, len(running))
	for i, nr := range running {
		work.Go(func() {
			if err := cr.eng.Disconnect(ctx, nr.node); err != nil && !errors.Is(err, engine.ErrStarting) {
				problems[i] = fmt.Errorf("disconnect node %d: %w", nr.ns.ordinal, err)
			}
		})
	}
	work.Wait()
	return errors.Join(problems...)
}
