package operate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// Archive is what is asked of the place where backups are kept: an archive.Archive.
type Archive interface {
	Put(ctx context.Context, m archive.Manifest, key []byte, write archive.Source) (archive.Manifest, error)
	Verify(ctx context.Context, of cluster.ID, id backup.ID) (archive.Manifest, error)
	Get(ctx context.Context, of cluster.ID, id backup.ID, key []byte) (archive.Manifest, io.ReadCloser, error)
	Delete(ctx context.Context, of cluster.ID, id backup.ID) error
	DeleteCluster(ctx context.Context, of cluster.ID) error
	GetSegment(ctx context.Context, w archive.Segment, key []byte, out io.Writer) error
	ListSegments(ctx context.Context, of cluster.ID) ([]archive.Segment, error)
}

// Recovery keeps beside a database's backups what it takes to bring it back on
// another server: a recovery.Keeper.
type Recovery interface {
	Save(ctx context.Context, of cluster.ID) error
}

// FullReason is what people are told when a backup has no room.
const FullReason = "There is no room left where backups are kept; the operator has to make some."

// BlockedReason is what people are told when their own database kept a backup
// from its locks.
const BlockedReason = "A statement or a lock in the database kept the backup waiting for too long; end it, or back up at another time."

// backup copies the database's data into the archive. What an earlier run left
// there is overwritten: it is complete in the store only when it is whole.
func (w *work) backup(ctx context.Context) error {
	b, err := w.Store.BackupForWork(ctx, w.op.Params.Backup)
	if err != nil {
		return fmt.Errorf("read backup %d: %w", w.op.Params.Backup, err)
	}
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	if err := w.notLost(ctx); err != nil {
		return err
	}
	if w.Driver.KeepsBackups(w.c) {
		return w.backupKept(ctx, want, b)
	}
	key, err := w.backupKey(ctx)
	if err != nil {
		return err
	}
	stored, err := w.copyTo(ctx, want, b, key)
	if errors.Is(err, archive.ErrFull) { // all of it would be copied again, to the same end
		return errors.Join(&impossible{reason: FullReason}, err)
	}
	if errors.Is(err, platform.ErrBlocked) { // it would be so again, and hold a slot meanwhile
		return errors.Join(&impossible{reason: BlockedReason}, err)
	}
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	w.saveRecovery(ctx)
	b.State, b.Bytes, b.StoredBytes, b.Installation = backup.Complete, stored.Bytes, stored.StoredBytes, stored.Copy.Installation
	return w.end(ctx, func(tx *store.Tx) error { return w.endBackup(ctx, tx, b, operation.Finished) })
}

// saveRecovery leaves it to upkeep to try again: the backup is one all the same.
func (w *work) saveRecovery(ctx context.Context) {
	if _, err := step("save recovery", func() (struct{}, error) { return struct{}{}, w.Recovery.Save(ctx, w.c.ID) }); err != nil {
		w.log.WarnContext(ctx, "keep what recovers the database", "error", err)
	}
}

// copyTo streams a copy of the data into the archive.
func (w *work) copyTo(ctx context.Context, want platform.Wanted, b backup.Backup, key []byte) (archive.Manifest, error) {
	p := w.report(ctx, "copied", used(w.c))
	defer p.end()
	m := archive.Manifest{
		Cluster: w.c.ID, Backup: b.ID, Database: w.c.Label, Label: b.Label, Type: b.Type,
		Engine: w.c.Engine, Series: w.c.Series, Encrypted: w.c.Encrypted, Created: b.Created, Bytes: used(w.c),
	}
	return step("backup", func() (archive.Manifest, error) {
		return w.Archive.Put(ctx, m, key, func(out io.Writer) (platform.Copy, error) {
			return w.Driver.Backup(ctx, want, nodeOf(b), counted{out, &p.bytes})
		})
	})
}

// nodeOf is the role of the node that a backup is taken from.
func nodeOf(b backup.Backup) cluster.Role {
	if b.Target == backup.FromSecondary {
		return cluster.Replica
	}
	return cluster.Primary
}

// used is about how many bytes a copy of the database will have.
func used(c cluster.Cluster) int64 {
	if c.UsedBytes == nil {
		return 0
	}
	return *c.UsedBytes
}

