package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/host/archive"
	"steward/internal/platform/host/state"
)

var _ platform.ContinuousArchiver = (*Driver)(nil)

// archiveDir is where a node's server puts WAL segments that wait to be uploaded. It
// counts towards the plan's disk.
func (l layout) archiveDir(id cluster.ID, ordinal int) string {
	return filepath.Join(l.node(id, ordinal), "tmp", "wal")
}

// Upload implements platform.ContinuousArchiver.
func (d *Driver) Upload(ctx context.Context, want platform.Wanted, to platform.ArchiveSink) error {
	eng, err := d.engine(want.Engine)
	if err != nil {
		return err
	}
	top, err := d.topology(want.ID)
	if err != nil {
		return err
	}
	switch e := eng.(type) {
	case engine.Fetcher:
		return d.uploadArchiveDirs(ctx, want.ID, top, e, to)
	case engine.Feeder:
		if d.o.Continuous && !top.Restoring && !top.Suspended {
			return d.archiveBinlogs(ctx, want, top, e, to)
		}
	}
	return nil
}

// Prunable implements platform.ContinuousArchiver. Nothing is, of an engine that isn't
// here any more.
func (d *Driver) Prunable(of cluster.Engine, name string) bool {
	eng, err := d.recoverer(of)
	return err == nil && eng.Prunable(name)
}

// uploadArchiveDirs uploads those of all nodes: what a primary couldn't upload before it
// died, the others have as well.
func (d *Driver) uploadArchiveDirs(ctx context.Context, id cluster.ID, top state.Topology, eng engine.Fetcher, to platform.ArchiveSink) error {
	for _, ordinal := range append([]int{top.Primary}, top.Replicas()...) {
		if err := d.uploadArchiveDir(ctx, id, ordinal, eng, to); err != nil {
			return fmt.Errorf("archive what node %d of cluster %d has written: %w", ordinal, id, err)
		}
	}
	return nil
}

func (d *Driver) uploadArchiveDir(ctx context.Context, id cluster.ID, ordinal int, eng engine.Fetcher, to platform.ArchiveSink) error {
	rec, err := state.ReadNode(d.layout.node(id, ordinal))
	if err != nil || rec == nil {
		return err
	}
	identify := func(ctx context.Context, name string, head []byte) (archiveID string, keep bool, err error) {
		return eng.ArchiveIDOf(ctx, name, head, d.layout.dataOf(id, ordinal))
	}
	return archive.Upload(ctx, d.layout.archiveDir(id, ordinal), identify, to)
}

// recoverer is the part of an engine's driver that continuous archiving needs.
func (d *Driver) recoverer(of cluster.Engine) (engine.Recoverer, error) {
	eng, err := d.engine(of)
	if err != nil {
		return nil, err
	}
	r, ok := eng.(engine.Recoverer)
	if !ok {
		return nil, fmt.Errorf("databases of %s can't be recovered to a point in time", of)
	}
	return r, nil
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
