package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/converge"
	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/recovery"
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
	opened, err := openBucket(ctx, a.paths, a.o.Config, a.o.Archive, a.log)
	if err != nil {
		return err
	}
	a.later(opened.Close)
	a.archiver, a.archive = archiver, opened
	a.recovery = recovery.NewKeeper(a.store, opened, a.sealer)
	return a.spareIDs(ctx)
}

// openBucket opens the place where a server's backups are.
func openBucket(ctx context.Context, p paths, c Config, place string, log *slog.Logger) (*archive.Archive, error) {
	place, err := bucketURL(cmp.Or(place, c.Backups.URL, p.backups()))
	if err != nil {
		return nil, err
	}
	opened, err := archive.Open(ctx, archive.Options{URL: place, Logger: log, Timeout: c.Backups.Timeout})
	if err != nil {
		return nil, fmt.Errorf("backups (--backups): %w", err)
	}
	return opened, nil
}

// bucketURL is a folder as a URL; a URL stays what it is.
func bucketURL(place string) (string, error) {
	if strings.Contains(place, "://") {
		return place, nil
	}
	folder, err := filepath.Abs(place)
	if err != nil {
		return "", fmt.Errorf("backups (--backups): %w", err)
	}
	return (&url.URL{Scheme: "file", Path: folder}).String(), nil
}

// spareIDs keeps an empty store from giving out ids that the bucket has backups
// under: those of a server that was lost would be overwritten.
func (a *App) spareIDs(ctx context.Context) error {
	all, err := a.store.ClustersForWork(ctx)
	if err != nil || len(all) > 0 {
		return err
	}
	stored, err := a.archive.List(ctx)
	if err != nil {
		return fmt.Errorf("backups (--backups): %w", err)
	}
	return reserve(ctx, a.store, stored)
}

func reserve(ctx context.Context, s *store.Store, stored []archive.Stored) error {
	var c cluster.ID
	var b backup.ID
	for _, found := range stored {
		c, b = max(c, found.Cluster), max(b, found.Backup)
	}
	return s.ReserveIDs(ctx, c, b)
}

func (a *App) operateOptions() operate.Options {
	o := operate.Options{
		Store: a.store, Driver: a.host, Catalog: a.catalog, Desk: a.desk(), Logger: a.log,
		KeepDeleted: a.o.Backups.KeepAfterDelete, Reapply: a.o.Restore.Credentials == "reapply",
		Limits: operate.Limits{Copying: a.o.Backups.RetryFor}, Now: failpoint.Now,
	}
	if a.archiver != nil {
		o.Archiver, o.Archive, o.Recovery = a.archiver, a.archive, a.recovery
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
		Store: a.store, Driver: a.host, Catalog: a.catalog, Desk: a.desk(), Logger: a.log,
		Now:         failpoint.Now,
		Maintenance: converge.MaintenanceOptions{AtOnce: a.o.Maintenance.AtOnce},
		Backups:     converge.BackupOptions{Schedule: schedule, Keep: c.Keep, Verify: c.Verify, KeepDeleted: c.KeepAfterDelete},
	}
	if a.archiver != nil {
		o.Archiver, o.Archive, o.Recovery = a.archiver, a.archive, a.recovery
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
		undone := operation.Params{Failed: c.Status == cluster.Failed}
		if undone.Backup, undone.BackupLabel, err = tx.BackupInPlace(ctx, c.ID); err != nil {
			return err
		}
		if c, err = tx.Transition(ctx, c, cluster.Restore); err != nil {
			return err
		}
		_, err = tx.CreateOperation(ctx, operation.Operation{
			Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: operation.RestoreUndo,
			Status: operation.Scheduled, Params: undone,
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
