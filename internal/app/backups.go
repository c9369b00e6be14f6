package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/converge"
	"steward/internal/fault"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// backupSpread is over how long automatic backups begin, so that they don't all
// do at the same moment.
const backupSpread = 5 * time.Minute

// openArchive opens the place where backups are kept, on a platform that takes any.
func (a *App) openArchive(ctx context.Context) error {
	archiver, ok := any(a.host).(platform.Archiver)
	if !ok {
		return nil
	}
	place := cmp.Or(a.o.Archive, a.o.Backups.URL, (&url.URL{Scheme: "file", Path: a.paths.backups()}).String())
	opened, err := archive.Open(ctx, archive.Options{URL: place, Logger: a.log})
	if err != nil {
		return fmt.Errorf("backups (--backups): %w", err)
	}
	a.later(opened.Close)
	a.archiver, a.archive = archiver, opened
	return nil
}

func (a *App) operateOptions() operate.Options {
	o := operate.Options{
		Store: a.store, Driver: a.host, Catalog: a.catalog, Logger: a.log,
		KeepDeleted: a.o.Backups.KeepAfterDelete, Reapply: a.o.Restore.Credentials == "reapply",
	}
	if a.archiver != nil {
		o.Archiver, o.Archive = a.archiver, a.archive
	}
	return o
}

func (a *App) keeperOptions() (converge.Options, error) {
	c := a.o.Backups
	schedule, err := backup.ParseSchedule(c.Schedule)
	if err != nil {
		return converge.Options{}, fmt.Errorf("backups.schedule: %w", err)
	}
	schedule.Spread = backupSpread
	o := converge.Options{
		Store: a.store, Driver: a.host, Catalog: a.catalog, Logger: a.log,
		Backups: converge.BackupOptions{Schedule: schedule, Keep: c.Keep, Verify: c.Verify, KeepDeleted: c.KeepAfterDelete},
	}
	if a.archiver != nil {
		o.Archiver, o.Archive = a.archiver, a.archive
	}
	return o, nil
}

// UndoRestore asks for the data back that a database's last restore replaced.
// The sweep of the server finds the operation.
func (x *Access) UndoRestore(ctx context.Context, id int64) error {
	return x.store.InTx(ctx, func(tx *store.Tx) error {
		c, err := known(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := cluster.Require(c.Status, cluster.RequestRestore); err != nil {
			return err
		}
		failed := c.Status == cluster.Failed
		if c, err = tx.Transition(ctx, c, cluster.Restore); err != nil {
			return err
		}
		_, err = tx.CreateOperation(ctx, operation.Operation{
			Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: operation.RestoreUndo,
			Status: operation.Scheduled, Params: operation.Params{Failed: failed},
		})
		return err
	})
}

// Readmit ends what a restore of an older root password brought about: upkeep
// then sets the one that the API answers, and finds the database well.
func (x *Access) Readmit(ctx context.Context, id int64) error {
	return x.store.InTx(ctx, func(tx *store.Tx) error {
		c, err := known(ctx, tx, id)
		if err != nil {
			return err
		}
		if !c.LockedOut {
			return fmt.Errorf("database %d (%s) has the password that the API shows", c.ID, c.Label)
		}
		return tx.SetLockedOut(ctx, c.ID, false)
	})
}

// Undelete shows a deleted database again whose backups were kept: failed, and
// to be restored.
func (x *Access) Undelete(ctx context.Context, id int64) error {
	return x.store.InTx(ctx, func(tx *store.Tx) error {
		err := tx.Undelete(ctx, cluster.ID(id))
		if errors.Is(err, store.ErrStale) {
			return fmt.Errorf("no backups are kept of a deleted database %d", id)
		}
		return err
	})
}

func known(ctx context.Context, tx *store.Tx, id int64) (cluster.Cluster, error) {
	c, err := tx.ClusterForWork(ctx, cluster.ID(id))
	if fault.IsKind(err, fault.NotFound) || err == nil && c.Deleted != nil {
		return c, fmt.Errorf("there is no database %d; `steward node list` shows their ids", id)
	}
	return c, err
}
