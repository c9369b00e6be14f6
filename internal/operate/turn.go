package operate

import (
	"context"
	"fmt"
	"time"

	"steward/internal/operation"
	"steward/internal/store"
)

// turns bounds how many operations of a kind are carried out at once. Copying
// databases takes hours: were it not bounded, all workers would be at it soon
// after midnight, and nobody would be left for what takes a second.
type turns chan struct{}

func (t turns) take() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turns) done() { <-t }

// turns are those an operation needs; nil for one that doesn't take long.
func (r *Operator) turns(op operation.Operation) turns {
	switch op.Action {
	case operation.Backup:
		return r.backups
	case operation.Restore:
		return r.restores
	case operation.Create:
		if op.Params.Fork != 0 {
			return r.restores
		}
	}
	return nil
}

// waitForTurn is when to try again after all turns were taken.
const waitForTurn = 3 * time.Second

// putOff keeps the sweep from waking an operation that waits for its turn.
func (r *Operator) putOff(ctx context.Context, op operation.Operation) error {
	const message = "It waits until others like it are done."
	if err := r.Store.ProgressOperation(ctx, op.ID, op.Percent, message, waitForTurn+store.WakeDelay); err != nil {
		return fmt.Errorf("put operation %d off: %w", op.ID, err)
	}
	return nil
}
