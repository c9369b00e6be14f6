package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
)

// keyringName is the secret that holds a node's keyring: each server has its own.
func keyringName(ordinal int) platform.SecretName {
	if ordinal == 0 {
		return platform.Keyring
	}
	return platform.SecretName(fmt.Sprintf("%s_%d", platform.Keyring, ordinal))
}

// replicationStatusFresh is how long a replication status counts as current.
const replicationStatusFresh = 2 * time.Second

// replicationStatus asks the node's server for its status and records it.
func (nr *nodeReconciler) replicationStatus(ctx context.Context) (engine.ReplicationStatus, error) {
	return queryReplicationStatus(ctx, nr.d, nr.ns, nr.eng, nr.node)
}

func queryReplicationStatus(ctx context.Context, d *Driver, ns *nodeState, eng engine.Replicator, n engine.Node) (engine.ReplicationStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	asked := time.Now()
	s, err := eng.ReplicationStatus(ctx, n)
	if err != nil {
		ns.setReplicationStatus(engine.ReplicationStatus{Problem: err.Error()}, asked, d.o.Now())
		return s, fmt.Errorf("ask node %d for its replication status: %w", n.Ordinal, err)
	}
	ns.setReplicationStatus(s, asked, d.o.Now())
	d.noteCaughtUp(ns.id)
	return s, nil
}

// noteCaughtUp notes which replicas have received what the primary had.
func (d *Driver) noteCaughtUp(id cluster.ID) {
	top, err := d.topology(id)
	if err != nil {
		return
	}
	cs := d.clusterState(id)
	primary, asked := cs.node(top.Primary).positionAsked()
	if !primary.Writable {
		return
	}
	for _, ordinal := range top.Replicas() {
		cs.node(ordinal).noteCaughtUp(primary.Received, asked)
	}
}

// positionAsked returns the last status of the node, and when it was asked for it.
func (ns *nodeState) positionAsked() (engine.ReplicationStatus, time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.replication, ns.asked
}

// noteCaughtUp is told what the primary had received when it was asked.
func (ns *nodeState) noteCaughtUp(received uint64, asked time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	both := ns.asked.After(ns.since) && asked.After(ns.since)
	ns.caughtUp = ns.caughtUp || both && ns.replication.Streaming && ns.replication.Received >= received
}

// hasCaughtUp reports whether a replica has all that it acknowledged, also if its server
// was started again.
func (ns *nodeState) hasCaughtUp() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.caughtUp
}

// isBehind reports whether a replica that runs isn't known to have caught up: until then it
// is worth little in a failover.
func (cs *clusterState) isBehind(top state.Topology) bool {
	return slices.ContainsFunc(top.Replicas(), func(ordinal int) bool {
		ns := cs.node(ordinal)
		return ns.running() && !ns.hasCaughtUp()
	})
}

// followsAnew notes that what the replica had received and not applied may be gone. The
// caller holds mu.
func (ns *nodeState) followsAnew() { ns.since, ns.caughtUp = time.Now(), false }

// setReplicationStatus records a status, and since when a replica hasn't followed.
func (ns *nodeState) setReplicationStatus(s engine.ReplicationStatus, asked, now time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	before := ns.isReadable()
	ns.replication, ns.replicationAt, ns.asked = s, now, asked
	ns.readableChanged = ns.readableChanged || before != ns.isReadable()
	switch {
	case s.Streaming || s.Writable:
		ns.disconnectedSince = time.Time{}
	case ns.disconnectedSince.IsZero():
		ns.disconnectedSince = now
	}
}

// replicationStatus returns the last status of the node, and when it was reported.
func (ns *nodeState) replicationStatus() (engine.ReplicationStatus, time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.replication, ns.replicationAt
}

// prepareReplica makes the fresh clone one that can follow the primary.
func (nr *nodeReconciler) prepareReplica(ctx context.Context) error {
	primary := nr.d.engineNode(nr.want, nr.inst, nr.top, nr.top.Primary)
	return nr.eng.PrepareReplica(ctx, primary.Data, nr.node.Data)
}

