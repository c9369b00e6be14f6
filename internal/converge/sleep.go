package converge

import (
	"context"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// sleepingSince is since when a cluster was seen to sleep; nil when it doesn't.
func sleepingSince(seen platform.Observed) *time.Time {
	if seen.SleepingSince.IsZero() {
		return nil
	}
	return &seen.SleepingSince
}

// sleepChanged reports whether the row says otherwise of a cluster's sleep than what was seen.
func sleepChanged(c cluster.Cluster, seen platform.Observed) bool {
	now := sleepingSince(seen)
	if c.SleepingSince == nil || now == nil {
		return c.SleepingSince != now
	}
	return !c.SleepingSince.Equal(*now)
}

// tellSleep tells once that a database fell asleep, or woke, and why.
func (r *repair) tellSleep(ctx context.Context) error {
	if !r.seen.Exists || !sleepChanged(r.c, r.seen) {
		return nil
	}
	since := sleepingSince(r.seen)
	action, message := operation.Woke, wokenFor(r.seen.WokenFor)
	if since != nil {
		action, message = operation.FellAsleep, fmt.Sprintf("Nobody was connected for %d min: the database sleeps until somebody connects.", r.c.AutoSuspend)
	}
	err := r.Store.InTx(ctx, func(tx *store.Tx) error {
		if told, err := tx.RecordSleep(ctx, r.c.ID, since); err != nil || !told {
			return err
		}
		return notify(ctx, tx, r.c, action, message)
	})
	if err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	r.c.SleepingSince = since
	return nil
}

func wokenFor(why string) string {
	if why == "" {
		return "The database woke."
	}
	return fmt.Sprintf("The database woke: it was needed for %s.", why)
}
