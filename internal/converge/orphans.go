package converge

import (
	"context"
	"time"
)

// orphans clears away what no database owns, at the start and now and then.
func (k *Keeper) orphans(ctx context.Context) {
	tick := time.NewTicker(k.Orphans)
	defer tick.Stop()
	for {
		if err := k.Driver.Reconcile(ctx, k.Store.ClustersForWork); err != nil && ctx.Err() == nil {
			k.Logger.WarnContext(ctx, "clear orphans away", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
