package app

import (
	"context"
	"fmt"
	"time"

	"steward/internal/backup"
	"steward/internal/converge"
	"steward/internal/failpoint"
	"steward/internal/operate"
	"steward/internal/platform"
	"steward/internal/recovery"
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
	opened, err := a.paths.OpenArchive(ctx, a.o.Config, a.o.Archive, a.log)
	if err != nil {
		return err
	}
	a.later(opened.Close)
	a.archiver, a.archive = archiver, opened
	a.recovery = recovery.NewKeeper(a.store, opened, a.sealer)
	return a.spareIDs(ctx)
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
	return recovery.ReserveIDs(ctx, a.store, stored)
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
