package host

import (
	"context"
	"errors"
	"time"

	"steward/internal/process"
)

// The pause after a recovery that came to nothing: the first, doubling to the last.
const (
	firstRecoveryPause = 100 * time.Millisecond
	lastRecoveryPause  = 30 * time.Second
	sealTimeout        = 5 * time.Second
)

// recoveryAttempts counts failed recoveries of a cluster.
type recoveryAttempts struct {
	// pending reports whether there is something to recover, failed is how many attempts
	// failed, and due is when to try again.
	pending bool
	failed  int
	due     time.Time
}

// requestRecovery asks the health monitor to recover the cluster.
func (u *unit) requestRecovery() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.recovery.pending = true
}

// recoveryPending reports whether there is something to recover now.
func (u *unit) recoveryPending(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.recovery.pending && !now.Before(u.recovery.due)
}

// recoveryDue reports whether the last recovery was long enough ago to try another.
func (u *unit) recoveryDue(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !now.Before(u.recovery.due)
}

// recordRecovery records the result of a recovery.
func (u *unit) recordRecovery(err error, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		u.recovery = recoveryAttempts{}
		return
	}
	pause := min(firstRecoveryPause<<min(u.recovery.failed, 10), lastRecoveryPause)
	u.recovery = recoveryAttempts{pending: true, failed: u.recovery.failed + 1, due: now.Add(pause)}
}

// prepareFailover has all remembered that a failover needs, for the day when the
// store is away.
func (d *Driver) prepareFailover(u *unit) {
	for pause := firstRecoveryPause; ; pause = min(2*pause, lastRecoveryPause) {
		top, err := d.topology(u.id)
		if err != nil || top.Members == 1 {
			return
		}
		rec, err := readRecord(d.layout.node(u.id, top.Primary))
		if err != nil || rec == nil {
			return // Apply will make it, and has all remembered first
		}
		err = d.recall(d.quit, u, rec.Encrypted, top.Members)
		if err == nil || d.quit.Err() != nil {
			return
		}
		d.log.Warn("prepare for a failover", "cluster_id", u.id, "error", err)
		if sleep(d.quit, pause) != nil {
			return
		}
	}
}

// recover is what follows the end of a primary that has replicas: it needs
// nobody's leave, and neither the store nor the API. What fails is tried again by
// the vigil.
func (d *Driver) recover(u *unit, m *member, ended *process.Process) {
	limited, cancel := context.WithTimeout(d.quit, passTime)
	defer cancel()
	ctx, give, err := u.occupyFirst(limited)
	if err != nil {
		u.requestRecovery()
		return
	}
	// Somebody else may have dealt with it.
	if p := m.process(); p == nil || p == ended || !p.Running() {
		err = d.recoverNow(ctx, u)
	}
	give()
	d.endRecovery(u, err)
}

// recoverAgain goes on with what couldn't be done, when nobody else is at work.
func (d *Driver) recoverAgain(u *unit) {
	if !u.recoveryPending(d.o.Now()) {
		return
	}
	limited, cancel := context.WithTimeout(d.quit, passTime)
	ctx, give, ok := u.tryOccupy(limited)
	if !ok {
		cancel()
		return
	}
	d.spawn(func() {
		defer cancel()
		err := d.recoverNow(ctx, u)
		give()
		d.endRecovery(u, err)
	})
}

// recoverNow brings a cluster back the way it was, from this machine's records.
func (d *Driver) recoverNow(ctx context.Context, u *unit) error {
	top, err := d.topology(u.id)
	if err != nil || top.Members == 1 || top.Suspended || top.Restoring {
		return err
	}
	if born, err := d.born(u.id, top); err != nil || !born {
		return err
	}
	want, err := d.known(ctx, u.id, top)
	if err != nil {
		return err
	}
	p, err := d.newPass(u, want)
	if err != nil {
		return err
	}
	p.keys.offline = true
	if err := p.ensurePrimary(ctx); err != nil {
		return err
	}
	return errors.Join(p.ensureReplicas(ctx), p.setRoute(ctx))
}

// ensureReplicas makes all replicas follow the primary, the old primary among them.
// It leaves those alone that do; everything else is up to Apply.
func (p *pass) ensureReplicas(ctx context.Context) error {
	var errs []error
	for _, ordinal := range p.top.replicas() {
		j, err := p.job(ctx, ordinal)
		if err != nil {
			return err
		}
		if reason := p.lost(j); reason != "" {
			err = p.rebuild(ctx, j.m, reason)
		} else if !j.m.running() {
			err = p.replica(ctx, ordinal)
		} else if s, failed := j.standing(ctx); failed != nil || !s.Streaming {
			err = p.repoint(ctx, ordinal)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// endRecovery does what needs the store, now that nobody waits, and tells.
func (d *Driver) endRecovery(u *unit, err error) {
	if err == nil {
		ctx, cancel := context.WithTimeout(d.quit, sealTimeout)
		defer cancel()
		err = d.sealKeyrings(ctx, u)
	}
	u.recordRecovery(err, d.o.Now())
	if err != nil && d.quit.Err() == nil {
		d.log.Warn("recover the cluster", "cluster_id", u.id, "error", err)
	}
	d.tellStandings(u)
	d.change(u.id)
}
