package memplatform

import (
	"context"
	"maps"
	"slices"
	"strings"

	"steward/internal/platform"
)

var _ platform.Spooler = (*Driver)(nil)

// Lineage is that of all files in memory.
const Lineage = "memory"

// Ship implements platform.Spooler.
func (d *Driver) Ship(ctx context.Context, want platform.Wanted, to platform.Shipment) error {
	id := want.ID
	c, ok := d.world.Cluster(id)
	if !ok {
		return nil
	}
	if c.Overflowed {
		if err := to.Overflowed(ctx); err != nil {
			return err
		}
		if err := d.change(id, func(c *Cluster) { c.Overflowed = false }); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Spool)) {
		if err := to.Take(ctx, Lineage, name, strings.NewReader(c.Spool[name])); err != nil {
			return err
		}
		err := d.change(id, func(c *Cluster) {
			c.Spool = maps.Clone(c.Spool) // others may be reading a copy
			delete(c.Spool, name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
