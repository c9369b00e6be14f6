package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/store"
)

// Backups are the use cases of a database's backups.
type Backups struct{ clusterChanges }

// NewSnapshot is what a snapshot is asked for with. An empty target means the primary.
type NewSnapshot struct {
	Label  string
	Target backup.Target
}

// List is a page of a database's backups, newest first, and how many match.
func (s *Backups) List(ctx context.Context, p account.Principal, engine cluster.Engine, of cluster.ID, q store.ListQuery) ([]backup.Backup, int, error) {
	if err := s.visible(ctx, p, engine, of); err != nil {
		return nil, 0, err
	}
	return s.Store.Backups(ctx, store.ViewerOf(p), of, q)
}

// View is one of a database's backups.
func (s *Backups) View(ctx context.Context, p account.Principal, engine cluster.Engine, of cluster.ID, id backup.ID) (backup.Backup, error) {
	if err := s.visible(ctx, p, engine, of); err != nil {
		return backup.Backup{}, err
	}
	return s.Store.Backup(ctx, store.ViewerOf(p), of, id)
}

// visible is nil when the database can be asked for its backups.
func (s *Backups) visible(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return err
	}
	return refusals(c, cluster.RequestBackups).Err()
}

// refusals are what keeps a request about backups from being let through.
func refusals(c cluster.Cluster, r cluster.Request) fault.Faults {
	return faultsIn(cluster.Require(c.Status, r))
}

// Create begins a snapshot. What could have changed since it was checked is
// checked again under the row's lock, which the change of status takes.
func (s *Backups) Create(ctx context.Context, p account.Principal, engine cluster.Engine, of cluster.ID, in NewSnapshot, faults fault.Faults) error {
	if in.Target == "" {
		in.Target = backup.FromPrimary
	}
	faults = combine(faults, append(backup.ValidateLabel(in.Label), backup.ValidateTarget(in.Target)...))
	check := func(c cluster.Cluster) error {
		existing, err := s.Store.BackupsOf(ctx, c.ID)
		if err != nil {
			return err
		}
		found := append(s.region(c, backedUp, "backed up"), refusals(c, cluster.RequestSnapshot)...)
		found = append(found, room(existing, in.Label)...)
		return combine(faults, found).Err()
	}
	_, err := s.change(ctx, p, engine, of, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		return s.beginSnapshot(ctx, tx, p, c, in)
	})
	return err
}

func (s *Backups) beginSnapshot(ctx context.Context, tx *store.Tx, p account.Principal, c cluster.Cluster, in NewSnapshot) (cluster.Cluster, error) {
	c, err := tx.Transition(ctx, c, cluster.Backup)
	if err != nil {
		return c, err
	}
	existing, err := tx.BackupsOf(ctx, c.ID)
	if err != nil {
		return c, err
	}
	if err := room(existing, in.Label).Err(); err != nil {
		return c, err
	}
	if c.Size == 1 {
		in.Target = backup.FromPrimary
	}
	b, err := tx.CreateBackup(ctx, backup.Backup{Account: c.Account, Cluster: c.ID, Type: backup.Snapshot, Label: in.Label, Target: in.Target})
	if err != nil {
		return c, err
	}
	return c, s.begin(ctx, tx, p, c, operation.Backup, operation.Params{Backup: b.ID, BackupLabel: b.Label})
}

// room is what keeps another snapshot from being taken. One that failed doesn't
// count, but its label does: it is listed until it is deleted.
func room(existing []backup.Backup, label string) fault.Faults {
	var faults fault.Faults
	snapshots := 0
	for _, b := range existing {
		if b.Type == backup.Snapshot && b.State != backup.Failed {
			snapshots++
		}
		if b.Label == label {
			faults = append(faults, store.BackupLabelTaken())
		}
	}
	if snapshots >= backup.Snapshots {
		faults = append(faults, fault.NewPrecondition("The database has %d snapshots, and there can't be more; delete one of them first.", snapshots))
	}
	return faults
}

