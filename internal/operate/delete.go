package operate

import (
	"context"
	"fmt"
	"time"

	"steward/internal/operation"
	"steward/internal/store"
)

// remove takes away everything a deleted database is made of, then its row,
// secrets and port. The row goes last: while there is anything left, somebody
// knows of it. Where backups are kept for a while, it stays with them, since
// their key is with it; upkeep then takes both away.
func (w *work) remove(ctx context.Context) error {
	if err := w.finalBackup(ctx); err != nil {
		return err
	}
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
		if w.op.Params.Final {
			if err := tx.SetFinalUntil(ctx, w.c.ID, w.Now().Add(w.KeepFinal)); err != nil {
				return err
			}
		}
		if !kept {
			if err := tx.RemoveCluster(ctx, w.c.ID); err != nil {
				return err
			}
		}
		return tx.FinishOperation(ctx, w.op.ID, operation.Finished, "")
	})
}

// finalBackup takes the last backup, if one was asked for, before anything is removed.
func (w *work) finalBackup(ctx context.Context) error {
	if !w.op.Params.Final || w.op.Params.Touched {
		return nil
	}
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	if err := w.backupFirst(ctx, want); err != nil {
		return err
	}
	return w.touched(ctx) // from here on the delete is never given up
}

// giveDeleteUp shows a database again of which no last backup could be taken. Upkeep finds that it serves.
func (w *work) giveDeleteUp(ctx context.Context, reason string) (again time.Duration, err error) {
	if err := w.dropUnfinishedBackup(ctx, "The delete that it was taken for was given up."); err != nil {
		return w.retry(ctx, err)
	}
	err = w.end(ctx, func(tx *store.Tx) error {
		if err := tx.FinishOperation(ctx, w.op.ID, operation.FailedStatus, reason+" The database wasn't deleted: no last backup could be taken."); err != nil {
			return err
		}
		return tx.Undelete(ctx, w.c.ID)
	})
	if err != nil { // somebody else has its label by now
		return w.retry(ctx, err)
	}
	return 0, nil
}
