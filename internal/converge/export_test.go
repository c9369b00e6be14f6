package converge

import (
	"context"

	"steward/internal/cluster"
)

// SeeToMaintenance is a whole round over the databases' windows, beside the keeper's own.
func (k *Keeper) SeeToMaintenance(ctx context.Context) error { return k.seeToMaintenance(ctx) }

// DropDeleted removes what is left of a deleted database, as far as it may.
func (k *Keeper) DropDeleted(ctx context.Context, listed cluster.Cluster) error {
	return k.dropDeleted(ctx, listed)
}
