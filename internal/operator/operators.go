package operator

import (
	"context"
	"fmt"

	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// AddOperator lets a user do by the API and the console what operators do, from the next request on.
func (x *Access) AddOperator(ctx context.Context, of, username string) error {
	user, err := x.user(ctx, of, username)
	if err != nil {
		return err
	}
	if user.Restricted {
		return fmt.Errorf("%s is restricted to what it is granted: an operator can't be", username)
	}
	return x.store.InTx(ctx, func(tx *store.Tx) error {
		if added, err := tx.AddOperator(ctx, user.ID); err != nil || !added {
			return err
		}
		if err := control.Happened(ctx, tx, "", control.OfUser(operation.PersonUpdate, user)); err != nil {
			return err
		}
		return tx.AddAudit(ctx, operatorDid("steward operator add", user))
	})
}

// RemoveOperator takes that away, from the next request on.
func (x *Access) RemoveOperator(ctx context.Context, of, username string) error {
	user, err := x.user(ctx, of, username)
	if err != nil {
		return err
	}
	err = x.store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.RemoveOperator(ctx, user.ID); err != nil {
			return err
		}
		if err := control.Happened(ctx, tx, "", control.OfUser(operation.PersonUpdate, user)); err != nil {
			return err
		}
		return tx.AddAudit(ctx, operatorDid("steward operator remove", user))
	})
	if fault.IsKind(err, fault.NotFound) {
		return fmt.Errorf("%s is no operator: `steward operator list` has all", username)
	}
	return err
}

// Operators are all of them.
func (x *Access) Operators(ctx context.Context) ([]store.Operator, error) {
	return x.store.Operators(ctx)
}
