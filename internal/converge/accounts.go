package converge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/store"
)

// errOtherwise ends a step that isn't wanted any more: the account's status changed.
var errOtherwise = errors.New("the account's status has changed")

// seeToAccounts brings databases in line with the statuses of their accounts. What is
// to be done is seen from the rows alone, and each step of it is one transaction: it
// goes on wherever a server that died has left it.
func (k *Keeper) seeToAccounts(ctx context.Context) error {
	accounts, err := k.Store.AccountsToSettle(ctx)
	if err != nil {
		return fmt.Errorf("list accounts: %w", err)
	}
	var errs []error
	for _, a := range accounts {
		if err := k.settleAccount(ctx, a); err != nil {
			errs = append(errs, fmt.Errorf("account %s: %w", a.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (k *Keeper) settleAccount(ctx context.Context, a account.Account) error {
	if a.Status == account.Deleting {
		if err := k.Store.InTx(ctx, func(tx *store.Tx) error { return tx.ClearAccount(ctx, a.ID) }); err != nil {
			return err
		}
	}
	clusters, err := k.Store.AccountClusters(ctx, a.ID)
	if err != nil {
		return fmt.Errorf("list databases: %w", err)
	}
	if a.Status == account.Deleting && len(clusters) == 0 {
		return k.removeAccount(ctx, a)
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(clusters)) {
		if due(a.Status, clusters[id]) == stay {
			continue
		}
		err := k.settleCluster(ctx, a, id)
		switch {
		case err == nil, errors.Is(err, errOtherwise), errors.Is(err, store.ErrStale), errors.Is(err, store.ErrNoTransition), fault.IsKind(err, fault.NotFound):
			// Somebody else was first: the next look sees what is left.
		default:
			errs = append(errs, fmt.Errorf("database %d: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// step is what is to be done to a database for the sake of its account.
type step int

const (
	// stay is nothing, or nothing yet: what goes on has to end first.
	stay step = iota
	remove
	rest
	wake
	// release is for one that is back some other way than with its account.
	release
)

// due is what an account's status wants of one of its databases now.
func due(of account.Status, c store.AccountCluster) step {
	switch {
	case c.Deleted:
		return stay
	case of == account.Deleting && cluster.Require(c.Status, cluster.RequestDelete) == nil:
		return remove
	case of == account.Suspended && (c.Status == cluster.Active || c.Status == cluster.Degraded):
		return rest
	case of == account.Active && c.RestsWithAccount && c.Status == cluster.Suspended:
		return wake
	case of == account.Active && c.RestsWithAccount && !c.Status.Resting():
		return release
	}
	return stay
}

// settleCluster begins what an account's status wants of one of its databases.
func (k *Keeper) settleCluster(ctx context.Context, a account.Account, id cluster.ID) error {
	return k.Store.InTx(ctx, func(tx *store.Tx) error {
		now, err := tx.HoldAccount(ctx, a.ID)
		if err != nil {
			return err
		}
		if now.Status != a.Status {
			return errOtherwise
		}
		c, err := tx.ClusterForWork(ctx, id)
		if err != nil {
			return err
		}
		all, err := tx.AccountClusters(ctx, a.ID)
		if err != nil {
			return err
		}
		switch due(a.Status, all[id]) {
		case remove:
			return k.beginDelete(ctx, tx, c)
		case rest:
			return k.beginWithAccount(ctx, tx, c, cluster.Suspend, operation.Suspend)
		case wake:
			return k.beginWithAccount(ctx, tx, c, cluster.Resume, operation.Resume)
		case release:
			return tx.SetRestsWithAccount(ctx, c.ID, false)
		}
		return nil
	})
}

// beginWithAccount does what a request to suspend or resume does, in the name of nobody.
func (k *Keeper) beginWithAccount(ctx context.Context, tx *store.Tx, c cluster.Cluster, on cluster.Trigger, action operation.Action) error {
	c, err := tx.Transition(ctx, c, on)
	if err != nil {
		return err
	}
	if err := tx.SetRestsWithAccount(ctx, c.ID, on == cluster.Suspend); err != nil {
		return err
	}
	return k.schedule(ctx, tx, c, operation.Operation{Action: action})
}

func (k *Keeper) beginDelete(ctx context.Context, tx *store.Tx, c cluster.Cluster) error {
	if err := tx.MarkDeleted(ctx, c); err != nil {
		return err
	}
	if err := k.Issues.Drop(ctx, tx, c.Account, outage.OfDatabase(c.ID), "The database was deleted.", k.Now()); err != nil {
		return err
	}
	return k.schedule(ctx, tx, c, operation.Operation{Action: operation.Delete})
}

// removeAccount drops an account of which nothing is left but what it can't be
// without.
func (k *Keeper) removeAccount(ctx context.Context, a account.Account) error {
	failpoint.Here("converge: before an account is removed")
	err := k.Store.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.HoldAccount(ctx, a.ID); err != nil {
			return err
		}
		if err := tx.ClearAccount(ctx, a.ID); err != nil {
			return err
		}
		return tx.RemoveAccount(ctx, a.ID)
	})
	if fault.IsKind(err, fault.NotFound) {
		return nil // another server was first
	}
	if err != nil {
		return fmt.Errorf("remove it: %w", err)
	}
	k.Logger.InfoContext(ctx, "account removed", "account_id", int64(a.ID))
	return nil
}
