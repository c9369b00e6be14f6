package converge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/platform"
	"steward/internal/store"
)

// tryOutAgain is when a backup is tried out again that couldn't be read.
const tryOutAgain = time.Hour

// proofAge is for how long it holds that a backup was proven to restore: disks
// and buckets forget.
const proofAge = 7 * 24 * time.Hour

// tryOut restores every new backup, and old ones once a week, into a server of its own, one at a time, oldest
// first: a backup is worth what was proven of it.
func (k *Keeper) tryOut(ctx context.Context) error {
	leased, release, ok, err := k.Store.LeaseVerify(ctx)
	if err != nil || !ok {
		return err
	}
	defer release()
	for {
		c, b, err := k.unproven(leased)
		if err != nil || b.ID == 0 {
			return err
		}
		if err := k.prove(leased, c, b); err != nil {
			if leased.Err() != nil {
				return err
			}
			k.puzzling[b.ID] = k.Now().Add(tryOutAgain)
			k.Logger.WarnContext(leased, "try a backup out", "cluster_id", int64(c.ID), "backup_id", int64(b.ID), "error", err)
		}
	}
}

// unproven is the oldest backup that is complete and yet to be tried out; the
// zero value when there is none.
func (k *Keeper) unproven(ctx context.Context) (of cluster.Cluster, oldest backup.Backup, err error) {
	clusters, err := k.Store.ClustersForWork(ctx)
	if err != nil {
		return of, oldest, fmt.Errorf("list databases: %w", err)
	}
	all, err := k.Store.BackupsForWork(ctx)
	if err != nil {
		return of, oldest, fmt.Errorf("list backups: %w", err)
	}
	for _, c := range clusters {
		if c.Deleted != nil {
			continue
		}
		for _, b := range all[c.ID] {
			if k.untried(b) && (oldest.ID == 0 || b.ID < oldest.ID) {
				of, oldest = c, b
			}
		}
	}
	return of, oldest, nil
}

// untried tells whether a backup is to be tried out now.
func (k *Keeper) untried(b backup.Backup) bool {
	proven := b.Verified != nil && k.Now().Sub(*b.Verified) < proofAge
	return b.State == backup.Complete && b.Problem == "" && !proven && !k.puzzling[b.ID].After(k.Now())
}

// prove tries one backup out and records what came of it. An error is about the
// try: nothing is known of the backup then.
func (k *Keeper) prove(ctx context.Context, c cluster.Cluster, b backup.Backup) error {
	want, err := operate.Wanted(c, k.Catalog, false)
	if err != nil {
		return err
	}
	key, err := k.Store.Secret(ctx, c.ID, platform.BackupKey)
	if err != nil {
		return fmt.Errorf("backup key: %w", err)
	}
	m, content, err := k.Archive.Get(ctx, c.ID, b.ID, key)
	if err != nil && !errors.Is(err, archive.ErrDamaged) {
		return fmt.Errorf("read the archive: %w", err)
	}
	if err == nil {
		in := &watched{Reader: content}
		err = k.Archiver.Verify(ctx, want, m.Copy, in)
		content.Close()
		if in.err != nil && !errors.Is(in.err, archive.ErrDamaged) {
			return fmt.Errorf("read the archive: %w", in.err)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return k.recordProof(ctx, c, b, err)
}

// watched remembers why reading ended early.
type watched struct {
	io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// recordProof keeps the result; a bad one is told to the customer as well.
func (k *Keeper) recordProof(ctx context.Context, c cluster.Cluster, b backup.Backup, found error) error {
	problem := ""
	if found != nil {
		problem = found.Error()
		k.Logger.ErrorContext(ctx, "a backup doesn't restore", "cluster_id", int64(c.ID), "backup_id", int64(b.ID), "error", found)
	}
	err := k.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.BackupVerified(ctx, b.ID, problem); err != nil {
			return err
		}
		if problem == "" {
			return k.Desk.Settle(ctx, tx, c.Account, outage.OfBackup(c.ID, b.ID), "The backup was tried out again and restores.", k.Now())
		}
		message := fmt.Sprintf("The backup %s was tried out and doesn't restore; take another one. The operator's log tells why.", b.Label)
		if err := notify(ctx, tx, c, operation.BackupVerify, message); err != nil {
			return err
		}
		return k.Desk.Raise(ctx, tx, c.Account, outage.OfBackup(c.ID, b.ID), c.Label+": "+message, k.Now())
	})
	if errors.Is(err, store.ErrStale) {
		return nil // deleted meanwhile
	}
	return err
}
