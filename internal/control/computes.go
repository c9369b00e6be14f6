package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// Computes are the use cases of an account's machines: customers set how staff
// log in, operators register machines.
type Computes struct{ Deps }

// List is a page of the account's machines.
func (s *Computes) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]monitor.Compute, int, error) {
	if err := unrestricted(p); err != nil {
		return nil, 0, err
	}
	return s.Store.Computes(ctx, p.Account, q)
}

// View is one machine.
func (s *Computes) View(ctx context.Context, p account.Principal, id monitor.ComputeID) (monitor.Compute, error) {
	if err := unrestricted(p); err != nil {
		return monitor.Compute{}, err
	}
	return s.Store.Compute(ctx, p.Account, id)
}

// Update changes how staff log in to a machine.
func (s *Computes) Update(ctx context.Context, p account.Principal, id monitor.ComputeID, in monitor.SSHChange, faults fault.Faults) (monitor.Compute, error) {
	if err := unrestricted(p); err != nil {
		return monitor.Compute{}, err
	}
	var c monitor.Compute
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if c, err = tx.LockCompute(ctx, p.Account, id); err != nil {
			return err
		}
		changed, found := c.SSH.Change(in)
		if err := combine(faults, found).Err(); err != nil {
			return err
		}
		c.SSH = changed
		if err := tx.UpdateSSH(ctx, c); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.ComputeUpdate, computeEntity(id), c.Label)
	})
	return c, err
}

// Register adds a machine to p.Account: an operator's doing, not a customer's.
func (s *Computes) Register(ctx context.Context, p account.Principal, c monitor.Compute) (monitor.Compute, error) {
	if err := c.ValidateRegistered().Err(); err != nil {
		return monitor.Compute{}, err
	}
	c.Account = p.Account
	var made monitor.Compute
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if made, err = tx.CreateCompute(ctx, c); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.ComputeCreate, computeEntity(made.ID), made.Label)
	})
	return made, err
}

// Unregister removes a machine of p.Account, with what was known of its load.
func (s *Computes) Unregister(ctx context.Context, p account.Principal, id monitor.ComputeID) error {
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		c, err := tx.LockCompute(ctx, p.Account, id)
		if err != nil {
			return err
		}
		if err := tx.DeleteCompute(ctx, p.Account, id); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.ComputeDelete, computeEntity(id), c.Label)
	})
}

func computeEntity(id monitor.ComputeID) operation.Entity {
	return operation.Entity{Type: operation.Compute, ID: int64(id)}
}

// Stats are the account's points of the last 24 hours, oldest first: each is the
// sum over the machines that have it.
func (s *Computes) Stats(ctx context.Context, p account.Principal) ([]monitor.Point, error) {
	if err := unrestricted(p); err != nil {
		return nil, err
	}
	return s.Store.PointSums(ctx, p.Account, s.Now().Add(-monitor.StatsWindow))
}
