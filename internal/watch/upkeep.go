package watch

import (
	"context"
	"errors"
	"time"

	"steward/internal/wait"
)

// upkeepEvery is how often partitions are looked after and hours summed up.
const upkeepEvery = 5 * time.Minute

// upkeep keeps the history in shape. Every server does; what one has done is
// nothing to do for the next.
func (w *Watcher) upkeep(ctx context.Context) {
	wait.Repeat(ctx, upkeepEvery, func() {
		if err := w.keepHistory(ctx); err != nil && ctx.Err() == nil {
			w.Logger.Warn("The history can't be kept in shape yet.", "error", err)
		}
	})
}

func (w *Watcher) keepHistory(ctx context.Context) error {
	return errors.Join(w.keepChecks(ctx), w.Store.KeepMeasurements(ctx))
}

func (w *Watcher) keepChecks(ctx context.Context) error {
	if err := w.Store.KeepPartitions(ctx); err != nil {
		return err
	}
	hours, err := w.Store.UnrolledHours(ctx)
	if err != nil {
		return err
	}
	for _, hour := range hours {
		if err := w.Store.RollUp(ctx, hour); err != nil {
			return err
		}
	}
	return nil
}
