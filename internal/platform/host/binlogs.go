package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
)

// archivePosition is the file that says up to where a cluster's primary was archived.
// Without it everything that the primary still has is uploaded again.
func (l layout) archivePosition(id cluster.ID) string {
	return filepath.Join(l.cluster(id), "handed.json")
}

// archiveTimeout bounds how long one cluster can hold the others up. What it has
// uploaded by then counts.
const archiveTimeout = 5 * time.Minute

// archiveBinlogs uploads the primary's binary logs, and purges those uploaded from the
// replicas.
func (d *Driver) archiveBinlogs(ctx context.Context, want platform.Wanted, top state.Topology, eng engine.Feeder, to platform.ArchiveSink) error {
	ctx, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	node, running, err := d.runningNode(ctx, want, top, top.Primary)
	if err != nil || !running {
		return err
	}
	was, err := d.readArchivePosition(want.ID)
	if err != nil {
		return err
	}
	failpoint.Here("host: before upload")
	now, err := eng.ArchiveBinlogs(ctx, node, was, to)
	failpoint.Here("host: uploaded")
	if now != was {
		err = errors.Join(err, d.saveArchivePosition(want.ID, now))
	}
	if err != nil {
		return fmt.Errorf("archive what node %d of cluster %d has written: %w", top.Primary, want.ID, err)
	}
	var errs []error
	for _, ordinal := range top.Replicas() {
		node, running, err := d.runningNode(ctx, want, top, ordinal)
		if err == nil && running {
			err = eng.PurgeBinlogs(ctx, node, now)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// runningNode is a node as its driver needs it, and whether its server runs and is
// the cluster's own.
func (d *Driver) runningNode(ctx context.Context, want platform.Wanted, top state.Topology, ordinal int) (engine.Node, bool, error) {
	ns := d.clusterState(want.ID).node(ordinal)
	if !ns.running() {
		return engine.Node{}, false, nil
	}
	nr, err := d.newNodeReconciler(ctx, d.keychain(d.clusterState(want.ID)), want, top, ordinal)
	if err != nil || nr.rec == nil || !nr.rec.Bootstrapped {
		return engine.Node{}, false, err
	}
	nr.node.Installation = d.installation(nr.rec.Installation)
	return nr.node, true, nil
}

func (d *Driver) readArchivePosition(id cluster.ID) (engine.ArchivePosition, error) {
	p, _, err := state.Read[engine.ArchivePosition](d.layout.archivePosition(id))
	return p, err
}

func (d *Driver) saveArchivePosition(id cluster.ID, p engine.ArchivePosition) error {
	return state.Write(d.layout.archivePosition(id), p)
}
