package converge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/store"
	"steward/internal/wait"
)

// Archive is what is asked of the place where backups are kept: an archive.Archive.
type Archive interface {
	List(ctx context.Context) ([]archive.Stored, error)
	Get(ctx context.Context, of cluster.ID, id backup.ID, key []byte) (archive.Manifest, io.ReadCloser, error)
	Delete(ctx context.Context, of cluster.ID, id backup.ID) error
	DeleteCluster(ctx context.Context, of cluster.ID) error
	PutSegment(ctx context.Context, w archive.Segment, key []byte, r io.Reader) error
	ListSegments(ctx context.Context, of cluster.ID) ([]archive.Segment, error)
	DeleteSegments(ctx context.Context, all ...archive.Segment) error
}

// Recovery keeps beside a database's backups what it takes to bring it back on
// another server: a recovery.Keeper.
type Recovery interface {
	Current(c cluster.Cluster) bool
	Refresh(ctx context.Context, c cluster.Cluster) error
}

// BackupOptions are the operator's about backups.
type BackupOptions struct {
	// Schedule is when automatic backups are taken.
	Schedule backup.Schedule
	// Keep is how many of them are kept; backup.Autos unless set.
	Keep int
	// Verify has each backup tried out after it was taken.
	Verify bool
	// Verification bounds that; what is left out gets its default.
	Verification VerifyLimits
	// KeepDeleted is how long the backups of deleted databases are kept.
	KeepDeleted time.Duration
	// Every is the time between two looks for what is due; 10 s unless set.
	Every time.Duration
}

const (
	// backupsAtOnce is how many automatic backups are begun before another ends:
	// a database that only waits for a slot can be changed meanwhile.
	backupsAtOnce = 4
	// retryAuto is when an automatic backup that failed is taken again.
	retryAuto = time.Hour
	// searchPace is how many searches for other orphans go by between two of the
	// archive: to list an object store costs money.
	searchPace = 6
	// orphanAge is how old something in the archive is before it can be an orphan.
	orphanAge = 24 * time.Hour
)

// repeat does something now and then, until ctx ends.
func (k *Keeper) repeat(ctx context.Context, every time.Duration, what string, do func(context.Context) error) {
	wait.Repeat(ctx, every, func() {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			k.Logger.WarnContext(ctx, "look after databases", "what", what, "error", err)
		}
	})
}

// seeToBackups takes automatic backups that are due and drops those that have
// had their time.
func (k *Keeper) seeToBackups(ctx context.Context) error {
	clusters, err := k.clusters(ctx)
	if err != nil {
		return err
	}
	all, err := k.Store.BackupsForWork(ctx)
	if err != nil {
		return fmt.Errorf("list backups: %w", err)
	}
	going := goingOn(all)
	var errs []error
	for _, c := range clusters {
		if day, due := k.due(c, all[c.ID]); due && going.room(c.Account) {
			began, err := k.beginBackup(ctx, c, day)
			errs = append(errs, err)
			if began {
				going[c.Account]++
			}
		}
		errs = append(errs, k.dropBackups(ctx, c, all[c.ID]), k.dropDeleted(ctx, c), k.refreshRecovery(ctx, c, all[c.ID]))
	}
	return errors.Join(errs...)
}

// automatics are how many automatic backups go on, by account. Customers'
// snapshots don't count: somebody who asks for many would keep others' from beginning.
type automatics map[account.ID]int

func goingOn(all map[cluster.ID][]backup.Backup) automatics {
	going := automatics{}
	for _, backups := range all {
		for _, b := range backups {
			if b.State == backup.Running && b.Type == backup.Auto {
				going[b.Account]++
			}
		}
	}
	return going
}

// room reports whether one more of the account's may begin. The last place is
// kept for an account that has none.
func (a automatics) room(of account.ID) bool {
	free := backupsAtOnce
	for _, n := range a {
		free -= n
	}
	return free > 1 || free == 1 && a[of] == 0
}

