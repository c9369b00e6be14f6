package converge

import (
	"context"
	"fmt"

	"steward/internal/failpoint"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// Shares of the plan's disk at which the guard closes and opens (decisions.md §5).
const (
	fullPercent  = 95
	spacePercent = 90
)

// guardDisk keeps a database from outgrowing its plan: read-only at 95 %,
// writable again below 90 %.
func (k *Keeper) guardDisk(ctx context.Context, want platform.Wanted, seen *platform.Observed) error {
	if seen.UsedBytes == nil || !seen.Serving {
		return nil
	}
	on, due := guard(*seen.UsedBytes, want.Plan.DiskBytes(), seen.ReadOnly)
	if !due {
		return nil
	}
	failpoint.Here("converge: before read-only")
	if err := k.Driver.SetReadOnly(ctx, want, on); err != nil {
		return fmt.Errorf("disk guard: %w", err)
	}
	seen.ReadOnly = on
	message := fmt.Sprintf("%d %% of the plan's %d GB are in use: the database is read-only until less than %d %% are, or until it has a bigger plan.",
		*seen.UsedBytes*100/want.Plan.DiskBytes(), want.Plan.DiskGB(), spacePercent)
	if !on {
		message = "There is space again: the database takes writes."
	}
	return k.Store.InTx(ctx, func(tx *store.Tx) error {
		return notify(ctx, tx, want.Cluster, operation.LowDiskSpace, message)
	})
}

// guard decides: whether the guard should be on, and whether that is a change.
func guard(used, limit int64, isOn bool) (on, due bool) {
	switch {
	case limit <= 0:
		return false, isOn
	case !isOn && used*100 >= limit*fullPercent:
		return true, true
	case isOn && used*100 < limit*spacePercent:
		return false, true
	}
	return isOn, false
}
