package converge

import (
	"context"

	"steward/internal/wait"
)

// orphans clears away what no database owns, at the start and now and then.
func (k *Keeper) orphans(ctx context.Context) {
	wait.Repeat(ctx, k.Orphans, func() {
		if err := k.Driver.Reconcile(ctx, k.Store.ClustersForWork); err != nil && ctx.Err() == nil {
			k.Logger.WarnContext(ctx, "clear orphans away", "error", err)
		}
	})
}
