package control

import (
	"context"
	"errors"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// clusterChanges is the frame of the use cases that change databases.
type clusterChanges struct{ Deps }

// changeAttempts is how often a change is begun anew when others were first;
// each time one of them has got through.
const changeAttempts = 20

// change is the frame of everything that changes a database: may the caller
// write, does check let it through, one transaction. Another writer in between
// means to look again.
func (s *clusterChanges) change(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID,
	check func(c cluster.Cluster) error, do func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error),
) (cluster.Cluster, error) {
	for range changeAttempts {
		c, err := s.changeOnce(ctx, p, engine, id, check, do)
		if !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrNoTransition) {
			return c, err
		}
	}
	return cluster.Cluster{}, fault.NewPrecondition("The database is being changed by too many requests at once; send them one after the other.")
}

func (s *clusterChanges) changeOnce(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID,
	check func(c cluster.Cluster) error, do func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error),
) (cluster.Cluster, error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return c, err
	}
	if err := s.mayWrite(ctx, p, id); err != nil {
		return c, err
	}
	if err := check(c); err != nil {
		return c, err
	}
	changed := c
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		changed, err = do(tx, c)
		return err
	})
	return changed, err
}

// when checks nothing but the status.
func when(r cluster.Request) func(cluster.Cluster) error {
	return func(c cluster.Cluster) error { return cluster.Require(c.Status, r) }
}

// mayWrite: a restricted user needs a read_write grant. That the database can
// be seen is known by now.
func (s *clusterChanges) mayWrite(ctx context.Context, p account.Principal, id cluster.ID) error {
	if !p.User.Restricted {
		return nil
	}
	permission, err := s.Store.Grant(ctx, p.User.ID, id)
	if err != nil {
		return err
	}
	if permission != account.ReadWrite {
		return fault.NewForbidden()
	}
	return nil
}

// beginChange puts the transient status into effect and begins the work.
func (s *clusterChanges) beginChange(ctx context.Context, tx *store.Tx, p account.Principal, c cluster.Cluster, on cluster.Trigger,
	action operation.Action, params operation.Params,
) (cluster.Cluster, error) {
	c, err := tx.Transition(ctx, c, on)
	if err != nil {
		return c, err
	}
	return c, s.begin(ctx, tx, p, c, action, params)
}
