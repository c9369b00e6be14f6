package host

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"steward/internal/engine"
	"steward/internal/process"
)

// The end of a server is noticed at once. What looks alive but isn't is found
// by looking: these are the times of that.
const (
	glance     = 250 * time.Millisecond // between two looks at the primary's process and data
	stoppedFor = 1 * time.Second        // for how long a process must be stopped to count as dead
	pingEvery  = 1 * time.Second
	pingTime   = 2 * time.Second
	pingMisses = 3               // a primary that missed as many answers in a row hangs
	unattended = 1 * time.Second // for how long a primary must be down that nobody attends to
)

// keepVigil watches over the primary and the replicas of a cluster with several
// nodes, once, for as long as the cluster is there.
func (d *Driver) keepVigil(cs *clusterState) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	d.mu.Lock()
	active := d.active
	d.mu.Unlock()
	if cs.vigil || !active {
		return
	}
	cs.vigil = true
	d.spawn(func() { d.prepareFailover(cs) })
	d.spawn(func() {
		d.watchOver(cs)
		cs.mu.Lock()
		defer cs.mu.Unlock()
		cs.vigil = false
	})
}

// vigil is what it remembers between two looks.
type vigil struct {
	d  *Driver
	cs *clusterState
	// stopped is since when the primary's process has been stopped, down since
	// when there has been none.
	stopped, down time.Time
	asked         time.Time
	// asking reports whether servers are being asked; misses counts pings in vain.
	asking atomic.Bool
	misses atomic.Int32
	// comparison is of a replica's rows with the primary's.
	comparison comparison
	// replaced is the primary's process that was last to be replaced; replacing
	// tells that it is being done.
	replaced  *process.Process
	replacing atomic.Bool
}

func (d *Driver) watchOver(cs *clusterState) {
	v := &vigil{d: d, cs: cs, comparison: newComparison(d.o.Now(), d.o.CompareEvery)}
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		select {
		case <-d.quit.Done():
			return
		case <-tick.C:
		}
		top, err := d.topology(cs.id)
		if err != nil || top.Members == 1 || top.Suspended {
			return
		}
		if !top.Restoring {
			v.look(top)
			v.compareInTurn(top)
		}
	}
}

func (v *vigil) look(top topology) {
	ns := v.cs.node(top.Primary)
	p := ns.process()
	now := v.d.o.Now()
	if p == nil || !p.Running() {
		v.stopped = time.Time{}
		v.misses.Store(0)
		if v.down.IsZero() {
			v.down = now
		}
		if now.Sub(v.down) >= unattended { // its end is seen by watch
			v.cs.requestRecovery()
		}
		v.d.recoverAgain(v.cs)
		return
	}
	v.down = time.Time{}
	switch {
	case !p.Stopped():
		v.stopped = time.Time{}
	case v.stopped.IsZero():
		v.stopped = now
	}
	dead := !v.stopped.IsZero() && now.Sub(v.stopped) >= stoppedFor || v.misses.Load() >= pingMisses
	if dead || !v.d.hasData(v.d.layout.dataOf(v.cs.id, top.Primary)) {
		ns.setHangs(dead)
		v.replace(ns, p)
		return
	}
	v.d.recoverAgain(v.cs)
	if now.Sub(v.asked) >= pingEvery && v.asking.CompareAndSwap(false, true) {
		v.asked = now
		v.d.spawn(func() {
			defer v.asking.Store(false)
			v.ask(top, p)
		})
	}
}

// replace begins to replace a primary that is of no use, and goes on watching: over
// the next one, too.
func (v *vigil) replace(ns *nodeState, p *process.Process) {
	v.stopped = time.Time{}
	v.misses.Store(0)
	if v.replaced == p && (v.replacing.Load() || !v.cs.recoveryDue(v.d.o.Now())) {
		return
	}
	v.replaced = p
	v.replacing.Store(true)
	v.d.spawn(func() {
		defer v.replacing.Store(false)
		v.d.recover(v.cs, ns, p)
	})
}

// ask pings the primary and asks the replicas how they stand, and sees to it
// that reads go to those that follow.
func (v *vigil) ask(top topology, p *process.Process) {
	ctx, cancel := context.WithTimeout(v.d.quit, 2*pingTime)
	defer cancel()
	if v.ping(ctx, top.Primary) {
		v.misses.Store(0)
		v.cs.node(top.Primary).answered(v.d.o.Now())
	} else if v.cs.node(top.Primary).process() == p {
		v.misses.Add(1)
	}
	changed := false
	for ordinal := range top.Members {
		ns := v.cs.node(ordinal)
		if _, at := ns.lastStanding(); ns.running() && !ns.isRebuilding() && v.d.o.Now().Sub(at) >= standingFresh {
			v.standing(ctx, ns)
			changed = changed || ordinal != top.Primary && ns.hopeless(v.d.o.Now()) != ""
		}
		changed = ns.takeRerouted() || changed
	}
	v.d.tellStandings(v.cs)
	if changed {
		v.cs.requestRecovery() // reads go elsewhere, whether the store is there or not
		v.d.notifyChange(v.cs.id)
	}
}

func (v *vigil) ping(ctx context.Context, ordinal int) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	rec, err := readRecord(v.d.layout.node(v.cs.id, ordinal))
	if err != nil || rec == nil {
		return true // there is nothing to be known
	}
	eng, node, err := v.d.recordedNode(ctx, rec)
	if err != nil {
		return true
	}
	err = eng.Ping(ctx, node)
	return err == nil || errors.Is(err, engine.ErrStarting) || errors.Is(err, engine.ErrAuthentication)
}

func (v *vigil) standing(ctx context.Context, ns *nodeState) {
	rec, err := readRecord(v.d.layout.node(ns.id, ns.ordinal))
	if err != nil || rec == nil || !rec.Bootstrapped {
		return
	}
	eng, node, err := v.d.recordedNode(ctx, rec)
	if err != nil {
		return
	}
	// An error is remembered as the node's problem.
	_, _ = askStanding(ctx, v.d, ns, eng, node)
}

// hangs reports whether the server was found to be there but not to answer.
func (ns *nodeState) hangs() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.hung
}

func (ns *nodeState) setHangs(hangs bool) {
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
