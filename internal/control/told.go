package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/operation"
	"steward/internal/store"
)

// Happened records, in tx, a change that is over. by is the user who made it; "" for an operator of the installation, who isn't named to customers.
func Happened(ctx context.Context, tx *store.Tx, by string, o operation.Operation) error {
	o.Status, o.Username = operation.Finished, by
	_, err := tx.CreateOperation(ctx, o)
	return err
}

// OfUser is the event of an action on a user, which that user sees, too.
func OfUser(action operation.Action, u account.User) operation.Operation {
	return operation.Operation{
		Account: u.Account, Owner: u.ID, Action: action, Label: u.Username,
		Entity: operation.Entity{Type: operation.Person, ID: int64(u.ID), Key: u.Username},
	}
}

// ofToken is the event of an action on a token of a user's.
func ofToken(action operation.Action, owner account.User, t account.Token) operation.Operation {
	return operation.Operation{
		Account: owner.Account, Owner: owner.ID, Action: action, Label: t.Label,
		Entity: operation.Entity{Type: operation.Token, ID: int64(t.ID)},
	}
}

// ofClient is the event of an action on an OAuth client. Its id is no number.
func ofClient(action operation.Action, c account.Client) operation.Operation {
	return operation.Operation{
		Account: c.Account, Owner: c.Owner, Action: action, Label: c.Label,
		Entity: operation.Entity{Type: operation.Client, Key: string(c.ID)},
	}
}

// ofAccount is the event of a change of an account, which its unrestricted users see.
func ofAccount(a account.Account) operation.Operation {
	return operation.Operation{
		Account: a.ID, Action: operation.AccountUpdate, Label: a.Name,
		Entity: operation.Entity{Type: operation.Account, ID: int64(a.ID)},
	}
}