// Delete takes a backup off the list at once and begins to remove it from the archive.
func (s *Backups) Delete(ctx context.Context, p account.Principal, engine cluster.Engine, of cluster.ID, id backup.ID) error {
	var chosen backup.Backup
	check := func(c cluster.Cluster) (err error) {
		chosen, err = s.check(ctx, p, c, id, cluster.RequestBackups, s.deletable)
		return err
	}
	_, err := s.change(ctx, p, engine, of, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		if err := tx.MarkDeleting(ctx, id); err != nil {
			return c, err
		}
		if err := s.Issues.Drop(ctx, tx, c.Account, outage.OfBackup(c.ID, id), "The backup was deleted.", s.Now()); err != nil {
			return c, err
		}
		return c, s.begin(ctx, tx, p, c, operation.BackupDelete, operation.Params{Backup: id, BackupLabel: chosen.Label})
	})
	return err
}

// Restore begins to replace all of a database's data by a backup's.
func (s *Backups) Restore(ctx context.Context, p account.Principal, engine cluster.Engine, of cluster.ID, id backup.ID) error {
	var chosen backup.Backup
	check := func(c cluster.Cluster) (err error) {
		chosen, err = s.check(ctx, p, c, id, cluster.RequestRestore, restorable)
		return err
	}
	_, err := s.change(ctx, p, engine, of, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		params := operation.Params{Backup: id, BackupLabel: chosen.Label, Failed: c.Status == cluster.Failed}
		return s.beginChange(ctx, tx, p, c, cluster.Restore, operation.Restore, params)
	})
	return err
}

// RestoreTo begins to replace all of a database's data by what it was at a moment, which lies in one of
// RestoreWindows or, where what servers write is archived, between the last of them and now.
func (s *Backups) RestoreTo(ctx context.Context, p account.Principal, engine cluster.Engine, of cluster.ID, to *time.Time, faults fault.Faults) error {
	var chosen backup.Backup
	check := func(c cluster.Cluster) (err error) {
		found := append(s.region(c, backedUp, "restored"), refusals(c, cluster.RequestRestore)...)
		if to != nil && s.Catalog.For(c.Region, c.Engine).Backups {
			var wrong fault.Faults
			if chosen, wrong, err = s.leadingTo(ctx, c, *to); err != nil {
				return err
			}
			found = append(found, wrong...)
		}
		return combine(faults, found).Err()
	}
	_, err := s.change(ctx, p, engine, of, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		params := operation.Params{Backup: chosen.ID, BackupLabel: chosen.Label, Failed: c.Status == cluster.Failed, To: to}
		return s.beginChange(ctx, tx, p, c, cluster.Restore, operation.Restore, params)
	})
	return err
}

// leadingTo is the backup from which a moment is restored; wrong says why there is none.
func (s *Backups) leadingTo(ctx context.Context, c cluster.Cluster, to time.Time) (_ backup.Backup, wrong fault.Faults, err error) {
	id := c.ID
	all, err := s.Store.BackupsOf(ctx, id)
	if err != nil {
		return backup.Backup{}, nil, fmt.Errorf("list the backups of database %d: %w", id, err)
	}
	if exact := backup.ForkFrom(all, &to); len(exact) > 0 {
		return exact[0], nil, nil
	}
	restores, gaps, err := s.Store.Breaks(ctx, id)
	if err != nil {
		return backup.Backup{}, nil, fmt.Errorf("look for what breaks the history of database %d: %w", id, err)
	}
	now := s.Now()
	// What is archived by the time that the restore begins can be had as well.
	windows := backup.Windows(all, s.continuous(c), restores, gaps, now.Add(backup.ArchiveDelay))
	if to.After(now) || !slices.ContainsFunc(windows, func(w backup.Window) bool { return !to.Before(w.From) && !to.After(w.To) }) {
		wrong.Add("to", "Must lie in one of the database's restore-windows%s", lastOf(windows, now))
		return backup.Backup{}, wrong, nil
	}
	restored, err := s.Store.LastRestore(ctx, id, to)
	if err != nil {
		return backup.Backup{}, nil, fmt.Errorf("look for restores of database %d: %w", id, err)
	}
	from := backup.RecoverFrom(all, to, restored)
	if len(from) == 0 {
		wrong.Add("to", "Must lie in one of the database's restore-windows%s", lastOf(windows, now))
		return backup.Backup{}, wrong, nil
	}
	return from[0], nil, nil
}

