package store

import (
	"context"

	"steward/internal/account"
	"steward/internal/store/dbsqlc"
)

// AddOperator makes a user an operator; not twice.
func (t *Tx) AddOperator(ctx context.Context, u account.UserID) (added bool, err error) {
	n, err := t.q.OperatorAdd(ctx, int64(u), t.now())
	return n > 0, classify(err)
}

// RemoveOperator takes that away; NotFound from who isn't one.
func (t *Tx) RemoveOperator(ctx context.Context, u account.UserID) error {
	return oneRow(t.q.OperatorRemove(ctx, int64(u)))
}

// IsOperator reports whether a user is an operator, and bound by no grants.
func (q queries) IsOperator(ctx context.Context, u account.UserID) (bool, error) {
	is, err := q.q.OperatorIs(ctx, int64(u))
	return is, classify(err)
}

// Operator is a user who is one, and the account's name.
type Operator struct {
	account.User
	AccountName string
}

// Operators are all of them, by account and name.
func (q queries) Operators(ctx context.Context) ([]Operator, error) {
	rows, err := q.q.OperatorAll(ctx)
	all := make([]Operator, len(rows))
	for i, r := range rows {
		all[i] = Operator{toUser(dbsqlc.User{
			ID: r.ID, AccountID: r.AccountID, Username: r.Username, Email: r.Email, Restricted: r.Restricted, AddDatabases: r.AddDatabases, Created: r.Created,
		}), r.Account}
	}
	return all, classify(err)
}

// RegionGroup are databases of all accounts in a region that have as many nodes of one plan.
type RegionGroup struct {
	Region string
	Group
}

// RegionGroups are all databases but those that were deleted.
func (q queries) RegionGroups(ctx context.Context) ([]RegionGroup, error) {
	rows, err := q.q.RegionDatabases(ctx)
	groups := make([]RegionGroup, len(rows))
	for i, r := range rows {
		groups[i] = RegionGroup{r.Region, Group{r.Type, int(r.Size), int(r.Databases)}}
	}
	return groups, classify(err)
}
