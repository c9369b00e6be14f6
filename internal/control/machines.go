package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// Machines are the use cases of an account's machines: customers set how staff
// log in, operators register machines.
type Machines struct{ Deps }

// List is a page of the account's machines.
func (s *Machines) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]monitor.Machine, int, error) {
	return unrestrictedPage(ctx, p, q, s.Store.Machines)
}

// View is one machine.
func (s *Machines) View(ctx context.Context, p account.Principal, id monitor.MachineID) (monitor.Machine, error) {
	return unrestrictedOne(ctx, p, id, s.Store.Machine)
}

// Update changes how staff log in to a machine.
func (s *Machines) Update(ctx context.Context, p account.Principal, id monitor.MachineID, in monitor.SSHChange, faults fault.Faults) (monitor.Machine, error) {
	if err := unrestricted(p); err != nil {
		return monitor.Machine{}, err
	}
	var c monitor.Machine
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if c, err = tx.LockMachine(ctx, p.Account, id); err != nil {
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
		return s.tell(ctx, tx, p, operation.ComputeUpdate, machineEntity(id), c.Label)
	})
	return c, err
}

// Register adds a machine to p.Account: an operator's doing, not a customer's.
func (s *Machines) Register(ctx context.Context, p account.Principal, c monitor.Machine) (monitor.Machine, error) {
	if err := c.ValidateRegistered().Err(); err != nil {
		return monitor.Machine{}, err
	}
	c.Account = p.Account
	var made monitor.Machine
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if made, err = tx.CreateMachine(ctx, c); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.ComputeCreate, machineEntity(made.ID), made.Label)
	})
	return made, err
}

// Unregister removes a machine of p.Account, with what was known of its load.
func (s *Machines) Unregister(ctx context.Context, p account.Principal, id monitor.MachineID) error {
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		c, err := tx.LockMachine(ctx, p.Account, id)
		if err != nil {
			return err
		}
		if err := tx.DeleteMachine(ctx, p.Account, id); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.ComputeDelete, machineEntity(id), c.Label)
	})
}

func machineEntity(id monitor.MachineID) operation.Entity {
	return operation.Entity{Type: operation.Machine, ID: int64(id)}
}

// Stats are the account's points of the last 24 hours, oldest first: each is the
// sum over the machines that have it.
func (s *Machines) Stats(ctx context.Context, p account.Principal) ([]monitor.Point, error) {
	if err := unrestricted(p); err != nil {
		return nil, err
	}
	return s.Store.PointSums(ctx, p.Account, s.Now().Add(-monitor.StatsWindow))
}
