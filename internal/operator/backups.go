package operator

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

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
