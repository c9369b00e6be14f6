package operate

import (
	"context"
	"errors"

	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// suspend stops all that runs of the cluster. What was seen of it while it
// served stays in the row: its addresses are the customer's for good. Of a
// cluster whose files are gone nothing runs; that it is told so leaves a way
// on, since a resume ends failed.
func (w *work) suspend(ctx context.Context) error {
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	message := ""
	_, err = w.settle(ctx, want)
	if errors.Is(err, errLost) {
		message, err = platform.LostReason, nil
	}
	if err != nil {
		return err
	}
	return w.end(ctx, func(tx *store.Tx) error {
		if err := w.move(ctx, tx, w.c, cluster.Ready); err != nil {
			return err
		}
		return tx.FinishOperation(ctx, w.op.ID, operation.Finished, message)
	})
}
