package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/platform/host/state"
)

// targetTopology returns the topology to reconcile towards. The size changes in two
// moves: no commit waits for a new node before that follows, and nodes are removed
// only once the first node is the primary.
func (cr *clusterReconciler) targetTopology(now state.Topology) (state.Topology, error) {
	size := max(1, cr.want.Size)
	top := now
	top.Suspended, top.AutoSuspend = cr.want.Suspended, cr.want.AutoSuspend
	if top.Suspended {
		top.Asleep = time.Time{}
	}
	switch {
	case cr.want.Suspended: // nobody comes or goes meanwhile
		return top, nil
	case size == 1 && now.Size > 1 && now.Primary != 0:
		cr.want.Replication = now.Replication // until the role has been handed over
		return top, nil
	case size > 1 && now.Size == 1:
		born, err := cr.d.bootstrapped(cr.want.ID, now)
		if err != nil {
			return now, err
		}
		top.Growing = born
	case size == 1:
		top.Growing = false
	}
	top.Size = size
	if top.Growing {
		cr.want.Replication, cr.want.Commit = cluster.Asynch, localCommit(cr.want.Commit)
	}
	if top.Size > 1 {
		top.Replication = cr.want.Replication
	}
	return top, nil
}

// localCommit returns the commit level that waits for no other node.
func localCommit(c cluster.Commit) cluster.Commit {
	if c == "" || c == cluster.CommitOff {
		return c
	}
	return cluster.CommitLocal
}

// shrinking reports whether nodes are to be removed once the first is the primary.
func (cr *clusterReconciler) shrinking() bool { return cr.top.Size > max(1, cr.requested.Size) }

// grow gives the new nodes their copies while the first goes on by itself. Once
// they follow, commits wait for them as was asked for.
func (cr *clusterReconciler) grow(ctx context.Context) error {
	if err := errors.Join(cr.reconcileNode(ctx, cr.top.Primary), cr.rollingUpdate(ctx), cr.setRoute(ctx)); err != nil {
		return err
	}
	if err := cr.awaitReplicas(ctx); err != nil {
		return err
	}
	top := cr.top
	top.Growing = false
	if err := cr.d.saveTopology(cr.want.ID, top); err != nil {
		return err
	}
	failpoint.Here("host: nodes were added")
	return cr.runAgain(ctx)
}

// shrink makes the first node the primary, so that the others can go.
func (cr *clusterReconciler) shrink(ctx context.Context) error {
	if cr.top.Primary == 0 { // a failover has made it that meanwhile
		return cr.runAgain(ctx)
	}
	if err := cr.reconcileReplica(ctx, 0); err != nil {
		return err
	}
	first, err := cr.nodeReconciler(ctx, 0)
	if err != nil {
		return err
	}
	if err := cr.switchover(ctx, first, "a smaller cluster"); err != nil {
		return fmt.Errorf("switch over: %w", err)
	}
	failpoint.Here("host: the first node is the primary")
	return cr.runAgain(ctx)
}

// runAgain reconciles towards what was requested, now that it is possible.
func (cr *clusterReconciler) runAgain(ctx context.Context) error {
	next, err := cr.d.newClusterReconciler(cr.cs, cr.requested)
	if err != nil {
		return err
	}
	err = next.run(ctx)
	cr.top = next.top
	return err
}

// removeOthers takes away the nodes beyond the only one: it takes the writes, and
// waits for nobody any more.
func (cr *clusterReconciler) removeOthers(ctx context.Context) error {
	for ordinal := 1; ordinal < state.MaxNodes; ordinal++ {
		if !exists(cr.d.layout.node(cr.want.ID, ordinal)) {
			continue
		}
		if err := cr.removeNode(ctx, ordinal); err != nil {
			return fmt.Errorf("remove node %d: %w", ordinal, err)
		}
	}
	return nil
}

func (cr *clusterReconciler) removeNode(ctx context.Context, ordinal int) error {
	failpoint.Here("host: before removing a node")
	d, id := cr.d, cr.want.ID
	d.withhold(ctx, ordinal, cr.want.Port, stopGrace)
	if err := d.removeProcesses(ctx, cr.cs.node(ordinal), cr.want.Port); err != nil {
		return err
	}
	if err := d.removeNetworks(ctx, cr.want.Port, ordinal); err != nil {
		return err
	}
	for _, dir := range []string{d.layout.keysNode(id, ordinal), d.layout.runNode(id, ordinal)} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove folder: %w", err)
		}
	}
	if err := d.trash.Put(d.layout.node(id, ordinal)); err != nil {
		return err
	}
	failpoint.Here("host: after removing a node")
	cr.cs.forgetNode(ordinal)
	return nil
}
