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
func (d *Driver) keepVigil(u *unit) {
	u.mu.Lock()
	defer u.mu.Unlock()
	d.mu.Lock()
	active := d.active
	d.mu.Unlock()
	if u.vigil || !active {
		return
	}
	u.vigil = true
	d.spawn(func() { d.prepareFailover(u) })
	d.spawn(func() {
		d.watchOver(u)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.vigil = false
	})
}

// vigil is what it remembers between two looks.
type vigil struct {
	d *Driver
	u *unit
	// stopped is since when the primary's process has been stopped, down since
	// when there has been none.
	stopped, down time.Time
	asked         time.Time
	// asking tells that servers are being asked; misses counts pings in vain.
	asking atomic.Bool
	misses atomic.Int32
	// comparison is of a replica's rows with the primary's.
	comparison comparison
	// replaced is the primary's process that was last to be replaced; replacing
	// tells that it is being done.
	replaced  *process.Process
	replacing atomic.Bool
}

func (d *Driver) watchOver(u *unit) {
	v := &vigil{d: d, u: u, comparison: newComparison(d.o.Now(), d.o.CompareEvery)}
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		select {
		case <-d.quit.Done():
			return
		case <-tick.C:
		}
		top, err := d.topology(u.id)
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
	m := v.u.member(top.Primary)
	p := m.process()
	now := v.d.o.Now()
	if p == nil || !p.Running() {
		v.stopped = time.Time{}
		v.misses.Store(0)
		if v.down.IsZero() {
			v.down = now
		}
		if now.Sub(v.down) >= unattended { // its end is seen by watch
			v.u.requestRecovery()
		}
		v.d.recoverAgain(v.u)
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
	if dead || !v.d.hasData(v.d.layout.dataOf(v.u.id, top.Primary)) {
		m.setHangs(dead)
		v.replace(m, p)
		return
	}
	v.d.recoverAgain(v.u)
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
func (v *vigil) replace(m *member, p *process.Process) {
	v.stopped = time.Time{}
	v.misses.Store(0)
	if v.replaced == p && (v.replacing.Load() || !v.u.recoveryDue(v.d.o.Now())) {
		return
	}
	v.replaced = p
	v.replacing.Store(true)
	v.d.spawn(func() {
		defer v.replacing.Store(false)
		v.d.recover(v.u, m, p)
	})
}

// ask pings the primary and asks the replicas how they stand, and sees to it
// that reads go to those that follow.
func (v *vigil) ask(top topology, p *process.Process) {
	ctx, cancel := context.WithTimeout(v.d.quit, 2*pingTime)
	defer cancel()
	if v.ping(ctx, top.Primary) {
		v.misses.Store(0)
		v.u.member(top.Primary).answered(v.d.o.Now())
	} else if v.u.member(top.Primary).process() == p {
		v.misses.Add(1)
	}
	changed := false
	for ordinal := range top.Members {
		m := v.u.member(ordinal)
		if _, at := m.lastStanding(); m.running() && !m.isRebuilding() && v.d.o.Now().Sub(at) >= standingFresh {
			v.standing(ctx, m)
			changed = changed || ordinal != top.Primary && m.hopeless(v.d.o.Now()) != ""
		}
		changed = m.takeRerouted() || changed
	}
	v.d.tellStandings(v.u)
	if changed {
		v.u.requestRecovery() // reads go elsewhere, whether the store is there or not
		v.d.change(v.u.id)
	}
}

func (v *vigil) ping(ctx context.Context, ordinal int) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	rec, err := readRecord(v.d.layout.node(v.u.id, ordinal))
	if err != nil || rec == nil {
		return true // there is nothing to be known
	}
	eng, node, err := v.d.knownNode(ctx, rec)
	if err != nil {
		return true
	}
	err = eng.Ping(ctx, node)
	return err == nil || errors.Is(err, engine.ErrStarting) || errors.Is(err, engine.ErrAuthentication)
}

func (v *vigil) standing(ctx context.Context, m *member) {
	rec, err := readRecord(v.d.layout.node(m.id, m.ordinal))
	if err != nil || rec == nil || !rec.Bootstrapped {
		return
	}
	eng, node, err := v.d.knownNode(ctx, rec)
	if err != nil {
		return
	}
	// An error is remembered as the node's problem.
	_, _ = askStanding(ctx, v.d, m, eng, node)
}

// hangs tells that the server was found to be there but not to answer.
func (m *member) hangs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hung
}

func (m *member) setHangs(hangs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hung = hangs
}

// isUndrainable tells that the files the server left were tried to be drained, in vain.
func (m *member) isUndrainable() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.undrainable
}

func (m *member) setUndrainable() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.undrainable = true
}

// maxFailedStarts is how many starts of a server may end before it has answered:
// then its data isn't worth another while a node has it too.
const maxFailedStarts = 3

// ended counts an end that came before the server's first answer.
func (m *member) ended() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.pinged.IsZero() {
		m.failedStarts = 0
		return
	}
	m.failedStarts++
}

// startFailed counts a start that came to nothing.
func (m *member) startFailed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failedStarts++
}

// markUnstartable records that the primary's server could not be started at all.
func (m *member) markUnstartable() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failedStarts = maxFailedStarts
}

// isUnstartable reports whether restarting the server is of no use.
func (m *member) isUnstartable() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failedStarts >= maxFailedStarts
}