// takeRole has a running server follow the primary, or be it.
func (nr *nodeReconciler) takeRole(ctx context.Context) error {
	if nr.node.Role == cluster.Primary {
		return nr.eng.Promote(ctx, nr.node)
	}
	if nr.ns.hasCaughtUp() && !nr.cs.node(nr.top.Primary).running() {
		// Told to follow the dead it might forget what it alone has: a failover is to come.
		return nil
	}
	err := nr.ns.follow(ctx, nr.eng, nr.node)
	if errors.Is(err, engine.ErrDiverged) {
		nr.ns.setDiverged(true)
		return nil // it is given a new copy
	}
	return err
}

// follow has a running replica follow its source.
func (ns *nodeState) follow(ctx context.Context, eng engine.Replicator, n engine.Node) error {
	afresh, err := eng.Follow(ctx, n)
	if afresh {
		ns.mu.Lock()
		defer ns.mu.Unlock()
		ns.followsAnew()
	}
	return err
}

func (ns *nodeState) setDiverged(diverged bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.diverged, ns.difference = diverged, ""
}

// maxLag is how far behind a replica may be that reads are sent to.
const maxLag = 10 * time.Second

// readable reports whether the gateway may send reads to a replica.
func (ns *nodeState) readable() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.isReadable()
}

// takeReadableChanged reports, once, whether the node became readable or ceased to be.
func (ns *nodeState) takeReadableChanged() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	was := ns.readableChanged
	ns.readableChanged = false
	return was
}

func (ns *nodeState) isReadable() bool {
	return ns.proc != nil && ns.proc.Running() && ns.replication.Streaming && ns.replication.Lag <= maxLag
}

// resetDisconnected restarts the count of how long the node hasn't followed: there was
// no primary to follow.
func (ns *nodeState) resetDisconnected() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.disconnectedSince = time.Time{}
}

// rebuildReason returns why a replica can't follow again without a new copy of the
// data; "" while it may.
func (ns *nodeState) rebuildReason(now time.Time) string {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	const patience = 20 * time.Second
	running := ns.proc != nil && ns.proc.Running()
	switch {
	case ns.difference != "":
		return ns.difference
	case ns.diverged:
		return "its data has gone another way than the primary's"
	case !running && ns.failedStarts >= maxFailedStarts:
		return "its server doesn't start: " + ns.lastWords
	case running && !ns.disconnectedSince.IsZero() && now.Sub(ns.disconnectedSince) > patience:
		return "it doesn't follow the primary: " + ns.replication.Problem
	}
	return ""
}

// replication is the file with the nodes' last replication status; a reboot removes it.
func (l layout) replication(id cluster.ID) string {
	return filepath.Join(l.run, fmt.Sprintf("%d.json", id))
}

// saveReplication saves the nodes' last replication status, when there are several.
func (d *Driver) saveReplication(cs *clusterState) {
	top, err := d.topology(cs.id)
	if err == nil && top.Size > 1 {
		err = d.writeReplication(cs, top)
	}
	if err != nil {
		d.log.Warn("save replication status", "cluster_id", cs.id, "error", err)
	}
}

func (d *Driver) writeReplication(cs *clusterState, top state.Topology) error {
	all := map[int]state.Replication{}
	for ordinal := range top.Size {
		if s, at := cs.node(ordinal).replicationStatus(); !at.IsZero() {
			all[ordinal] = state.Replication{
				Streaming: s.Streaming, Lag: s.Lag, Position: s.Position, Problem: s.Problem, At: at, CaughtUp: cs.node(ordinal).caughtUpPid(),
			}
		}
	}
	return state.WriteSoon(d.layout.replication(cs.id), all)
}

// caughtUpPid is the server's process if it has caught up, 0 otherwise.
func (ns *nodeState) caughtUpPid() int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if !ns.caughtUp || ns.proc == nil {
		return 0
	}
	return ns.proc.Pid()
}

// adoptCaughtUp takes over what the steward before knew of servers that still run.
func (d *Driver) adoptCaughtUp(ns *nodeState) {
	pid := d.readReplication(ns.id)[ns.ordinal].CaughtUp
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.caughtUp = pid != 0 && ns.proc != nil && ns.proc.Pid() == pid
}

// readReplication returns what was last saved; nil when there is none.
func (d *Driver) readReplication(id cluster.ID) map[int]state.Replication {
	all, _, err := state.Read[map[int]state.Replication](d.layout.replication(id))
	if err != nil {
		return nil
	}
	return all
}
