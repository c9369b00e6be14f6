package operate

import (
	"context"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// finish makes the operation's success true in one transaction: what was seen,
// the status, the event.
func (w *work) finish(ctx context.Context, seen platform.Observed) error {
	return w.end(ctx, func(tx *store.Tx) error {
		if err := tx.RecordObserved(ctx, w.c.ID, seen); err != nil {
			return err
		}
		if err := w.move(ctx, tx, w.c, cluster.Ready); err != nil {
			return err
		}
		return tx.FinishOperation(ctx, w.op.ID, operation.Finished, w.op.Params.Note)
	})
}

// move changes the status where the table has such a change. Where it hasn't,
// somebody has set the status by hand: the operation ends all the same.
func (w *work) move(ctx context.Context, tx *store.Tx, c cluster.Cluster, on cluster.Trigger) error {
	if _, ok := cluster.Next(c.Status, on); !ok {
		w.log.WarnContext(ctx, "no status change at the end of the operation", "status", string(c.Status), "trigger", string(on))
		return nil
	}
	_, err := tx.Transition(ctx, c, on)
	return err
}

func (w *work) end(ctx context.Context, f func(tx *store.Tx) error) error {
	if err := w.Store.InTx(ctx, f); err != nil {
		return fmt.Errorf("end of operation %d: %w", w.op.ID, err)
	}
	return nil
}

// giveUp ends the operation for good, with a reason for people. A cluster that
// never served is taken away again; one that did keeps its data whatever happens.
func (w *work) giveUp(ctx context.Context, reason string, cause error) (again time.Duration, err error) {
	w.log.ErrorContext(ctx, "operation given up", "attempt", w.op.Attempt, "error", cause)
	switch w.op.Action {
	case operation.Backup:
		return 0, w.giveBackupUp(ctx, reason)
	case operation.Restore, operation.RestoreUndo:
		return 0, w.giveRestoreUp(ctx, reason)
	case operation.Delete:
		return w.giveDeleteUp(ctx, reason)
	case operation.Upgrade:
		return w.giveUpgradeUp(ctx, reason)
	case operation.UpgradeCheck:
		return 0, w.end(ctx, func(tx *store.Tx) error {
			return tx.FinishOperation(ctx, w.op.ID, operation.FailedStatus, reason)
		})
	case operation.Migration:
		return 0, w.giveMigrationUp(ctx, reason)
	}
	var seen platform.Observed
	if w.op.Action == operation.Create {
		if err := w.takeAway(ctx); err != nil {
			return w.retry(ctx, err)
		}
	} else if looked, err := w.Driver.Observe(ctx, w.c.ID); err == nil {
		seen = looked
	}
	return 0, w.end(ctx, func(tx *store.Tx) error {
		c, err := w.undo(ctx, tx)
		if err != nil {
			return err
		}
		trigger := cluster.GiveUp
		if _, ok := cluster.Next(c.Status, cluster.GiveUpServes); ok && seen.Serving {
			trigger = cluster.GiveUpServes
		}
		if err := w.move(ctx, tx, c, trigger); err != nil {
			return err
		}
		if err := w.tellWindow(ctx, tx, operation.FailedStatus, reason+" What is left waits for the next maintenance window."); err != nil {
			return err
		}
		return tx.FinishOperation(ctx, w.op.ID, operation.FailedStatus, reason)
	})
}

// undo takes back what the row was promised: a resize that can't be done leaves
// plan and nodes as they were, other settings of the server those that were, which
// upkeep then makes true again.
func (w *work) undo(ctx context.Context, tx *store.Tx) (cluster.Cluster, error) {
	c, params := w.c, w.op.Params
	if w.op.Action != operation.Resize && !params.ConfigChanged {
		return c, nil
	}
	if params.ConfigChanged {
		c.Config = params.OldConfig
	}
	if params.OldType != "" {
		c.Type = params.OldType
	}
	if b := params.Before; b != nil {
		c.Size, c.Replication, c.Commit = b.Size, b.Replication, b.Commit
	}
	return tx.UpdateCluster(ctx, c)
}

// takeAway removes what a create that is given up has made so far.
func (w *work) takeAway(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.Limits.Pass)
	defer cancel()
	_, err := step("remove half-made", func() (struct{}, error) { return struct{}{}, w.Driver.Remove(ctx, w.c) })
	if err != nil && !fault.IsKind(err, fault.NotFound) {
		return fmt.Errorf("remove what was half-made: %w", err)
	}
	return nil
}
