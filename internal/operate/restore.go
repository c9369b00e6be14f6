package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// LockedOutReason is what people are told when a restore brought back a root
// password that was reset since.
const LockedOutReason = "The backup is restored, but it is older than the last reset of the credentials: the database has the password of " +
	"that time, which is not the one that is shown, and lets nobody in. Restore a newer backup, or ask the operator to set today's password."

// restore replaces all data by a backup's. The archive's copy is proven whole
// before the platform is asked, and read whole before the platform touches
// anything: what is damaged costs nothing.
func (w *work) restore(ctx context.Context) error {
	b, err := w.completeBackup(ctx, "The backup is gone.")
	if err != nil {
		return err
	}
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	if !w.op.Params.Placed { // what customers wrote since must not be lost again
		place := w.copyFrom
		if w.Driver.KeepsBackups(w.c) {
			place = w.placeKept
		}
		if err := place(ctx, want, b); err != nil {
			return err
		}
		if err := w.placed(ctx); err != nil {
			return err
		}
	}
	if want, err = w.ofItsSeries(ctx); err != nil {
		return err
	}
	return w.endRestore(ctx, want, b)
}

// completeBackup is the backup that the operation names; gone is the reason why the operation can't go on without.
func (w *work) completeBackup(ctx context.Context, gone string) (backup.Backup, error) {
	b, err := w.Store.BackupForWork(ctx, w.op.Params.Backup)
	if fault.IsKind(err, fault.NotFound) || err == nil && b.State != backup.Complete {
		return b, &impossible{reason: gone}
	}
	if err != nil {
		return b, fmt.Errorf("read backup %d: %w", w.op.Params.Backup, err)
	}
	return b, nil
}

// openedBackup is a backup of the database's in the archive, which was found whole. Its content is to be closed.
type openedBackup struct {
	copy    platform.Copy
	key     []byte
	content io.ReadCloser
}

// openBackup verifies a backup and opens its content.
func (w *work) openBackup(ctx context.Context, b backup.Backup) (o openedBackup, err error) {
	m, err := step("verify archive", func() (archive.Manifest, error) { return w.Archive.Verify(ctx, w.c.ID, b.ID) })
	if err != nil {
		return o, w.damaged(ctx, b, err)
	}
	o.copy = m.Copy
	if o.key, err = w.Store.Secret(ctx, w.c.ID, platform.BackupKey); err != nil {
		return o, fmt.Errorf("backup key: %w", err)
	}
	if _, o.content, err = w.Archive.Get(ctx, w.c.ID, b.ID, o.key); err != nil {
		return o, w.damaged(ctx, b, err)
	}
	return o, nil
}

// copyFrom streams a backup out of the archive into the platform.
func (w *work) copyFrom(ctx context.Context, want platform.Wanted, b backup.Backup) error {
	p := w.report(ctx, "restored", b.Bytes)
	defer p.end()
	opened, err := w.openBackup(ctx, b)
	if err != nil {
		return err
	}
	defer opened.content.Close()
	in := &announced{Reader: opened.content, atEnd: func() error { return w.touched(ctx) }}
	from := platform.Source{Copy: opened.copy, Token: w.token()}
	if w.recovers(b) {
		from.Recovery = w.recovery(w.c.ID, *w.op.Params.To, opened.key)
	}
	reached, err := step("restore", func() (time.Time, error) {
		return w.Driver.Restore(ctx, want, from, in, func(bytes int64) { p.bytes.Store(bytes) })
	})
	if errors.Is(err, platform.ErrGap) {
		w.log.WarnContext(ctx, "the archive has a gap", "error", err)
		return errRestoreGap
	}
	if err != nil {
		return fmt.Errorf("restore: %w", w.damaged(ctx, b, err))
	}
	w.noteReached(b, reached)
	return nil
}

// noteReached keeps for people that a recovery reached an earlier point in time than the one asked for.
func (w *work) noteReached(b backup.Backup, reached time.Time) {
	if !w.recovers(b) {
		return
	}
	if reached.IsZero() {
		reached = b.Created
	}
	w.op.Params.Note = earlier("the database", reached, *w.op.Params.To)
}

var errRestoreGap = &impossible{reason: "What was archived has a gap before the moment asked for; choose one of restore-windows."}

// recovers reports whether the restore goes on from the backup to a later point in time.
func (w *work) recovers(b backup.Backup) bool {
	return w.op.Params.To != nil && !backup.SameSecond(b.Created, *w.op.Params.To)
}

// archivedIn is how long it takes until all is archived that a restore goes on to; 0 when it is.
func (r *Operator) archivedIn(op operation.Operation) time.Duration {
	if op.Params.To == nil || op.Params.Touched {
		return 0
	}
	return max(0, op.Params.To.Add(r.Limits.Archived).Sub(r.Now()))
}

// damaged makes an error for good of a copy that isn't whole, and notes it down
// for those who choose the next one.
func (w *work) damaged(ctx context.Context, b backup.Backup, err error) error {
	if !errors.Is(err, archive.ErrDamaged) {
		return fmt.Errorf("read the archive: %w", err)
	}
	noted := w.Store.InTx(ctx, func(tx *store.Tx) error { return tx.BackupVerified(ctx, b.ID, err.Error()) })
	if noted != nil {
		return fmt.Errorf("note that backup %d is damaged: %w", b.ID, noted)
	}
	return &impossible{reason: "The backup is damaged and can't be restored; choose another one."}
}

