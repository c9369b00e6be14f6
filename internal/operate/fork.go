package operate

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/platform"
)

var (
	errSourceGone = &impossible{"The database it was to be forked from was deleted meanwhile."}
	errForkGone   = &impossible{"The backup it was to be forked from is gone."}
)

// fork makes a new database of another one's backup. Only then is anybody let in.
func (w *work) fork(ctx context.Context) error {
	if w.Archiver == nil || w.Archive == nil {
		return errNoBackups
	}
	want, err := Wanted(w.c, w.Catalog, false)
	if err != nil {
		return err
	}
	if !w.op.Params.Placed { // what customers wrote since must not be lost again
		b, err := w.placeFork(ctx, want)
		if err != nil {
			return err
		}
		if err := w.Store.RecordForked(ctx, w.c.ID, b.Created); err != nil {
			return fmt.Errorf("record the fork: %w", err)
		}
		if err := w.placed(ctx); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, w.Limits.GiveUp)
	defer cancel()
	seen, err := w.settleRestored(limited, want)
	if err != nil {
		return err
	}
	return w.finish(ctx, seen)
}

// placeFork places the best backup that is whole, and says which.
func (w *work) placeFork(ctx context.Context, want platform.Wanted) (backup.Backup, error) {
	source, err := w.forkSource(ctx)
	if err != nil {
		return backup.Backup{}, err
	}
	all, err := w.Store.BackupsOf(ctx, source.ID)
	if err != nil {
		return backup.Backup{}, fmt.Errorf("list the backups of database %d: %w", source.ID, err)
	}
	var last error = errForkGone
	for _, b := range backup.ForkFrom(all, w.c.Fork.RestoreTime) {
		if b.Created.After(w.op.Created) {
			continue // it wasn't there when the fork was asked for
		}
		last = w.copyFork(ctx, want, source, b)
		if !unusable(last) {
			return b, last
		}
		w.log.WarnContext(ctx, "a backup to fork from is damaged", "source_id", int64(source.ID), "backup_id", int64(b.ID), "error", last)
	}
	if unusable(last) {
		last = &impossible{"The source's backups are damaged and can't be restored."}
	}
	return backup.Backup{}, last
}

// unusable tells that another backup may do where this one won't.
func unusable(err error) bool {
	return errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrNotFound)
}

func (w *work) forkSource(ctx context.Context) (cluster.Cluster, error) {
	if w.c.Fork == nil {
		return cluster.Cluster{}, errSourceGone
	}
	source, err := w.Store.ClusterForWork(ctx, w.c.Fork.Source)
	if fault.IsKind(err, fault.NotFound) || err == nil && (source.Deleted != nil || source.Account != w.c.Account) {
		return source, errSourceGone
	}
	if err != nil {
		return source, fmt.Errorf("read cluster %d: %w", w.c.Fork.Source, err)
	}
	return source, nil
}

// copyFork streams a backup of the source into the new cluster.
func (w *work) copyFork(ctx context.Context, want platform.Wanted, source cluster.Cluster, b backup.Backup) error {
	p := w.report(ctx, "restored", b.Bytes)
	defer p.end()
	m, err := step("verify archive", func() (archive.Manifest, error) { return w.Archive.Verify(ctx, source.ID, b.ID) })
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	from := platform.Source{Copy: m.Copy}
	var keys [2][]byte
	for i, name := range []platform.SecretName{platform.BackupKey, platform.AdminPassword} {
		if keys[i], err = w.Store.Secret(ctx, source.ID, name); err != nil {
			return fmt.Errorf("secret %s of database %d: %w", name, source.ID, err)
		}
	}
	from.AdminPassword = string(keys[1])
	_, content, err := w.Archive.Get(ctx, source.ID, b.ID, keys[0])
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	defer content.Close()
	_, err = step("fork", func() (struct{}, error) {
		return struct{}{}, w.Archiver.Fork(ctx, want, from, content, func(bytes int64) { p.bytes.Store(bytes) })
	})
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	return nil
}
