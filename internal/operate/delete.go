package operate

import (
	"context"
	"fmt"

	"steward/internal/operation"
	"steward/internal/store"
)

// remove takes away everything a deleted database is made of, then its row,
// secrets and port. The row goes last: while there is anything left, somebody
// knows of it. Where backups are kept for a while, it stays with them, since
// their key is with it; upkeep then takes both away.
func (w *work) remove(ctx context.Context) error {
	_, err := step("remove", func() (struct{}, error) { return struct{}{}, w.Driver.Remove(ctx, w.c) })
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	kept, err := w.removeArchive(ctx)
	if err != nil {
		return err
	}
	return w.end(ctx, func(tx *store.Tx) error {
		if err := tx.FailOtherOperations(ctx, w.c.ID, w.op.ID, "The database was deleted."); err != nil {
			return err
		}
		if !kept {
			if err := tx.RemoveCluster(ctx, w.c.ID); err != nil {
				return err
			}
		}
		return tx.FinishOperation(ctx, w.op.ID, operation.Finished, "")
	})
}
