package converge

import "context"

// SeeToMaintenance is a whole round over the databases' windows, beside the keeper's own.
func (k *Keeper) SeeToMaintenance(ctx context.Context) error { return k.seeToMaintenance(ctx) }
