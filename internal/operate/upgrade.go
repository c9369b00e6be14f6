package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/parameter"
	"steward/internal/platform"
	"steward/internal/spell"
	"steward/internal/store"
)

// upgrade moves a database to a newer series: a backup first, then the move on a copy of the data, then what can be done while
// customers use it. Up to the pause nothing is touched, and from then on the old data is set aside.
func (w *work) upgrade(ctx context.Context) error {
	if !w.op.Params.Placed {
		want, err := w.wanted(false)
		if err != nil {
			return err
		}
		if err := w.backupFirst(ctx, want); err != nil {
			return err
		}
		if err := w.moveSeries(ctx, want); err != nil {
			return err
		}
		if err := w.placed(ctx); err != nil {
			return err
		}
	}
	want, err := w.ofItsSeries(ctx)
	if err != nil {
		return err
	}
	seen, err := w.settleInTime(ctx, want)
	if err != nil {
		return err
	}
	note, err := step("finish upgrade", func() (string, error) { return w.Driver.FinishUpgrade(ctx, want) })
	if err != nil {
		return fmt.Errorf("finish upgrade: %w", err)
	}
	w.op.Params.Note = strings.TrimSpace(w.op.Params.Note + " " + note)
	return w.finish(ctx, seen)
}

// backupFirst takes the backup that an upgrade begins with.
func (w *work) backupFirst(ctx context.Context, want platform.Wanted) error {
	b, err := w.Store.BackupForWork(ctx, w.op.Params.Backup)
	if err != nil {
		return fmt.Errorf("read backup %d: %w", w.op.Params.Backup, err)
	}
	if b.State == backup.Complete {
		return nil
	}
	key, err := w.backupKey(ctx)
	if err != nil {
		return err
	}
	stored, err := w.copyTo(ctx, want, b, key)
	switch {
	case errors.Is(err, archive.ErrFull):
		return errors.Join(&impossible{reason: FullReason}, err)
	case errors.Is(err, platform.ErrBlocked):
		return errors.Join(&impossible{reason: BlockedReason}, err)
	case err != nil:
		return fmt.Errorf("back up: %w", err)
	}
	w.saveRecovery(ctx)
	b.State, b.Bytes, b.StoredBytes, b.Installation = backup.Complete, stored.Bytes, stored.StoredBytes, stored.Copy.Installation
	return w.end(ctx, func(tx *store.Tx) error { return tx.FinishBackup(ctx, b) })
}

// moveSeries has the platform move the data.
func (w *work) moveSeries(ctx context.Context, want platform.Wanted) error {
	want.Series = w.op.Params.Series
	var dropped []string
	want.Config, dropped = w.configOf(w.op.Params.Series)
	if len(dropped) > 0 {
		w.op.Params.Note = fmt.Sprintf("These settings don't exist in the new version and were taken away: %s.", strings.Join(dropped, ", "))
	}
	p := w.report(ctx, "in the backup; the copy is made", used(w.c))
	defer p.end()
	p.bytes.Store(used(w.c))
	_, err := step("upgrade", func() (struct{}, error) {
		return struct{}{}, w.Driver.Upgrade(ctx, want, func() error { return w.touched(ctx) })
	})
	if refused, ok := errors.AsType[*platform.NoUpgradeError](err); ok {
		return &impossible{reason: strings.Join(refused.Reasons, " "), cause: refused.Cause}
	}
	if err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	return nil
}

// configOf is the part of the database's settings that a series has, and the names of the others.
func (w *work) configOf(series string) (kept parameter.Config, dropped []string) {
	to, _ := w.Catalog.Abilities(w.c.Region).Engine(w.c.Engine, series)
	return w.c.Config.OfferedOn(parameter.Server{Family: string(w.c.Engine), Series: series, Libraries: to.Libraries})
}

// ofItsSeries makes the row say of which series the data is that was put in place, and returns what is wanted of it. Settings that the series
// doesn't have go.
func (w *work) ofItsSeries(ctx context.Context) (platform.Wanted, error) {
	seen, err := w.Driver.Observe(ctx, w.c.ID)
	if err != nil {
		return platform.Wanted{}, fmt.Errorf("look which version the data is of: %w", err)
	}
	series := cluster.SeriesOf(seen.Installation)
	if series == "" || series == w.c.Series || w.Driver.KeepsBackups(w.c) {
		return w.wanted(false)
	}
	changed := w.c
	changed.Series, changed.Installation = series, seen.Installation
	changed.Config, _ = w.configOf(series)
	err = w.end(ctx, func(tx *store.Tx) (err error) {
		w.c, err = tx.UpdateCluster(ctx, changed)
		return err
	})
	if err != nil {
		return platform.Wanted{}, err
	}
	return w.wanted(false)
}

