package host

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"steward/internal/engine"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// The end of a server is noticed at once. A server that runs but is of no use is found
// by probing.
const (
	probeInterval  = 250 * time.Millisecond // between two probes of the primary's process and data
	stoppedTooLong = 1 * time.Second        // for how long a process must be stopped to count as dead
	pingEvery      = 1 * time.Second
	pingTimeout    = 2 * time.Second
	pingMisses     = 3               // a primary that missed as many answers in a row hangs
	downTooLong    = 1 * time.Second // for how long a primary must be down before the monitor recovers it
)

// startHealthMonitor starts the health monitor of a cluster with several nodes, unless
// it runs.
func (d *Driver) startHealthMonitor(cs *clusterState) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	d.mu.Lock()
	active := d.active
	d.mu.Unlock()
	if cs.monitored || !active {
		return
	}
	cs.monitored = true
	d.spawn(func() { d.prepareFailover(cs) })
	d.spawn(func() {
		d.monitorHealth(cs)
	})
}

// endMonitor reports whether there is nothing to monitor any more. Who starts a monitor after
// that has one: the topology says first that there is something.
func (d *Driver) endMonitor(cs *clusterState) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	top, err := d.topology(cs.id)
	cs.monitored = err == nil && top.Size > 1 && !top.Rests()
	return !cs.monitored
}

// healthMonitor watches the primary and the replicas of a cluster with several nodes.
type healthMonitor struct {
	d  *Driver
	cs *clusterState
	// stopped is since when the primary's process has been stopped, down since
	// when there has been none.
	stopped, down time.Time
	polledAt      time.Time
	// polling reports whether nodes are being polled; misses counts failed pings.
	polling atomic.Bool
	misses  atomic.Int32
	// comparison is of a replica's rows with the primary's.
	comparison comparison
	// replaced is the primary's process that was last replaced; replacing reports
	// whether that is under way.
	replaced  *process.Process
	replacing atomic.Bool
}

func (d *Driver) monitorHealth(cs *clusterState) {
	hm := &healthMonitor{d: d, cs: cs, comparison: newComparison(d.o.Now(), d.o.CompareEvery)}
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-d.quit.Done():
			return
		case <-tick.C:
		}
		top, err := d.topology(cs.id)
		if err != nil || top.Size == 1 || top.Rests() {
			if d.endMonitor(cs) {
				return
			}
			continue
		}
		if !top.Restoring {
			hm.probe(top)
			hm.compareWhenDue(top)
		}
	}
}

func (hm *healthMonitor) probe(top state.Topology) {
	ns := hm.cs.node(top.Primary)
	p := ns.process()
	now := hm.d.o.Now()
	if p == nil || !p.Running() {
		hm.stopped = time.Time{}
		hm.misses.Store(0)
		if hm.down.IsZero() {
			hm.down = now
		}
		if now.Sub(hm.down) >= downTooLong { // its end is seen by watch
			hm.cs.requestRecovery()
		}
		hm.d.recoverAgain(hm.cs)
		return
	}
	hm.down = time.Time{}
	switch {
	case !p.Stopped():
		hm.stopped = time.Time{}
	case hm.stopped.IsZero():
		hm.stopped = now
	}
	dead := !hm.stopped.IsZero() && now.Sub(hm.stopped) >= stoppedTooLong || hm.misses.Load() >= pingMisses
	if dead || !hm.d.hasData(hm.d.layout.dataOf(hm.cs.id, top.Primary)) {
		ns.setHung(dead)
		hm.replace(ns, p)
		return
	}
	hm.d.recoverAgain(hm.cs)
	if now.Sub(hm.polledAt) >= pingEvery && hm.polling.CompareAndSwap(false, true) {
		hm.polledAt = now
		hm.d.spawn(func() {
			defer hm.polling.Store(false)
			hm.pollNodes(top, p)
		})
	}
}

