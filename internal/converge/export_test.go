package converge

import (
	"context"
	"time"

	"steward/internal/cluster"
)

// SeeToMaintenance is a whole round over the databases' windows, beside the keeper's own, of databases as they are now.
func (k *Keeper) SeeToMaintenance(ctx context.Context) error {
	k.listing.mu.Lock()
	k.listing.at = time.Time{}
	k.listing.mu.Unlock()
	return k.seeToMaintenance(ctx)
}

// Maintain does what is due of a database as it was listed.
func (k *Keeper) Maintain(ctx context.Context, listed cluster.Cluster) error {
	return k.maintain(ctx, listed)
}

// DropDeleted removes what is left of a deleted database, as far as it may.
func (k *Keeper) DropDeleted(ctx context.Context, listed cluster.Cluster) error {
	return k.dropDeleted(ctx, listed)
}