// giveUpgradeUp leaves the database as it was, with the data from before. One that was moved, and couldn't be finished, stays so.
func (w *work) giveUpgradeUp(ctx context.Context, reason string) (again time.Duration, err error) {
	if w.op.Params.Placed {
		return 0, w.end(ctx, func(tx *store.Tx) error {
			return errors.Join(w.move(ctx, tx, w.c, cluster.GiveUp), tx.FinishOperation(ctx, w.op.ID, operation.FailedStatus, reason+
				" The database is of the new version; undo the restore to bring back what was before."))
		})
	}
	limited, cancel := context.WithTimeout(ctx, w.Limits.Pass)
	defer cancel()
	want, err := w.wanted(false)
	if err == nil {
		_, err = step("abandon upgrade", func() (struct{}, error) { return struct{}{}, w.Driver.Abandon(limited, want) })
	}
	if err != nil {
		return w.retry(ctx, err)
	}
	trigger := cluster.Ready
	seen, err := w.settleFor(limited, want, w.Limits.Quick)
	if err != nil {
		w.log.WarnContext(ctx, "the database doesn't serve again after an upgrade that was given up", "error", err)
		trigger = cluster.GiveUp
	}
	w.op.Params.Touched = false // nothing was replaced, and nothing can be undone
	if err := w.Store.SaveParams(ctx, w.op.ID, w.op.Params); err != nil {
		return 0, fmt.Errorf("note that nothing was replaced: %w", err)
	}
	if err := w.dropUnfinishedBackup(ctx, "The upgrade that it was taken for was given up."); err != nil {
		return w.retry(ctx, err)
	}
	return 0, w.end(ctx, func(tx *store.Tx) error {
		if trigger == cluster.Ready {
			if err := tx.RecordObserved(ctx, w.c.ID, seen); err != nil {
				return err
			}
		}
		return errors.Join(w.move(ctx, tx, w.c, trigger), tx.FinishOperation(ctx, w.op.ID, operation.FailedStatus, reason+" The data is as it was."))
	})
}

// dropUnfinishedBackup ends the backup of work that is given up before it was complete.
func (w *work) dropUnfinishedBackup(ctx context.Context, why string) error {
	b, err := w.Store.BackupForWork(ctx, w.op.Params.Backup)
	if fault.IsKind(err, fault.NotFound) || err == nil && b.State != backup.Running {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read backup %d: %w", w.op.Params.Backup, err)
	}
	if err := w.dropBackup(ctx, b.ID); err != nil {
		w.log.WarnContext(ctx, "remove what was copied", "error", err) // the search for orphans will find it
	}
	failed := backup.Backup{ID: b.ID, State: backup.Failed, Problem: why}
	return w.end(ctx, func(tx *store.Tx) error { return tx.FinishBackup(ctx, failed) })
}

// checkUpgrade tries an upgrade on a copy of the data, and keeps what was found with the operation.
func (w *work) checkUpgrade(ctx context.Context) error {
	b, err := w.completeBackup(ctx, "The backup that it was to be tried on is gone.")
	if err != nil {
		return err
	}
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	want.Series, want.Suspended = w.op.Params.Series, false
	want.Config, _ = w.configOf(want.Series)
	found, err := w.try(ctx, want, b)
	if err != nil {
		return err
	}
	w.op.Params.Trial = &operation.Trial{Reasons: found.Reasons, PauseMS: found.Pause.Milliseconds()}
	if err := w.Store.SaveParams(ctx, w.op.ID, w.op.Params); err != nil {
		return fmt.Errorf("keep what was found: %w", err)
	}
	return w.end(ctx, func(tx *store.Tx) error {
		return tx.FinishOperation(ctx, w.op.ID, operation.Finished, describeTrial(want.Series, found))
	})
}

// describeTrial tells people what was found.
func describeTrial(series string, found platform.Trial) string {
	if len(found.Reasons) > 0 {
		return fmt.Sprintf("It can't be moved to version %s: %s", series, strings.Join(found.Reasons, " "))
	}
	return fmt.Sprintf("It can be moved to version %s; nobody could write for about %s.", series, spell.Duration(found.Pause.Round(time.Second)))
}

// try has the platform try it on a backup.
func (w *work) try(ctx context.Context, want platform.Wanted, b backup.Backup) (found platform.Trial, err error) {
	p := w.report(ctx, "copied to try it", b.Bytes)
	defer p.end()
	opened, err := w.openBackup(ctx, b)
	if err != nil {
		return found, err
	}
	defer opened.content.Close()
	return step("try upgrade", func() (platform.Trial, error) {
		return w.Driver.TryUpgrade(ctx, want, opened.copy, counting{opened.content, &p.bytes})
	})
}
