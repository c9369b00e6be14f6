package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/store/dbsqlc"
)

// firstUser is the name of the user that the first start makes.
const firstUser = "admin"

// EnsureAdmin makes the first account and its unrestricted user, or finds them.
func (t *Tx) EnsureAdmin(ctx context.Context) (account.User, error) {
	id, err := t.q.AccountEnsure(ctx, account.First, t.now())
	if err != nil {
		return account.User{}, classify(err)
	}
	user, err := t.q.UserByName(ctx, id, firstUser)
	if err == nil {
		return toUser(user), nil
	}
	if err := classify(err); !fault.IsKind(err, fault.NotFound) {
		return account.User{}, err
	}
	return t.CreateUser(ctx, account.User{Account: account.ID(id), Username: firstUser, Email: "admin@localhost"})
}

// CreateUser adds a user to u.Account.
func (q queries) CreateUser(ctx context.Context, u account.User) (account.User, error) {
	row, err := q.q.UserCreate(ctx, dbsqlc.UserCreateParams{
		AccountID: int64(u.Account), Username: u.Username, Email: u.Email,
		Restricted: u.Restricted, AddDatabases: u.AddDatabases, Created: q.now(),
	})
	return toUser(row), classify(err)
}

// User finds a user of the account by name.
func (q queries) User(ctx context.Context, in account.ID, name string) (account.User, error) {
	row, err := q.q.UserByName(ctx, int64(in), name)
	return toUser(row), classify(err)
}

// UserAnywhere finds a user of any account: for operators' commands only.
func (q queries) UserAnywhere(ctx context.Context, name string) (account.User, error) {
	rows, err := q.q.UserAnywhere(ctx, name)
	switch {
	case err != nil:
		return account.User{}, classify(err)
	case len(rows) == 0:
		return account.User{}, fault.NewNotFound()
	case len(rows) > 1:
		return account.User{}, fault.NewPrecondition("More than one account has a user %s", name)
	}
	return toUser(rows[0]), nil
}

// LockUsers reads all users of the account and keeps others from changing them
// until the transaction ends.
func (t *Tx) LockUsers(ctx context.Context, in account.ID) ([]account.User, error) {
	rows, err := t.q.UserLock(ctx, int64(in))
	users := make([]account.User, len(rows))
	for i, row := range rows {
		users[i] = toUser(row)
	}
	return users, classify(err)
}

// UserFields are what users can be filtered and ordered by.
var UserFields = filter.Fields{"username": filter.Text, "email": filter.Text, "restricted": filter.Bool}

var userColumns = columns{"username": "username", "email": "email", "restricted": "restricted"}

func scanUser(row pgx.Row, more ...any) (account.User, error) {
	var u account.User
	err := row.Scan(append([]any{&u.ID, &u.Account, &u.Username, &u.Email, &u.Restricted, &u.AddDatabases, &u.Created}, more...)...)
	return u, err
}

// Users is one page of the account's users, and how many match.
func (q queries) Users(ctx context.Context, in account.ID, list ListQuery) ([]account.User, int, error) {
	l := listing[account.User]{
		sqlBuilder: sqlBuilder{columns: userColumns}, own: "id", scan: scanUser,
		what: "SELECT id, account_id, username, email, restricted, add_databases, created",
	}
	l.from = "users WHERE account_id = " + l.arg(int64(in))
	return l.page(ctx, q.db, list)
}

// UpdateUser writes name, e-mail and rights of u.ID.
func (q queries) UpdateUser(ctx context.Context, u account.User) error {
	return classify(q.q.UserUpdate(ctx, dbsqlc.UserUpdateParams{
		AccountID: int64(u.Account), ID: int64(u.ID), Username: u.Username, Email: u.Email,
		Restricted: u.Restricted, AddDatabases: u.AddDatabases,
	}))
}

// DeleteUser removes a user with its tokens and grants.
func (q queries) DeleteUser(ctx context.Context, in account.ID, id account.UserID) error {
	n, err := q.q.UserDelete(ctx, int64(in), int64(id))
	return oneRow(n, err)
}

// Grants are the user's permissions on every database of its account.
func (q queries) Grants(ctx context.Context, u account.User) ([]account.Grant, error) {
	rows, err := q.q.UserGrants(ctx, int64(u.ID), int64(u.Account))
	grants := make([]account.Grant, len(rows))
	for i, r := range rows {
		grants[i] = account.Grant{Cluster: r.ClusterID, Label: r.Label, Permission: account.Permission(r.Permission)}
	}
	return grants, classify(err)
}

// SetGrant gives or, with NoPermission, takes a permission. A database that
// isn't the account's is NotFound.
func (q queries) SetGrant(ctx context.Context, u account.User, id cluster.ID, p account.Permission) error {
	if p == account.NoPermission {
		return classify(q.q.GrantRemove(ctx, int64(u.ID), int64(id)))
	}
	n, err := q.q.GrantSet(ctx, dbsqlc.GrantSetParams{
		UserID: int64(u.ID), ClusterID: int64(id), AccountID: int64(u.Account), Permission: string(p),
	})
	return oneRow(n, err)
}

// Grant is the user's permission on one database.
func (q queries) Grant(ctx context.Context, u account.UserID, id cluster.ID) (account.Permission, error) {
	p, err := q.q.GrantOf(ctx, int64(u), int64(id))
	if err := classify(err); fault.IsKind(err, fault.NotFound) {
		return account.NoPermission, nil
	}
	return account.Permission(p), classify(err)
}

func toUser(r dbsqlc.User) account.User {
	return account.User{
		ID: account.UserID(r.ID), Account: account.ID(r.AccountID), Username: r.Username, Email: r.Email,
		Restricted: r.Restricted, AddDatabases: r.AddDatabases, Created: r.Created,
	}
}

// oneRow is NotFound when a write found nothing to write to.
func oneRow(n int64, err error) error {
	if err != nil {
		return classify(err)
	}
	if n == 0 {
		return fault.NewNotFound()
	}
	return nil
}
