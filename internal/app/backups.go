package app

import (
	"context"
	"fmt"
	"time"

	"steward/internal/backup"
	"steward/internal/converge"
	"steward/internal/failpoint"
	"steward/internal/operate"
	"steward/internal/recovery"
)

// backupSpread is over how long automatic backups begin, so that they don't all
// do at the same moment.
const backupSpread = 5 * time.Minute

// openArchive opens the place where backups are kept.
func (a *App) openArchive(ctx context.Context) (err error) {
	if a.archive, err = a.dir.OpenArchive(ctx, a.o.Config, a.o.Archive, a.log); err != nil {
		return err
	}
	a.recovery = recovery.NewKeeper(a.store, a.archive, a.sealer)
	return nil
}

// reserveIDs keeps an empty store from giving out ids that the bucket has backups
// under: those of a server that was lost would be overwritten.
func (a *App) reserveIDs(ctx context.Context) error {
	all, err := a.store.ClustersForWork(ctx)
	if err != nil || len(all) > 0 {
		return err
	}
	stored, err := a.archive.List(ctx)
	if err != nil {
		return fmt.Errorf("backups (--backups): %w", err)
	}
	return recovery.ReserveIDs(ctx, a.store, stored)
}

func (a *App) operateOptions() operate.Options {
	return operate.Options{
		Store: a.store, Driver: a.regions, Catalog: a.catalog, Issues: a.issueTracker(), Logger: a.log,
		KeepDeleted: a.o.Backups.KeepAfterDelete, KeepFinal: a.o.Backups.KeepFinal, Reapply: a.o.Restore.Credentials == "reapply",
		Limits: operate.Limits{Copying: a.o.Backups.RetryFor}, Now: failpoint.Now,
		Archive: a.archive, Recovery: a.recovery, Sources: a.sources,
	}
}

func (a *App) keeperOptions() (converge.Options, error) {
	c := a.o.Backups
	schedule, err := backup.ParseSchedule(c.Schedule)
	if err != nil {
		return converge.Options{}, fmt.Errorf("backups.schedule: %w", err)
	}
	schedule.Spread = backupSpread
	return converge.Options{
		Store: a.store, Driver: a.regions, Catalog: a.catalog, Issues: a.issueTracker(), Logger: a.log, Quotas: a.o.DefaultQuotas(),
		Now:         failpoint.Now,
		Maintenance: converge.MaintenanceOptions{AtOnce: a.o.Maintenance.AtOnce},
		Backups:     converge.BackupOptions{Schedule: schedule, Keep: c.Keep, Verify: c.Verify, KeepDeleted: c.KeepAfterDelete},
		Archive:     a.archive, Recovery: a.recovery, Enqueue: a.enqueue,
	}, nil
}
