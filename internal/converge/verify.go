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
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/platform"
	"steward/internal/store"
)

const (
	// readAgain is when a backup is verified again that couldn't be read.
	readAgain = time.Hour
	// verificationAge is for how long it holds that a backup was verified: disks
	// and buckets forget.
	verificationAge = 7 * 24 * time.Hour
)

// verifyAgain is how long after the n-th verification that took too long the next
// one begins: an hour, doubling to the age at which all are verified again.
func verifyAgain(tries int) time.Duration {
	return min(time.Hour<<min(max(tries-1, 0), 10), verificationAge)
}

// verifyBackups verifies every new backup, and old ones once a week. One server
// of all that share the store does.
func (k *Keeper) verifyBackups(v *verifier) func(context.Context) error {
	return func(ctx context.Context) error {
		leased, release, ok, err := k.Store.LeaseVerify(ctx)
		if err != nil || !ok {
			return err
		}
		defer release()
		return v.run(leased)
	}
}

// listUnverified are the backups to verify now.
func (k *Keeper) listUnverified(ctx context.Context) ([]candidate, error) {
	clusters, err := k.clusters(ctx)
	if err != nil {
		return nil, err
	}
	all, err := k.Store.BackupsForWork(ctx)
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	var found []candidate
	for _, c := range clusters {
		for _, b := range all[c.ID] {
			if c.Deleted == nil && k.unverified(b) {
				found = append(found, candidate{c, b})
			}
		}
	}
	return found, nil
}

// unverified reports whether a backup is to be verified now.
func (k *Keeper) unverified(b backup.Backup) bool {
	now := k.Now()
	verified := b.Verified != nil && now.Sub(*b.Verified) < verificationAge
	waits := b.VerifyAfter != nil && b.VerifyAfter.After(now) || k.unreadable[b.ID].After(now)
	return b.State == backup.Complete && b.Problem == "" && !verified && !waits
}

// verify restores a backup into a server of its own: a backup is worth what was
// verified of it. found is what is wrong with it; with an error, which is about the
// attempt, nothing is known.
func (k *Keeper) verify(ctx context.Context, of candidate) (found, err error) {
	c, b := of.c, of.b
	want, err := platform.NewWanted(c, k.Catalog, false)
	if err != nil {
		return nil, err
	}
	if k.Driver.KeepsBackups(c) {
		return k.verifyKept(ctx, want, b)
	}
	key, err := k.Store.Secret(ctx, c.ID, platform.BackupKey)
	if err != nil {
		return nil, fmt.Errorf("backup key: %w", err)
	}
	m, content, err := k.Archive.Get(ctx, c.ID, b.ID, key)
	if errors.Is(err, archive.ErrDamaged) {
		return err, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	defer content.Close()
	in := &watched{Reader: content}
	found = k.Driver.Verify(ctx, want, m.Copy, in)
	if in.err != nil && !errors.Is(in.err, archive.ErrDamaged) {
		return nil, fmt.Errorf("read the archive: %w", in.err)
	}
	return found, nil
}

// verifyKept is verify of a backup that the platform keeps.
func (k *Keeper) verifyKept(ctx context.Context, want platform.Wanted, b backup.Backup) (found, err error) {
	found = k.Driver.VerifyKept(ctx, want, platform.KeptSource{Backup: b.ID, Ref: b.Ref, Of: want.Cluster})
	if errors.Is(found, platform.ErrAway) {
		return nil, found
	}
	return found, nil
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

// recordVerification keeps what came of a verification. An error is one of the store.
func (k *Keeper) recordVerification(ctx context.Context, r *verification) error {
	delete(k.unreadable, r.b.ID)
	switch {
	case errors.Is(r.cause, errTookTooLong):
		return k.recordUnverified(ctx, r.c, r.b, r.cause)
	case r.cause != nil:
		return ctx.Err()
	case errors.Is(r.found, platform.ErrUnverified):
		return k.recordUnverified(ctx, r.c, r.b, r.found)
	case r.err != nil:
		k.unreadable[r.b.ID] = k.Now().Add(readAgain)
		k.Logger.WarnContext(ctx, "verify a backup", "cluster_id", int64(r.c.ID), "backup_id", int64(r.b.ID), "error", r.err)
		return nil
	}
	return k.recordVerified(ctx, r.c, r.b, r.found)
}

// recordVerified keeps what was found; what is bad is told to the customer as
// well, unless the database was deleted meanwhile.
func (k *Keeper) recordVerified(ctx context.Context, c cluster.Cluster, b backup.Backup, found error) error {
	problem := ""
	if found != nil {
		problem = found.Error()
	}
	err := k.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.BackupVerified(ctx, b.ID, problem); err != nil {
			return err
		}
		if problem == "" {
			if err := tx.TellProven(ctx, c.ID, b.ID, "It was tried out and restores."); err != nil {
				return err
			}
			return k.Issues.Settle(ctx, tx, c.Account, outage.OfBackup(c.ID, b.ID), "The backup was tried out again and restores.", k.Now())
		}
		message := fmt.Sprintf("The backup %s was tried out and doesn't restore; take another one. The operator's log tells why.", b.Label)
		_, err := tx.CreateOperation(ctx, operation.Operation{
			Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: operation.BackupVerify, Status: operation.Notification,
			Message: message, Params: operation.Params{Backup: b.ID, BackupLabel: b.Label},
		})
		if err != nil {
			return err
		}
		return k.Issues.Raise(ctx, tx, c.Account, outage.OfBackup(c.ID, b.ID), c.Label+"'s backup "+b.Label, message, k.Now())
	})
	if errors.Is(err, store.ErrStale) {
		return nil // deleted meanwhile
	}
	if err == nil && found != nil {
		k.Logger.ErrorContext(ctx, "a backup doesn't restore", "cluster_id", int64(c.ID), "backup_id", int64(b.ID), "error", found)
	}
	return err
}

// recordUnverified puts off what took too long: that says nothing of the backup.
func (k *Keeper) recordUnverified(ctx context.Context, c cluster.Cluster, b backup.Backup, why error) error {
	pause := verifyAgain(b.VerifyTries + 1)
	k.Logger.WarnContext(ctx, "a backup couldn't be verified", "cluster_id", int64(c.ID), "backup_id", int64(b.ID), "again_in", pause, "error", why)
	err := k.Store.BackupUnverified(ctx, b.ID, k.Now().Add(pause))
	if errors.Is(err, store.ErrStale) {
		return nil
	}
	return err
}
