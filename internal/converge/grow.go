package converge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// growAgain is how long after a move to the next plan that came to nothing the next is tried.
const growAgain = time.Hour

// errGrown ends the beginning of a move that another server has begun, or that was tried a while ago.
var errGrown = errors.New("it was begun already")

// grow moves a database to the next plan when it is as full as its owner said. It doesn't wait for a window: the disk doesn't,
// either.
func (k *Keeper) grow(ctx context.Context, c cluster.Cluster) error {
	plan, known := k.Catalog.Plan(c.Type)
	if !known || c.Status != cluster.Active || !c.Autoscale.Due(c.UsedBytes, plan.DiskBytes()) {
		return nil
	}
	next, ok := k.Catalog.Next(c.Type, c.Autoscale.Max, c.Engine, c.Size)
	percent := *c.UsedBytes * 100 / plan.DiskBytes()
	if !ok {
		return k.cantGrow(ctx, c, fmt.Sprintf("%d %% of the %d GB of %s are in use, and there is no larger type up to %s: choose one, or a larger autoscale.max_type.", percent, plan.DiskGB(), plan.ID, c.Autoscale.Max))
	}
	failpoint.Here("converge: before growth begins")
	err := k.beginGrowth(ctx, c, next, fmt.Sprintf("%d %% of the %d GB of %s were in use: the database moved to %s with %d GB.", percent, plan.DiskGB(), plan.ID, next.ID, next.DiskGB()))
	switch {
	case errors.Is(err, errGrown), errors.Is(err, store.ErrStale), errors.Is(err, store.ErrNoTransition):
		return nil
	case fault.IsKind(err, fault.Precondition):
		return k.cantGrow(ctx, c, fmt.Sprintf("%d %% of the %d GB of %s are in use, and %s can't be had: %s", percent, plan.DiskGB(), plan.ID, next.ID, err))
	case err != nil:
		return fmt.Errorf("grow: %w", err)
	}
	failpoint.Here("converge: after growth begins")
	return nil
}

// beginGrowth does what a request for a resize does, in the name of nobody.
func (k *Keeper) beginGrowth(ctx context.Context, c cluster.Cluster, next catalog.Plan, note string) error {
	now := k.Now()
	return k.Store.InTx(ctx, func(tx *store.Tx) error {
		first, err := tx.RecordGrowth(ctx, c.ID, now, now.Add(-growAgain))
		if err != nil {
			return err
		}
		if !first {
			return errGrown
		}
		faults, err := tx.Exceeded(ctx, c.Account, k.more(c, next), k.Quotas, k.Catalog.Size)
		if err := errors.Join(err, faults.Err()); err != nil {
			return err
		}
		grown := c
		grown.Type = next.ID
		if grown, err = tx.UpdateCluster(ctx, grown); err != nil {
			return err
		}
		if _, err := tx.Transition(ctx, grown, cluster.Change); err != nil {
			return err
		}
		if err := k.Issues.TellGrowth(ctx, tx, c, now, next.ID, note); err != nil {
			return err
		}
		return k.schedule(ctx, tx, grown, operation.Operation{
			Action: operation.Resize, Params: operation.Params{OldType: c.Type, Type: next.ID, Note: note},
		})
	})
}

// more is what a database takes beyond what it has when it moves to a plan.
func (k *Keeper) more(c cluster.Cluster, next catalog.Plan) account.Amounts {
	memory, disk := k.Catalog.Size(c.Type)
	return account.Amounts{MemoryMB: c.Size * (next.MemoryMB - memory), DiskMB: c.Size * (next.DiskMB - disk)}
}

// cantGrow tells, once an hour at most, that a full database stays as it is.
func (k *Keeper) cantGrow(ctx context.Context, c cluster.Cluster, why string) error {
	now := k.Now()
	err := k.Store.InTx(ctx, func(tx *store.Tx) error {
		first, err := tx.RecordGrowth(ctx, c.ID, now, now.Add(-growAgain))
		if err != nil || !first {
			return err
		}
		if err := k.Issues.TellGrowth(ctx, tx, c, now, "", why); err != nil {
			return err
		}
		return notify(ctx, tx, c, operation.LowDiskSpace, why)
	})
	if err != nil {
		return fmt.Errorf("tell that it can't grow: %w", err)
	}
	return nil
}
