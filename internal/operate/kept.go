package operate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"steward/internal/backup"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// RestoreFailsReason is what people are told when no server comes up on a backup.
const RestoreFailsReason = "No server comes up on the backup; choose another backup or moment. The operator's log tells why."

// backupKept has the platform take a backup that it keeps itself. What an earlier run began is gone on with.
func (w *work) backupKept(ctx context.Context, want platform.Wanted, b backup.Backup) error {
	p := w.report(ctx, "copied", used(w.c))
	kept, err := step("backup", func() (platform.Kept, error) { return w.Driver.TakeBackup(ctx, want, b.ID, nodeOf(b)) })
	p.end()
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	b.State, b.Bytes, b.StoredBytes, b.Installation, b.Ref = backup.Complete, kept.Bytes, kept.StoredBytes, kept.Installation, kept.Ref
	return w.end(ctx, func(tx *store.Tx) error { return w.endBackup(ctx, tx, b, operation.Finished) })
}

// placeKept restores a backup that the platform keeps.
func (w *work) placeKept(ctx context.Context, want platform.Wanted, b backup.Backup) error {
	p := w.report(ctx, "restored", b.Bytes)
	defer p.end()
	from := w.keptSource(b)
	from.Of = w.c
	if w.recovers(b) {
		from.Until = w.op.Params.To
	}
	reached, err := step("restore", func() (time.Time, error) {
		return w.Driver.RestoreKept(ctx, want, from, func() error { return w.touched(ctx) })
	})
	switch {
	case errors.Is(err, platform.ErrGap):
		return errors.Join(errRestoreGap, err)
	case errors.Is(err, platform.ErrRestoreFails):
		return errors.Join(&impossible{reason: RestoreFailsReason}, err)
	case err != nil:
		return fmt.Errorf("restore: %w", err)
	}
	w.noteReached(b, reached)
	return nil
}

// token names the operation to a platform that may be asked for the same more than once.
func (w *work) token() string { return strconv.FormatInt(int64(w.op.ID), 10) }

// keptSource is a backup as what is to be restored for this operation.
func (w *work) keptSource(b backup.Backup) platform.KeptSource {
	return platform.KeptSource{Backup: b.ID, Ref: b.Ref, Token: w.token()}
}

// forkKept makes the new cluster of a backup that the platform keeps.
func (f *forking) forkKept(ctx context.Context, want platform.Wanted) (of time.Time, err error) {
	p := f.report(ctx, "restored", f.b.Bytes)
	defer p.end()
	admin, err := f.secret(ctx, platform.AdminPassword)
	if err != nil {
		return of, err
	}
	from := f.keptSource(f.b)
	from.Of, from.AdminPassword = f.source, string(admin)
	if f.recovers {
		from.Until = f.c.Fork.RestoreTime
	}
	reached, err := step("fork", func() (time.Time, error) { return f.Driver.ForkKept(ctx, want, from) })
	switch {
	case errors.Is(err, platform.ErrGap):
		return of, errors.Join(errForkGap, err)
	case errors.Is(err, platform.ErrRestoreFails):
		return of, errors.Join(&impossible{reason: RestoreFailsReason}, err)
	case err != nil:
		return of, fmt.Errorf("fork: %w", err)
	}
	return f.dataOf(reached), nil
}

// dropBackup takes a backup out of where it is kept.
func (w *work) dropBackup(ctx context.Context, id backup.ID) error {
	if !w.Driver.KeepsBackups(w.c) {
		return w.Archive.Delete(ctx, w.c.ID, id)
	}
	b, err := w.Store.BackupForWork(ctx, id)
	if fault.IsKind(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read backup %d: %w", id, err)
	}
	return w.Driver.DropBackup(ctx, w.c, id, b.Ref)
}

// dropBackups takes all of a database's out of where they are kept.
func (w *work) dropBackups(ctx context.Context) error {
	if w.Driver.KeepsBackups(w.c) {
		return w.Driver.DropBackups(ctx, w.c)
	}
	return w.Archive.DeleteCluster(ctx, w.c.ID)
}