// backupKey is what the database's backups are encrypted with, made for the
// first of them. Older stewards made one that nothing could be encrypted with.
func (w *work) backupKey(ctx context.Context) ([]byte, error) {
	key, err := w.Store.Secret(ctx, w.c.ID, platform.BackupKey)
	if err == nil && archive.IsKey(key) || err != nil && !fault.IsKind(err, fault.NotFound) {
		return key, err
	}
	if key, err = archive.NewKey(); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, w.Store.SaveSecret(ctx, w.c.ID, platform.BackupKey, key)
}

// endBackup ends a backup, complete or failed; either way the database is active
// again. What befell it meanwhile, upkeep finds out.
func (w *work) endBackup(ctx context.Context, tx *store.Tx, b backup.Backup, status operation.Status) error {
	err := tx.FinishBackup(ctx, b)
	if gone := errors.Is(err, store.ErrStale) && b.State == backup.Failed; err != nil && !gone {
		return err
	}
	if err := w.move(ctx, tx, w.c, cluster.Ready); err != nil {
		return err
	}
	return tx.FinishOperation(ctx, w.op.ID, status, b.Problem)
}

// giveBackupUp leaves a failed backup in the list, with the reason, and nothing
// in the archive that anybody would take for one.
func (w *work) giveBackupUp(ctx context.Context, reason string) error {
	id := w.op.Params.Backup
	if err := w.dropBackup(ctx, id); err != nil { // the search for orphans will find it
		w.log.WarnContext(ctx, "remove what was copied", "error", err)
	}
	failed := backup.Backup{ID: id, State: backup.Failed, Problem: reason}
	return w.end(ctx, func(tx *store.Tx) error { return w.endBackup(ctx, tx, failed, operation.FailedStatus) })
}

// removeBackup takes a deleted backup out of the archive, and then its row.
func (w *work) removeBackup(ctx context.Context) error {
	id := w.op.Params.Backup
	_, err := step("remove backup", func() (struct{}, error) { return struct{}{}, w.dropBackup(ctx, id) })
	if err != nil {
		return fmt.Errorf("remove backup %d: %w", id, err)
	}
	return w.end(ctx, func(tx *store.Tx) error {
		if err := tx.ForgetBackup(ctx, id); err != nil {
			return err
		}
		return tx.FinishOperation(ctx, w.op.ID, operation.Finished, "")
	})
}

// removeArchive takes all backups of a deleted database out of the archive. kept
// says that they are kept for a while instead.
func (w *work) removeArchive(ctx context.Context) (kept bool, err error) {
	if w.op.Params.Final {
		if kept, err = true, w.dropAllBut(ctx, w.op.Params.Backup); err != nil {
			return false, err
		}
	} else if w.KeepDeleted > 0 {
		all, err := w.Store.BackupsOf(ctx, w.c.ID)
		if err != nil {
			return false, fmt.Errorf("list backups: %w", err)
		}
		for _, b := range all {
			kept = kept || b.State == backup.Complete
		}
	}
	if kept {
		if !w.Driver.KeepsBackups(w.c) {
			w.saveRecovery(ctx) // which says now that it was deleted
		}
		return true, nil
	}
	_, err = step("remove backups", func() (struct{}, error) { return struct{}{}, w.dropBackups(ctx) })
	if err != nil {
		return false, fmt.Errorf("remove backups: %w", err)
	}
	return false, nil
}

// dropAllBut takes the backups of a deleted database out of the archive but for one, unless they are kept anyway.
func (w *work) dropAllBut(ctx context.Context, last backup.ID) error {
	if w.KeepDeleted > 0 {
		return nil
	}
	all, err := w.Store.BackupsOf(ctx, w.c.ID)
	if err != nil {
		return fmt.Errorf("list backups: %w", err)
	}
	for _, b := range all {
		if b.ID == last {
			continue
		}
		if _, err := step("remove backup", func() (struct{}, error) { return struct{}{}, w.dropBackup(ctx, b.ID) }); err != nil {
			return fmt.Errorf("remove backup %d: %w", b.ID, err)
		}
		err := w.Store.InTx(ctx, func(tx *store.Tx) error {
			if err := tx.MarkDeleting(ctx, b.ID); err != nil && !errors.Is(err, store.ErrStale) {
				return err
			}
			return tx.ForgetBackup(ctx, b.ID)
		})
		if err != nil {
			return fmt.Errorf("forget backup %d: %w", b.ID, err)
		}
	}
	return nil
}
