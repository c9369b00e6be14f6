package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/host/files"
	"steward/internal/platform/host/plan"
	"steward/internal/platform/host/state"
)

// rebuildTimeout bounds the copying of a primary's data to a replica.
const rebuildTimeout = 6 * time.Hour

func (ns *nodeState) isRebuilding() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.rebuilding
}

func (ns *nodeState) isDiverged() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.diverged
}

// rebuild has a replica given a new copy of the data, unless no server could be
// started with such a copy.
func (cr *clusterReconciler) rebuild(ctx context.Context, ns *nodeState, reason string) error {
	if ns.isRebuilding() {
		return cr.d.beginRebuild(cr.cs, ns, cr.want, reason)
	}
	err := cr.checkStoppable(ctx)
	blocked, _ := errors.AsType[*platform.CustomerError](err)
	ns.setRebuildBlocker(blocked)
	if err != nil {
		return fmt.Errorf("node %d isn't given a new copy of the data, though %s: %w", ns.ordinal, reason, err)
	}
	return cr.d.beginRebuild(cr.cs, ns, cr.want, reason)
}

func (ns *nodeState) setRebuildBlocker(h *platform.CustomerError) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.blockedBy = ""
	if h != nil {
		ns.blockedBy = h.Reason
	}
}

func (ns *nodeState) rebuildBlocker() string {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.blockedBy
}

// beginRebuild begins to give a replica a new copy of the data, beside
// everything else. It returns at once; the error says that it goes on, or when
// it is tried again.
func (d *Driver) beginRebuild(cs *clusterState, ns *nodeState, want platform.Wanted, reason string) error {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	goingOn := fmt.Errorf("node %d: %w: %s", ns.ordinal, platform.ErrCopying, reason)
	if ns.rebuilding {
		return goingOn
	}
	if d.o.Now().Before(ns.rebuildDue) {
		return fmt.Errorf("node %d is soon given another copy of the data: %s", ns.ordinal, reason)
	}
	ns.rebuilding = true
	d.log.Warn("rebuilding a replica", "cluster_id", cs.id, "node", ns.ordinal, "reason", reason)
	d.spawn(func() {
		ctx, cancel := context.WithTimeout(d.quit, rebuildTimeout)
		defer cancel()
		began := time.Now()
		err := d.rebuild(ctx, cs, ns, want)
		ns.rebuilt(err, d.o.Now())
		if err != nil {
			d.log.Warn("rebuild replica", "cluster_id", cs.id, "node", ns.ordinal, "error", err)
		} else {
			d.log.Info("replica was rebuilt", "cluster_id", cs.id, "node", ns.ordinal, "ms", milliseconds(time.Since(began)))
		}
		d.notifyChange(cs.id)
	})
	return goingOn
}

// rebuilt notes how it went: failures are followed by ever longer pauses.
func (ns *nodeState) rebuilt(err error, now time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.rebuilding = false
	if err == nil {
		ns.rebuilds, ns.failedStarts, ns.diverged, ns.difference, ns.disconnectedSince = 0, 0, false, "", time.Time{}
		return
	}
	ns.rebuilds++
	ns.rebuildDue = now.Add(min(time.Second<<min(ns.rebuilds, 10), time.Minute))
}

// rebuild copies the primary's data while the primary serves, then puts the
// copy in the place of the replica's.
func (d *Driver) rebuild(ctx context.Context, cs *clusterState, ns *nodeState, want platform.Wanted) error {
	top, err := d.topology(cs.id)
	if err != nil {
		return err
	}
	primary, err := d.newNodeReconciler(ctx, d.keychain(cs), want, top, top.Primary)
	if err != nil {
		return err
	}
	if !primary.ns.running() {
		return errNoServer
	}
	copied := filepath.Join(primary.node.Tmp, fmt.Sprintf("seed-%d", ns.ordinal))
	defer os.RemoveAll(copied)
	if err := os.RemoveAll(copied); err != nil {
		return fmt.Errorf("remove an older copy: %w", err)
	}
	user := d.user(want.Port)
	if err := files.MakeFolder(copied, 0o700, user, user); err != nil {
		return err
	}
	if err := primary.baseBackup(ctx, cs, copied); err != nil {
		return fmt.Errorf("copy the data of node %d: %w", top.Primary, err)
	}
	ctx, unlock, err := cs.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := d.topology(cs.id)
	if err != nil {
		return err
	}
	if ns.ordinal >= now.Size {
		return fmt.Errorf("the cluster has %d node(s) now", now.Size)
	}
	if now.Primary != top.Primary || now.Rests() {
		return fmt.Errorf("node %d isn't the primary any more", top.Primary)
	}
	nr, err := d.newNodeReconciler(ctx, d.keychain(cs), want, now, ns.ordinal)
	if err != nil {
		return err
	}
	return nr.installCopy(ctx, primary, copied)
}

// installCopy puts a copy of the primary's data in the place of the replica's
// and starts it.
func (nr *nodeReconciler) installCopy(ctx context.Context, primary *nodeReconciler, copied string) error {
	nr.rec = &state.Node{
		Cluster: nr.want.ID, Ordinal: nr.ns.ordinal, Engine: nr.want.Engine, Port: nr.want.Port,
		Installation: primary.rec.Installation, Boot: nr.d.boot, Encrypted: nr.want.Encrypted,
	}
	nr.inst = primary.inst
	nr.node.Installation = primary.inst
	if err := nr.makeFolders(); err != nil {
		return err
	}
	if err := nr.discard(ctx); err != nil {
		return err
	}
	if err := nr.copyKeyring(ctx, primary); err != nil {
		return err
	}
	if err := nr.save(false); err != nil {
		return err
	}
	if err := os.Rename(copied, nr.node.Data); err != nil {
		return fmt.Errorf("put the copy in place: %w", err)
	}
	failpoint.Here("host: copy in place")
	if err := state.RemoveTemplate(nr.dir); err != nil {
		return err
	}
	settings := nr.settings()
	nr.rec.Bootstrapped, nr.rec.Applied = true, &settings
	nr.ns.setDiverged(false)
	if err := nr.runWithCertificate(ctx, plan.Files, plan.Start, plan.Ready, plan.Role); err != nil {
		return err
	}
	return nr.save(true)
}

// copyKeyring seals the primary's keyring as the replica's too: the copy was
// encrypted with its keys.
func (nr *nodeReconciler) copyKeyring(ctx context.Context, primary *nodeReconciler) error {
	if !nr.want.Encrypted {
		return nil
	}
	content, err := primary.eng.KeyringContent(primary.node)
	if err != nil {
		return err
	}
	return nr.takeKeyring(ctx, content)
}
