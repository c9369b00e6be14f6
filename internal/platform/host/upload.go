package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
)

// archiveDir is where a node's server puts files that wait to be uploaded. It
// counts towards the plan's disk.
func (l layout) archiveDir(id cluster.ID, ordinal int) string {
	return filepath.Join(l.node(id, ordinal), "tmp", "wal")
}

// archivePosition is the file that says up to where a cluster was archived, for engines
// that keep count. Without it everything that is still there is uploaded again.
func (l layout) archivePosition(id cluster.ID) string {
	return filepath.Join(l.cluster(id), "handed.json")
}

// Upload implements platform.ContinuousArchiver.
func (d *Driver) Upload(ctx context.Context, want platform.Wanted, to platform.ArchiveSink) error {
	cs := d.clusterState(want.ID)
	before := cs.rest()
	if cs.findings().archived {
		cs.archived(d.o.Now())
		return nil
	}
	eng, err := d.engine(want.Engine)
	if err != nil {
		return err
	}
	nodes, err := d.archivedNodes(want)
	if err != nil {
		return err
	}
	was, _, err := state.Read[engine.ArchivePosition](d.layout.archivePosition(want.ID))
	if err != nil {
		return err
	}
	failpoint.Here("host: before upload")
	now, err := eng.Upload(ctx, nodes, was, to)
	failpoint.Here("host: uploaded")
	if now != was {
		err = errors.Join(err, state.Write(d.layout.archivePosition(want.ID), now))
	}
	if err != nil {
		return fmt.Errorf("archive what cluster %d has written: %w", want.ID, err)
	}
	cs.archived(d.o.Now())
	cs.find(before, func(f *asleepFindings) { f.archived = true })
	return nil
}

// archived notes that all was in the archive that was finished.
func (cs *clusterState) archived(at time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.archivedAt = at
}

// usuallyArchived is how often everything is archived at least, as a rule.
const usuallyArchived = time.Minute

// archiveLag is how long ago all was in the archive, 0 while that is as usual. It counts from when it was first asked for.
func (cs *clusterState) archiveLag(now time.Time) time.Duration {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.archivedAt.IsZero() {
		cs.archivedAt = now
	}
	if lag := now.Sub(cs.archivedAt); lag > usuallyArchived {
		return lag
	}
	return 0
}

// archivedNodes are those of a cluster, the primary first.
func (d *Driver) archivedNodes(want platform.Wanted) ([]engine.ArchivedNode, error) {
	top, err := d.topology(want.ID)
	if err != nil {
		return nil, err
	}
	var nodes []engine.ArchivedNode
	for _, ordinal := range append([]int{top.Primary}, top.Replicas()...) {
		rec, err := state.ReadNode(d.layout.node(want.ID, ordinal))
		if err != nil {
			return nil, err
		}
		if rec == nil {
			continue
		}
		n := d.engineNode(want, d.installation(rec.Installation), top, ordinal)
		n.ArchiveDir = d.layout.archiveDir(want.ID, ordinal) // something may wait there that isn't archived any more
		running := func(ctx context.Context) (engine.Node, bool, error) { return d.runningNode(ctx, want, top, ordinal) }
		nodes = append(nodes, engine.ArchivedNode{Node: n, Running: running})
	}
	return nodes, nil
}

// runningNode is a node as its driver needs it, and whether its server runs on the
// cluster's own data and is archived.
func (d *Driver) runningNode(ctx context.Context, want platform.Wanted, top state.Topology, ordinal int) (engine.Node, bool, error) {
	ns := d.clusterState(want.ID).node(ordinal)
	if !d.o.Continuous || top.Restoring || top.Rests() || !ns.running() {
		return engine.Node{}, false, nil
	}
	nr, err := d.newNodeReconciler(ctx, d.keychain(d.clusterState(want.ID)), want, top, ordinal)
	if err != nil || nr.rec == nil || !nr.rec.Bootstrapped {
		return engine.Node{}, false, err
	}
	nr.node.Installation = d.installation(nr.rec.Installation)
	return nr.node, true, nil
}

// Prunable implements platform.ContinuousArchiver. Nothing is, of an engine that isn't
// here any more.
func (d *Driver) Prunable(of cluster.Engine, name string) bool {
	eng, err := d.engine(of)
	return err == nil && eng.Prunable(name)
}

// clearArchiveDirs drops what was archived of data that is replaced: timeline
// histories don't say which data they are of. The servers have ended.
func (nr *nodeReconciler) clearArchiveDirs() error {
	for ordinal := range nr.top.Size {
		if err := os.RemoveAll(nr.d.layout.archiveDir(nr.want.ID, ordinal)); err != nil {
			return fmt.Errorf("clear the archive directory of node %d: %w", ordinal, err)
		}
	}
	return nil
}
