package converge

import (
	"context"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/platform"
	"steward/internal/store"
)

// Shares of the plan's disk at which the guard closes and opens (docs/rules.md,
// Databases), and from which on a database is looked at often.
const (
	fullPercent  = 95
	spacePercent = 90
	nearPercent  = 80
	nearEvery    = 2 * time.Second
)

// guardDisk keeps a database from outgrowing its plan: read-only at 95 %,
// writable again below 90 %. The row, written last, says which of both it is:
// a crash in between repeats the change, and its event isn't lost.
func (r *repair) guardDisk(ctx context.Context, want platform.Wanted) error {
	on, due := guard(r.seen.UsedBytes, want.Plan.DiskBytes(), r.c.ReadOnly)
	if !due || !r.seen.Serving {
		return nil
	}
	failpoint.Here("converge: before read only")
	if err := r.Driver.SetReadOnly(ctx, want, on); err != nil {
		return fmt.Errorf("disk guard: %w", err)
	}
	failpoint.Here("converge: after read only")
	r.seen.ReadOnly = on
	message := "There is space again: the database takes writes."
	if on {
		message = fmt.Sprintf("%d %% of the plan's %d GB are in use: the database is read-only until less than %d %% are, or until it has a bigger plan.",
			*r.seen.UsedBytes*100/want.Plan.DiskBytes(), want.Plan.DiskGB(), spacePercent)
	}
	err := r.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.RecordObserved(ctx, r.c.ID, keep(r.c, r.seen)); err != nil {
			return err
		}
		if err := notify(ctx, tx, r.c, operation.LowDiskSpace, message); err != nil {
			return err
		}
		if on {
			return r.Issues.Raise(ctx, tx, r.c.Account, outage.OfDisk(r.c.ID), r.c.Label, message, r.Now())
		}
		return r.Issues.Settle(ctx, tx, r.c.Account, outage.OfDisk(r.c.ID), message, r.Now())
	})
	if err != nil {
		return fmt.Errorf("record the disk guard: %w", err)
	}
	return nil
}

// guard decides: whether the guard should be on, and whether that is a change.
func guard(used *int64, limit int64, isOn bool) (on, due bool) {
	switch {
	case used == nil || limit <= 0:
		return isOn, false
	case !isOn && *used >= limit/100*fullPercent:
		return true, true
	case isOn && *used < limit/100*spacePercent:
		return false, true
	}
	return isOn, false
}

// sleepingPace is how many times longer looks at a database are apart that sleeps: the platform tells when it wakes.
const sleepingPace = 6

// pace is when to look again at a database that is well: the fuller, the sooner.
func (k *Keeper) pace(c cluster.Cluster, seen platform.Observed) time.Duration {
	if !seen.SleepingSince.IsZero() {
		return sleepingPace * k.Every
	}
	plan, ok := k.Catalog.Plan(c.Type)
	if ok && seen.UsedBytes != nil && (seen.ReadOnly || *seen.UsedBytes >= plan.DiskBytes()/100*nearPercent) {
		return min(nearEvery, k.Every)
	}
	return k.Every
}
