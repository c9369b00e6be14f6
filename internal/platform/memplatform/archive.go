package memplatform

import (
	"context"
	"maps"
	"slices"
	"strings"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// Permanent begins the names of files that are never pruned.
const Permanent = "permanent."

// Prunable implements platform.ContinuousArchiver.
func (d *Driver) Prunable(_ cluster.Engine, name string) bool {
	return !strings.HasPrefix(name, Permanent)
}

// ArchiveID is that of all files in memory.
const ArchiveID = "memory"

// Upload implements platform.ContinuousArchiver.
func (d *Driver) Upload(ctx context.Context, want platform.Wanted, to platform.ArchiveSink) error {
	id := want.ID
	c, ok := d.world.Cluster(id)
	if !ok {
		return nil
	}
	if c.Overflowed {
		if err := to.ReportGap(ctx); err != nil {
			return err
		}
		if err := d.change(id, func(c *Cluster) { c.Overflowed = false }); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Unarchived)) {
		if err := to.Put(ctx, ArchiveID, name, strings.NewReader(c.Unarchived[name])); err != nil {
			return err
		}
		err := d.change(id, func(c *Cluster) {
			c.Unarchived = maps.Clone(c.Unarchived) // others may be reading a copy
			delete(c.Unarchived, name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