// announced is a reader that says so before it hands out its end, at which the
// platform begins to touch the data.
type announced struct {
	io.Reader
	atEnd func() error
}

func (a *announced) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		if failed := a.atEnd(); failed != nil {
			return n, failed
		}
	}
	return n, err
}

// touched notes that the data may not be what it was from now on.
func (w *work) touched(ctx context.Context) error {
	if w.op.Params.Touched {
		return nil
	}
	w.op.Params.Touched = true
	return w.Store.SaveParams(ctx, w.op.ID, w.op.Params)
}

// placed notes that the restored data serves, before customers are let in.
func (w *work) placed(ctx context.Context) error {
	w.op.Params.Placed = true
	return w.Store.SaveParams(ctx, w.op.ID, w.op.Params)
}

// endRestore makes the restore true in the store. Servers come up with the root
// password of the time of the backup; the one that the API answers may be newer.
// Nobody is let in with one that was reset.
func (w *work) endRestore(ctx context.Context, want platform.Wanted, b backup.Backup) error {
	reset, err := w.resetSince(ctx, b)
	if err != nil {
		return err
	}
	// Who asks for a moment doesn't know which password was in force then.
	// A platform that restores by itself sets today's in any case.
	if reset && w.Reapply || w.op.Params.Recovered || w.op.Params.To != nil || w.Driver.KeepsBackups(w.c) {
		return w.endWithPassword(ctx, want)
	}
	want.LockedOut = reset
	seen, err := w.settleInTime(ctx, want)
	if err != nil {
		return err
	}
	if !reset {
		return w.endServing(ctx, seen)
	}
	return w.end(ctx, func(tx *store.Tx) error {
		return errors.Join(
			tx.RecordObserved(ctx, w.c.ID, seen),
			w.move(ctx, tx, w.c, cluster.GiveUp),
			tx.SetLockedOut(ctx, w.c.ID, true),
			tx.FinishOperation(ctx, w.op.ID, operation.FailedStatus, LockedOutReason),
		)
	})
}

func (w *work) resetSince(ctx context.Context, b backup.Backup) (bool, error) {
	reset, err := w.Store.CredentialsResetSince(ctx, w.c.ID, b.Created)
	if err != nil {
		return false, fmt.Errorf("look for resets of the credentials: %w", err)
	}
	return reset, nil
}

func (w *work) settleInTime(ctx context.Context, want platform.Wanted) (platform.Observed, error) {
	limited, cancel := context.WithTimeout(ctx, w.Limits.GiveUp)
	defer cancel()
	return w.settleRestored(limited, want)
}

// endWithPassword has replaced data serve with today's root password: before that
// is set nobody is let in.
func (w *work) endWithPassword(ctx context.Context, want platform.Wanted) error {
	want.LockedOut = true
	if _, err := w.settleInTime(ctx, want); err != nil {
		return err
	}
	if err := w.setPassword(ctx, want); err != nil {
		return err
	}
	want.LockedOut = false
	seen, err := w.settleInTime(ctx, want)
	if err != nil {
		return err
	}
	return w.endServing(ctx, seen)
}

// endServing ends a restore after which the API's password is the servers'.
func (w *work) endServing(ctx context.Context, seen platform.Observed) error {
	return w.end(ctx, func(tx *store.Tx) error {
		return errors.Join(
			tx.RecordObserved(ctx, w.c.ID, seen),
			w.move(ctx, tx, w.c, cluster.Ready),
			tx.SetLockedOut(ctx, w.c.ID, false),
			tx.FinishOperation(ctx, w.op.ID, operation.Finished, w.op.Params.Note),
		)
	})
}

// giveRestoreUp leaves a database whose data wasn't touched as it was; upkeep
// reports whether it is degraded. Any other has failed, until upkeep or the
// operator finds that it serves; the operator, where the servers may have come up
// with a password that was reset.
func (w *work) giveRestoreUp(ctx context.Context, reason string) error {
	trigger := cluster.Ready
	if w.op.Params.Failed || w.op.Params.Touched {
		trigger = cluster.GiveUp
	}
	lockedOut := w.c.LockedOut
	switch {
	case !w.op.Params.Touched:
		reason += " The data is as it was."
	case w.op.Action == operation.Restore:
		reason += " The data from before is set aside for a day: undo the restore to bring it back."
		if b, err := w.Store.BackupForWork(ctx, w.op.Params.Backup); err == nil && !w.Driver.KeepsBackups(w.c) {
			if lockedOut, err = w.resetSince(ctx, b); err != nil {
				return err
			}
		}
	}
	return w.end(ctx, func(tx *store.Tx) error {
		return errors.Join(w.move(ctx, tx, w.c, trigger), tx.SetLockedOut(ctx, w.c.ID, lockedOut),
			tx.FinishOperation(ctx, w.op.ID, operation.FailedStatus, reason))
	})
}

// undoRestore brings back the data that the last restore set aside, with
// today's root password.
func (w *work) undoRestore(ctx context.Context) error {
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	if !w.op.Params.Touched { // what is undone can't be undone again
		_, err := step("undo restore", func() (struct{}, error) { return struct{}{}, w.Driver.Undo(ctx, want) })
		if errors.Is(err, platform.ErrNothingAside) {
			return &impossible{reason: "No data is set aside that could be brought back."}
		}
		if err != nil {
			return fmt.Errorf("undo: %w", err)
		}
		if err := w.touched(ctx); err != nil {
			return err
		}
	}
	if want, err = w.ofItsSeries(ctx); err != nil {
		return err
	}
	return w.endWithPassword(ctx, want)
}
