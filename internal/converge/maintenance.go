package converge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// MaintenanceOptions are the operator's about maintenance windows.
type MaintenanceOptions struct {
	// AtOnce is how many databases are worked on at the same time; 2 unless set.
	AtOnce int
	// Every is the time between two looks for what is due; 10 s unless set.
	Every time.Duration
}

// seeToMaintenance looks what each database waits for, tells of it a day ahead,
// and begins it in the database's window; databases that are to grow do so at once.
func (k *Keeper) seeToMaintenance(ctx context.Context) error {
	clusters, err := k.clusters(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range clusters {
		if !mine(c) {
			continue
		}
		err := k.maintain(ctx, c)
		if errors.Is(err, platform.ErrAway) {
			err = nil // its region is told of
		}
		if err := errors.Join(err, k.grow(ctx, c)); err != nil {
			errs = append(errs, fmt.Errorf("maintenance of database %d: %w", c.ID, err))
		}
	}
	return errors.Join(errs...)
}

// maintain does for one database what is due now. What it waits for is looked up
// anew each time: a patch, a resize or a restore in between may have done it.
func (k *Keeper) maintain(ctx context.Context, c cluster.Cluster) error {
	tasks, err := k.Driver.Pending(ctx, platform.Wanted{Cluster: c, Patch: true})
	if err != nil {
		return fmt.Errorf("look what it waits for: %w", err)
	}
	if !slices.EqualFunc(tasks, c.Maintenance.Tasks, sameTask) {
		err := k.Store.RecordTasksOf(ctx, c, tasks)
		if errors.Is(err, store.ErrStale) {
			return nil // it is looked at again soon
		}
		if err != nil {
			return fmt.Errorf("record what it waits for: %w", err)
		}
		c.Maintenance.Tasks = tasks
	}
	switch step, start, end := c.MaintenanceDue(k.Now()); step {
	case cluster.MaintenanceAnnounce:
		return k.announceMaintenance(ctx, c, start, end)
	case cluster.MaintenanceBegin:
		return k.beginMaintenance(ctx, c, start, end)
	}
	return nil
}

func sameTask(a, b cluster.Task) bool {
	if a.Deadline != nil && b.Deadline != nil && a.Deadline.Equal(*b.Deadline) {
		a.Deadline = b.Deadline
	}
	return a == b
}

// announceMaintenance tells, once, what the next window brings.
func (k *Keeper) announceMaintenance(ctx context.Context, c cluster.Cluster, start, end time.Time) error {
	message := fmt.Sprintf("In the maintenance window from %s to %s: %s",
		start.Format(windowTime), end.Format(windowTime), cluster.DescribeTasks(c.Maintenance.Tasks))
	err := k.Store.InTx(ctx, func(tx *store.Tx) error {
		first, err := tx.RecordAnnounced(ctx, c.ID, start)
		if err != nil || !first {
			return err
		}
		if err := stillOpens(ctx, tx, c.ID, start, end); err != nil {
			return err
		}
		if err := notify(ctx, tx, c, operation.MaintenanceScheduled, message); err != nil {
			return err
		}
		return k.tellWindow(ctx, tx, monitor.NoticeAnnounced, c, start, end)
	})
	if errors.Is(err, errMoved) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}

// tellWindow has contacts told, if the operator wants it, what is done in a window.
func (k *Keeper) tellWindow(ctx context.Context, tx *store.Tx, kind monitor.NoticeKind, c cluster.Cluster, start, end time.Time) error {
	return k.Issues.TellWindow(ctx, tx, kind, c, monitor.NoticeWindow{Start: start, End: end, Work: cluster.DescribeTasks(c.Maintenance.Tasks)})
}

// windowTime is how people are told when a window is.
const windowTime = "2006-01-02 15:04 UTC"

// errNoRoom ends the beginning of maintenance when enough is going on.
var errNoRoom = errors.New("as much maintenance as may be is going on")

// errMoved ends what was due in a window that is another one now.
var errMoved = errors.New("the window was moved")

// stillOpens fails with errMoved when a database's owner has chosen another window since the database was listed. What the
// transaction has recorded of the window before keeps the owner from doing so until it ends.
func stillOpens(ctx context.Context, tx *store.Tx, id cluster.ID, start, end time.Time) error {
	c, err := tx.ClusterForWork(ctx, id)
	if err != nil {
		return err
	}
	if from, to := c.Updates.Current(start); !from.Equal(start) || !to.Equal(end) {
		return errMoved
	}
	return nil
}

// beginMaintenance does what a request for a patch does, in the name of nobody and
// until the window's end. It stays due when others are worked on, or when somebody
// else was first to change the database.
func (k *Keeper) beginMaintenance(ctx context.Context, c cluster.Cluster, start, end time.Time) error {
	failpoint.Here("converge: before maintenance begins")
	err := k.Store.InTx(ctx, func(tx *store.Tx) error {
		running, err := tx.MaintenanceRunning(ctx)
		if err != nil {
			return err
		}
		if running >= k.Maintenance.AtOnce {
			return errNoRoom
		}
		first, err := tx.RecordBegun(ctx, c.ID, start)
		if err != nil || !first {
			return err
		}
		if err := stillOpens(ctx, tx, c.ID, start, end); err != nil {
			return err
		}
		if _, err := tx.Transition(ctx, c, cluster.Change); err != nil {
			return err
		}
		err = k.schedule(ctx, tx, c, operation.Operation{
			Action: operation.Maintenance, Message: cluster.DescribeTasks(c.Maintenance.Tasks), Params: operation.Params{Until: &end},
		})
		if err != nil {
			return err
		}
		return k.tellWindow(ctx, tx, monitor.NoticeBegun, c, start, end)
	})
	if errors.Is(err, errNoRoom) || errors.Is(err, errMoved) || errors.Is(err, store.ErrNoTransition) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	failpoint.Here("converge: after maintenance begins")
	return nil
}