// lastOf says which the last window is.
func lastOf(windows []backup.Window, now time.Time) string {
	if len(windows) == 0 {
		return "; it has none yet: take a backup first"
	}
	last := windows[len(windows)-1]
	if last.To.After(now) {
		last.To = now
	}
	return fmt.Sprintf("; the last one is %s to %s", filter.FormatTime(last.From), filter.FormatTime(last.To))
}

// UndoRestore begins to bring back the data that the last restore replaced, which is kept for backup.SetAside.
func (s *Backups) UndoRestore(ctx context.Context, p account.Principal, engine cluster.Engine, of cluster.ID) error {
	check := func(c cluster.Cluster) error {
		found := append(s.region(c, backedUp, "restored"), refusals(c, cluster.RequestRestore)...)
		there, err := s.Store.Undoable(ctx, c.ID, s.Now().Add(-backup.SetAside))
		if err != nil {
			return fmt.Errorf("look for the last restore of database %d: %w", c.ID, err)
		}
		if !there {
			found = append(found, fault.NewPrecondition("There is no restore to undo: none replaced the data in the last %d hours, or it was undone already.", int(backup.SetAside.Hours())))
		}
		return found.Err()
	}
	_, err := s.change(ctx, p, engine, of, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		undone := operation.Params{Failed: c.Status == cluster.Failed}
		var err error
		if undone.Backup, undone.BackupLabel, err = tx.BackupInPlace(ctx, c.ID); err != nil {
			return c, err
		}
		return s.beginChange(ctx, tx, p, c, cluster.Restore, operation.RestoreUndo, undone)
	})
	return err
}

// check is the frame of what is asked for one backup: it is there, the database's
// status lets the request through, and so does the backup's state. Whether it is
// there isn't told before the database has any.
func (s *Backups) check(ctx context.Context, p account.Principal, c cluster.Cluster, id backup.ID, r cluster.Request,
	of func(ctx context.Context, b backup.Backup) error,
) (backup.Backup, error) {
	refused := refusals(c, r)
	b, err := s.Store.Backup(ctx, store.ViewerOf(p), c.ID, id)
	if fault.IsKind(err, fault.NotFound) && len(refusals(c, cluster.RequestBackups)) > 0 {
		return b, refused.Err()
	}
	if err != nil {
		return b, err
	}
	err = of(ctx, b)
	found := faultsIn(err)
	if err != nil && len(found) == 0 {
		return b, err
	}
	return b, append(refused, found...).Err()
}

// deletable is nil for a backup that neither runs nor is being restored.
func (s *Backups) deletable(ctx context.Context, b backup.Backup) error {
	if b.State == backup.Running {
		return fault.NewPrecondition("The backup is being taken; wait until it is complete.")
	}
	going, err := s.Store.UnfinishedOperations(ctx, b.Cluster)
	if err != nil {
		return err
	}
	for _, o := range going {
		if o.Action == operation.Restore && o.Params.Backup == b.ID {
			return fault.NewPrecondition("The backup is being restored; wait until that is done.")
		}
	}
	return nil
}

// restorable is nil for a complete backup.
func restorable(_ context.Context, b backup.Backup) error {
	switch b.State {
	case backup.Complete:
		return nil
	case backup.Running:
		return fault.NewPrecondition("The backup is being taken; it can be restored once it is complete.")
	}
	return fault.NewPrecondition("The backup has failed and can't be restored; choose another one.")
}