// due reports whether an automatic backup is, and of which day: none in regions that have no backups. A day that went by
// while nobody ran, or while the database couldn't be backed up, is made good.
func (k *Keeper) due(c cluster.Cluster, backups []backup.Backup) (day time.Time, due bool) {
	if c.Status != cluster.Active || c.Deleted != nil || !k.Catalog.For(c.Region, c.Engine).Backups {
		return day, false
	}
	now, last := k.Now(), c.LastAuto
	autos := slices.DeleteFunc(slices.Clone(backups), func(b backup.Backup) bool { return b.Type != backup.Auto || b.State == backup.Deleting })
	if len(autos) > 0 && autos[0].State == backup.Failed {
		if autos[0].Finished.Add(retryAuto).After(now) {
			return day, false
		}
		last = nil
		if good := slices.IndexFunc(autos, func(b backup.Backup) bool { return b.State != backup.Failed }); good >= 0 {
			last = &autos[good].Created
		}
	}
	return backup.Due(now, last, c.Created, k.Backups.Schedule, c.ID)
}

// beginBackup does what a request for a snapshot does, in the name of nobody. Of
// three nodes it is a replica that has the work.
func (k *Keeper) beginBackup(ctx context.Context, c cluster.Cluster, day time.Time) (bool, error) {
	b := backup.Backup{Account: c.Account, Cluster: c.ID, Type: backup.Auto, Target: backup.FromPrimary}
	if c.Size > 1 {
		b.Target = backup.FromSecondary
	}
	err := k.Store.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.Transition(ctx, c, cluster.Backup); err != nil {
			return err
		}
		existing, err := tx.BackupsOf(ctx, c.ID)
		if err != nil {
			return err
		}
		b.Label = backup.AutoLabel(day, existing)
		made, err := tx.CreateBackup(ctx, b)
		if err != nil {
			return err
		}
		return k.schedule(ctx, tx, c, operation.Operation{
			Action: operation.Backup, Params: operation.Params{Backup: made.ID, BackupLabel: made.Label},
		})
	})
	if errors.Is(err, store.ErrNoTransition) {
		return false, nil // somebody else was first; it stays due
	}
	if err != nil {
		return false, fmt.Errorf("begin the backup of database %d: %w", c.ID, err)
	}
	return true, nil
}

// dropBackups removes what has expired, and what was left of a removal.
func (k *Keeper) dropBackups(ctx context.Context, c cluster.Cluster, backups []backup.Backup) error {
	if c.Deleted != nil || c.Status == cluster.Restoring {
		return nil
	}
	listed := slices.DeleteFunc(slices.Clone(backups), func(b backup.Backup) bool { return b.State == backup.Deleting })
	drop := backup.Expired(listed, k.Backups.Keep, k.Now())
	for _, b := range backups {
		if b.State == backup.Deleting {
			drop = append(drop, b)
		}
	}
	if len(drop) == 0 {
		return nil
	}
	return k.leased(ctx, c.ID, func(ctx context.Context) error {
		var errs []error
		for _, b := range drop {
			errs = append(errs, k.drop(ctx, c, b))
		}
		return errors.Join(errs...)
	})
}

// refreshRecovery keeps up with what changes between two backups. The lease keeps
// a delete from ending in between, after which nothing may be left.
func (k *Keeper) refreshRecovery(ctx context.Context, c cluster.Cluster, backups []backup.Backup) error {
	complete := func(b backup.Backup) bool { return b.State == backup.Complete }
	if c.Deleted != nil || !slices.ContainsFunc(backups, complete) || k.Driver.KeepsBackups(c) || k.Recovery.Current(c) {
		return nil
	}
	return k.leased(ctx, c.ID, func(ctx context.Context) error {
		now, err := k.Store.ClusterForWork(ctx, c.ID)
		if err != nil || now.Deleted != nil {
			return err
		}
		return k.Recovery.Refresh(ctx, now)
	})
}

