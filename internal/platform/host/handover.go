package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
)

// handed is the file that says up to where a cluster's primary has handed over.
// Without it everything that the primary still has is shipped again.
func (l layout) handed(id cluster.ID) string { return filepath.Join(l.cluster(id), "handed.json") }

// handOverTime bounds how long one cluster can hold the others up. What it has
// shipped by then counts.
const handOverTime = 5 * time.Minute

// shipAsked has the primary hand over, and the replicas let go of the same.
func (d *Driver) shipAsked(ctx context.Context, want platform.Wanted, top topology, eng engine.Feeder, to platform.ArchiveSink) error {
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	node, running, err := d.runningNode(ctx, want, top, top.Primary)
	if err != nil || !running {
		return err
	}
	was, err := d.readHanded(want.ID)
	if err != nil {
		return err
	}
	failpoint.Here("host: before shipping")
	now, err := eng.ArchiveBinlogs(ctx, node, was, to)
	failpoint.Here("host: shipped")
	if now != was {
		err = errors.Join(err, d.saveHanded(want.ID, now))
	}
	if err != nil {
		return fmt.Errorf("ship what node %d of cluster %d has written: %w", top.Primary, want.ID, err)
	}
	var errs []error
	for _, ordinal := range top.replicas() {
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
func (d *Driver) runningNode(ctx context.Context, want platform.Wanted, top topology, ordinal int) (engine.Node, bool, error) {
	m := d.unit(want.ID).member(ordinal)
	if !m.running() {
		return engine.Node{}, false, nil
	}
	j, err := d.newJob(ctx, d.unit(want.ID), want, top, ordinal)
	if err != nil || j.rec == nil || !j.rec.Bootstrapped {
		return engine.Node{}, false, err
	}
	j.node.Installation = d.installation(j.rec.Installation)
	return j.node, true, nil
}

func (d *Driver) readHanded(id cluster.ID) (engine.ArchivePosition, error) {
	var h engine.ArchivePosition
	content, err := os.ReadFile(d.layout.handed(id))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &h)
	}
	if err != nil {
		return h, fmt.Errorf("read up to where cluster %d was shipped: %w", id, err)
	}
	return h, nil
}

func (d *Driver) saveHanded(id cluster.ID, h engine.ArchivePosition) error {
	content, err := json.Marshal(h)
	if err == nil {
		err = writeDurably(d.layout.handed(id), append(content, '\n'))
	}
	if err != nil {
		return fmt.Errorf("note up to where cluster %d was shipped: %w", id, err)
	}
	return nil
}
