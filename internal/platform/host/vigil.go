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
	pingMisses = 3 // a primary that missed as many answers in a row hangs
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
	// stopped is since when the primary's process has been stopped.
	stopped time.Time
	asked   time.Time
	// asking tells that servers are being asked; misses counts pings in vain.
	asking atomic.Bool
	misses atomic.Int32
}

func (d *Driver) watchOver(u *unit) {
	v := &vigil{d: d, u: u}
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
		}
	}
}

func (v *vigil) look(top topology) {
	m := v.u.member(top.Primary)
	p := m.process()
	if p == nil || !p.Running() {
		v.stopped = time.Time{}
		v.misses.Store(0)
		return // its end is seen by watch
	}
	now := v.d.o.Now()
	switch {
	case !p.Stopped():
		v.stopped = time.Time{}
	case v.stopped.IsZero():
		v.stopped = now
	}
	dead := !v.stopped.IsZero() && now.Sub(v.stopped) >= stoppedFor || v.misses.Load() >= pingMisses
	if !v.d.hasData(v.d.layout.dataOf(v.u.id, top.Primary)) || dead {
		m.setHangs(dead)
		v.stopped = time.Time{}
		v.misses.Store(0)
		v.u.makeWay()
		v.d.recover(v.u, m, p)
		return
	}
	if now.Sub(v.asked) >= pingEvery && v.asking.CompareAndSwap(false, true) {
		v.asked = now
		v.d.spawn(func() {
			defer v.asking.Store(false)
			v.ask(top, p)
		})
	}
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
		_, at := m.lastStanding()
		if !m.running() || m.isRebuilding() || v.d.o.Now().Sub(at) < standingFresh {
			continue
		}
		before := m.readable()
		v.standing(ctx, m)
		changed = changed || before != m.readable() || ordinal != top.Primary && m.hopeless(v.d.o.Now()) != ""
	}
	if err := v.d.saveStandings(v.u, top); err != nil {
		v.d.log.Warn("tell how nodes stand", "cluster_id", v.u.id, "error", err)
	}
	if changed {
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

// startChances is how many starts of a server may end before it has answered:
// then its data isn't worth another while a node has it too.
const startChances = 3

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

// startedInVain notes that the primary's server couldn't be started at all.
func (m *member) startedInVain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failedStarts = startChances
}

// startsInVain tells whether starting the server again is of no use.
func (m *member) startsInVain() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failedStarts >= startChances
}

// recover is what follows the end of a primary that has replicas: it needs
// nobody's leave, and neither the store nor the API.
func (d *Driver) recover(u *unit, m *member, ended *process.Process) {
	ctx, cancel := context.WithTimeout(d.quit, passTime)
	defer cancel()
	if err := u.take(ctx); err != nil {
		return
	}
	err := d.recoverNow(ctx, u, m, ended)
	u.give()
	if err != nil && d.quit.Err() == nil {
		d.log.Warn("replace the primary", "cluster_id", u.id, "node", m.ordinal, "error", err)
	}
	d.change(u.id)
}

func (d *Driver) recoverNow(ctx context.Context, u *unit, m *member, ended *process.Process) error {
	top, err := d.topology(u.id)
	if err != nil || top.Suspended || top.Restoring || top.Primary != m.ordinal || m.process() != ended {
		return err // somebody else has dealt with it
	}
	want, err := d.known(ctx, u.id, top)
	if err != nil {
		return err
	}
	p, err := d.newPass(u, want)
	if err != nil {
		return err
	}
	if err := p.havePrimary(ctx); err != nil {
		return err
	}
	// The old primary comes back as a replica.
	return p.roll(ctx)
}