// drop takes a backup off the list, out of the archive, and forgets it.
func (k *Keeper) drop(ctx context.Context, c cluster.Cluster, b backup.Backup) error {
	if b.State != backup.Deleting {
		err := k.Store.InTx(ctx, func(tx *store.Tx) error {
			if err := tx.MarkDeleting(ctx, b.ID); err != nil {
				return err
			}
			return k.Issues.Drop(ctx, tx, b.Account, outage.OfBackup(b.Cluster, b.ID), "The backup was deleted.", k.Now())
		})
		if errors.Is(err, store.ErrStale) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("drop backup %d: %w", b.ID, err)
		}
	}
	remove := func() error { return k.Archive.Delete(ctx, b.Cluster, b.ID) }
	if k.Driver.KeepsBackups(c) {
		remove = func() error { return k.Driver.DropBackup(ctx, c, b.ID, b.Ref) }
	}
	if err := remove(); err != nil {
		return fmt.Errorf("drop backup %d: %w", b.ID, err)
	}
	return k.Store.ForgetBackup(ctx, b.ID)
}

// dropDeleted removes the backups of a deleted database when they were kept for
// long enough, and with them the last of what is known of it.
func (k *Keeper) dropDeleted(ctx context.Context, c cluster.Cluster) error {
	over := func(c cluster.Cluster) bool {
		kept := c.Deleted == nil || c.Deleted.Add(k.Backups.KeepDeleted).After(k.Now())
		return !kept && (c.FinalUntil == nil || !c.FinalUntil.After(k.Now()))
	}
	if !over(c) {
		return nil
	}
	return k.leased(ctx, c.ID, func(ctx context.Context) error {
		going, err := k.Store.UnfinishedOperations(ctx, c.ID)
		if err != nil || len(going) > 0 {
			return err // its delete has yet to end
		}
		// The delete may have ended since it was listed, and kept a last backup.
		if c, err = k.Store.ClusterForWork(ctx, c.ID); err != nil || !over(c) {
			return err
		}
		remove := func() error { return k.Archive.DeleteCluster(ctx, c.ID) }
		if k.Driver.KeepsBackups(c) {
			remove = func() error { return k.Driver.DropBackups(ctx, c) }
		}
		if err := remove(); err != nil {
			return fmt.Errorf("drop the backups of deleted database %d: %w", c.ID, err)
		}
		return k.Store.InTx(ctx, func(tx *store.Tx) error { return tx.RemoveCluster(ctx, c.ID) })
	})
}

// leased does something while nobody else acts on a database; not now when
// somebody does.
func (k *Keeper) leased(ctx context.Context, id cluster.ID, do func(context.Context) error) error {
	leased, release, ok, err := k.Store.Lease(ctx, id)
	if err != nil || !ok {
		return err
	}
	defer release()
	return do(leased)
}

// searchArchive removes what no row tells of: a crash between two steps leaves
// such. Databases that the store doesn't know at all are spared, since they may
// be another store's, or this one may have been brought back from an older copy.
func (k *Keeper) searchArchive(ctx context.Context) error {
	stored, err := k.Archive.List(ctx)
	if err != nil {
		return fmt.Errorf("list the archive: %w", err)
	}
	clusters, err := k.Store.ClustersForWork(ctx)
	if err != nil {
		return fmt.Errorf("list databases: %w", err)
	}
	all, err := k.Store.BackupsForWork(ctx) // after the archive: rows come first
	if err != nil {
		return fmt.Errorf("list backups: %w", err)
	}
	var errs []error
	foreign := map[cluster.ID]bool{}
	for _, s := range stored {
		known := slices.ContainsFunc(clusters, func(c cluster.Cluster) bool { return c.ID == s.Cluster })
		foreign[s.Cluster] = !known
		tells := func(b backup.Backup) bool { return b.ID == s.Backup && b.State != backup.Failed }
		if !known || s.Modified.Add(orphanAge).After(k.Now()) || slices.ContainsFunc(all[s.Cluster], tells) {
			continue
		}
		k.Logger.InfoContext(ctx, "remove from the archive what no backup owns", "cluster_id", int64(s.Cluster), "backup_id", int64(s.Backup))
		errs = append(errs, k.Archive.Delete(ctx, s.Cluster, s.Backup))
	}
	for id, is := range foreign {
		if is {
			k.Logger.WarnContext(ctx, "the archive holds backups of a database that the store doesn't know; they are left alone", "cluster_id", int64(id))
		}
	}
	return errors.Join(errs...)
}
