package host

import (
	"context"
	"errors"
	"time"

	"steward/internal/platform/host/state"
	"steward/internal/process"
	"steward/internal/wait"
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
func (cs *clusterState) requestRecovery() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.recovery.pending = true
}

// recoveryPending reports whether there is something to recover now.
func (cs *clusterState) recoveryPending(now time.Time) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.recovery.pending && !now.Before(cs.recovery.due)
}

// recoveryDue reports whether the last recovery was long enough ago to try another.
func (cs *clusterState) recoveryDue(now time.Time) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return !now.Before(cs.recovery.due)
}

// recordRecovery records the result of a recovery.
func (cs *clusterState) recordRecovery(err error, now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if err == nil {
		cs.recovery = recoveryAttempts{}
		return
	}
	pause := min(firstRecoveryPause<<min(cs.recovery.failed, 10), lastRecoveryPause)
	cs.recovery = recoveryAttempts{pending: true, failed: cs.recovery.failed + 1, due: now.Add(pause)}
}

// prepareFailover has all remembered that a failover needs, for the day when the
// store is away.
func (d *Driver) prepareFailover(cs *clusterState) {
	for pause := firstRecoveryPause; ; pause = min(2*pause, lastRecoveryPause) {
		top, err := d.topology(cs.id)
		if err != nil || top.Size == 1 {
			return
		}
		rec, err := state.ReadNode(d.layout.node(cs.id, top.Primary))
		if err != nil || rec == nil {
			return // Apply will make it, and has all remembered first
		}
		err = d.cacheSecrets(d.quit, cs, rec.Encrypted, top.Size)
		if err == nil || d.quit.Err() != nil {
			return
		}
		d.log.Warn("prepare for a failover", "cluster_id", cs.id, "error", err)
		if wait.Sleep(d.quit, pause) != nil {
			return
		}
	}
}

// recover handles the end of a primary that has replicas. It needs neither the store
// nor the API. The health monitor retries what fails.
func (d *Driver) recover(cs *clusterState, ns *nodeState, ended *process.Process) {
	limited, cancel := context.WithTimeout(d.quit, reconcileTimeout)
	defer cancel()
	ctx, unlock, err := cs.preempt(limited)
	if err != nil {
		cs.requestRecovery()
		return
	}
	// Somebody else may have dealt with it.
	if p := ns.process(); p == nil || p == ended || !p.Running() {
		err = d.recoverNow(ctx, cs)
	}
	unlock()
	d.endRecovery(cs, err)
}

// recoverAgain retries a recovery that is due, unless somebody holds the lock.
func (d *Driver) recoverAgain(cs *clusterState) {
	if !cs.recoveryPending(d.o.Now()) {
		return
	}
	limited, cancel := context.WithTimeout(d.quit, reconcileTimeout)
	ctx, unlock, ok := cs.tryAcquire(limited)
	if !ok {
		cancel()
		return
	}
	d.spawn(func() {
		defer cancel()
		err := d.recoverNow(ctx, cs)
		unlock()
		d.endRecovery(cs, err)
	})
}

// recoverNow brings a cluster back the way it was, from this machine's records.
func (d *Driver) recoverNow(ctx context.Context, cs *clusterState) error {
	top, err := d.topology(cs.id)
	if err != nil || top.Size == 1 || top.Rests() || top.Restoring {
		return err
	}
	if born, err := d.bootstrapped(cs.id, top); err != nil || !born {
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
	cr.keys.offline = true
	if err := cr.ensurePrimary(ctx); err != nil {
		return err
	}
	if err := errors.Join(cr.ensureReplicas(ctx), cr.setRoute(ctx)); err != nil {
		return err
	}
	cr.finishChange()
	return nil
}

// ensureReplicas makes all replicas follow the primary, the old primary among them.
// It leaves those alone that do; everything else is up to Apply.
func (cr *clusterReconciler) ensureReplicas(ctx context.Context) error {
	var errs []error
	for _, ordinal := range cr.top.Replicas() {
		nr, err := cr.nodeReconciler(ctx, ordinal)
		if err != nil {
			return err
		}
		if reason := cr.rebuildReason(nr); reason != "" {
			err = cr.rebuild(ctx, nr.ns, reason)
		} else if !nr.ns.running() {
			err = cr.reconcileReplica(ctx, ordinal)
		} else if s, failed := nr.replicationStatus(ctx); failed != nil || !s.Streaming {
			err = cr.repoint(ctx, ordinal)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// endRecovery does what needs the store, now that nobody waits, and records the result.
func (d *Driver) endRecovery(cs *clusterState, err error) {
	if err == nil {
		ctx, cancel := context.WithTimeout(d.quit, sealTimeout)
		defer cancel()
		err = d.sealKeyrings(ctx, cs)
	}
	cs.recordRecovery(err, d.o.Now())
	if err != nil && d.quit.Err() == nil {
		d.log.Warn("recover the cluster", "cluster_id", cs.id, "error", err)
	}
	d.saveReplication(cs)
	d.notifyChange(cs.id)
}