// replace begins to replace a primary that is of no use, without waiting for it.
func (hm *healthMonitor) replace(ns *nodeState, p *process.Process) {
	hm.stopped = time.Time{}
	hm.misses.Store(0)
	if hm.replaced == p && (hm.replacing.Load() || !hm.cs.recoveryDue(hm.d.o.Now())) {
		return
	}
	hm.replaced = p
	hm.replacing.Store(true)
	hm.d.spawn(func() {
		defer hm.replacing.Store(false)
		hm.d.recover(hm.cs, ns, p)
	})
}

// pollNodes asks all nodes for their replication status, pings the primary when that wasn't due, or didn't come, and has
// reads sent to the replicas that follow.
func (hm *healthMonitor) pollNodes(top state.Topology, p *process.Process) {
	ctx, cancel := context.WithTimeout(hm.d.quit, 2*pingTimeout)
	defer cancel()
	primary, behind := hm.cs.node(top.Primary), hm.cs.isBehind(top)
	_, told := hm.pollReplication(ctx, primary, behind)
	if told || hm.ping(ctx, top.Primary) {
		hm.misses.Store(0)
		primary.answered(hm.d.o.Now())
	} else if primary.process() == p {
		hm.misses.Add(1)
	}
	changed := primary.takeReadableChanged()
	for _, ordinal := range top.Replicas() {
		ns := hm.cs.node(ordinal)
		if asked, _ := hm.pollReplication(ctx, ns, behind); asked {
			changed = changed || ns.rebuildReason(hm.d.o.Now()) != ""
		}
		changed = ns.takeReadableChanged() || changed
	}
	hm.d.saveReplication(hm.cs)
	if changed {
		hm.cs.requestRecovery() // reads go elsewhere, whether the store is there or not
		hm.d.notifyChange(hm.cs.id)
	}
}

func (hm *healthMonitor) ping(ctx context.Context, ordinal int) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	rec, err := state.ReadNode(hm.d.layout.node(hm.cs.id, ordinal))
	if err != nil || rec == nil {
		return true // there is nothing to be known
	}
	eng, node, err := hm.d.recordedNode(ctx, rec)
	if err != nil {
		return true
	}
	err = eng.Ping(ctx, node)
	return err == nil || errors.Is(err, engine.ErrStarting) || errors.Is(err, engine.ErrAuthentication)
}

// pollReplication asks a node for its replication status when the last is too old, or all are asked as a replica is behind. It
// reports whether that was due, and whether the server told it.
func (hm *healthMonitor) pollReplication(ctx context.Context, ns *nodeState, behind bool) (due, told bool) {
	_, at := ns.replicationStatus()
	if !behind && hm.d.o.Now().Sub(at) < replicationStatusFresh || !ns.running() || ns.isRebuilding() {
		return false, false
	}
	rec, err := state.ReadNode(hm.d.layout.node(ns.id, ns.ordinal))
	if err != nil || rec == nil || !rec.Bootstrapped {
		return true, false
	}
	eng, node, err := hm.d.recordedNode(ctx, rec)
	if err != nil {
		return true, false
	}
	_, err = queryReplicationStatus(ctx, hm.d, ns, eng, node) // an error is remembered as the node's problem
	return true, err == nil
}

// isHung reports whether the server was found to be there but not to answer.
func (ns *nodeState) isHung() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.hung
}

func (ns *nodeState) setHung(hangs bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.hung = hangs
}

// isUndrainable reports whether the files the server left were tried to be drained, in vain.
func (ns *nodeState) isUndrainable() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.undrainable
}

func (ns *nodeState) setUndrainable() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.undrainable = true
}

// maxFailedStarts is how many starts of a server may end before it has answered:
// then its data isn't worth another while a node has it too.
const maxFailedStarts = 3

// ended counts an end that came before the server's first answer.
func (ns *nodeState) ended() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if !ns.pinged.IsZero() {
		ns.failedStarts = 0
		return
	}
	ns.failedStarts++
}

// startFailed counts a start that came to nothing.
func (ns *nodeState) startFailed() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.failedStarts++
}

// markUnstartable records that the primary's server could not be started at all.
func (ns *nodeState) markUnstartable() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.failedStarts = maxFailedStarts
}

// isUnstartable reports whether restarting the server is of no use.
func (ns *nodeState) isUnstartable() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.failedStarts >= maxFailedStarts
}
