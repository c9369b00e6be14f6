package operate

import (
	"context"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
	"steward/internal/wait"
)

// windowOver is what people are told of work that its window had no time for.
const windowOver = "The maintenance window ended before all was done; what is left waits for the next one."

// patch does all that waits for a patch, now or in the maintenance window that
// bounds it. After the window's end nothing more is begun: the cluster is brought
// back to a whole state, and the rest waits for the next window.
func (w *work) patch(ctx context.Context) error {
	open := w.op.Params.Until == nil || w.Now().Before(*w.op.Params.Until)
	want, err := w.wanted(open)
	if err != nil {
		return err
	}
	if err := w.notePending(ctx, want); err != nil {
		return err
	}
	seen, err := w.settle(ctx, want)
	if err != nil {
		return err
	}
	left, err := w.Driver.Pending(ctx, want)
	if err != nil {
		return fmt.Errorf("look what is left to patch: %w", err)
	}
	if w.op.Action == operation.Patch {
		if err := w.beSeen(ctx); err != nil {
			return err
		}
	}
	return w.patched(ctx, seen, left, open)
}

// beSeen waits until the request is old enough to have been looked at.
func (w *work) beSeen(ctx context.Context) error {
	return wait.Sleep(ctx, max(0, w.Limits.Seen-w.Now().Sub(w.op.Created)))
}

// notePending keeps what there was to do at the first attempt, for the event.
func (w *work) notePending(ctx context.Context, want platform.Wanted) error {
	if w.op.Params.Tasks != nil {
		return nil
	}
	tasks, err := w.Driver.Pending(ctx, want)
	if err != nil {
		return fmt.Errorf("look what there is to patch: %w", err)
	}
	w.op.Params.Tasks = append([]cluster.Task{}, tasks...)
	return w.Store.SaveParams(ctx, w.op.ID, w.op.Params)
}

// patched ends the operation, with what it did for people to read.
func (w *work) patched(ctx context.Context, seen platform.Observed, left []cluster.Task, inTime bool) error {
	status, message := operation.Finished, cluster.DescribeDone(w.op.Params.Tasks, left)
	if !inTime && len(left) > 0 {
		status, message = operation.FailedStatus, windowOver
	}
	return w.end(ctx, func(tx *store.Tx) error {
		if err := tx.RecordObserved(ctx, w.c.ID, seen); err != nil {
			return err
		}
		if err := tx.RecordTasks(ctx, w.c.ID, left); err != nil {
			return err
		}
		if err := w.move(ctx, tx, w.c, cluster.Ready); err != nil {
			return err
		}
		if err := w.tellWindow(ctx, tx, status, message); err != nil {
			return err
		}
		return tx.FinishOperation(ctx, w.op.ID, status, message)
	})
}

// tellWindow has contacts told, if the operator wants it, how the work of a
// maintenance window ended. Of other operations there is nothing to tell.
func (w *work) tellWindow(ctx context.Context, tx *store.Tx, status operation.Status, message string) error {
	start, end := w.c.Maintenance.Begun, w.op.Params.Until
	if w.op.Action != operation.Maintenance || start == nil || end == nil {
		return nil
	}
	kind := monitor.NoticeDone
	if status != operation.Finished {
		kind = monitor.NoticeUnfinished
	}
	return w.Issues.TellWindow(ctx, tx, kind, w.c, monitor.NoticeWindow{Start: *start, End: *end, Work: message})
}
