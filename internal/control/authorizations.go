package control

import (
	"context"
	"crypto/sha256"
	"time"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/store"
)

// Authorizations are the use cases of what users allow applications.
type Authorizations struct{ Deps }

// InTx carries out one step of a flow: all of it, or nothing. Whom it takes
// access away from is refused from the next request on.
func (s *Authorizations) InTx(ctx context.Context, f func(tx *store.Tx) error) error {
	defer s.principals.forget()
	return s.Store.InTx(ctx, f)
}

// Client is an application by its id alone, with the hash of its secret.
func (s *Authorizations) Client(ctx context.Context, id account.ClientID) (account.Client, []byte, error) {
	if len(id) != 2*clientIDLength {
		return account.Client{}, nil, fault.NewNotFound()
	}
	return s.Store.ClientAnywhere(ctx, id)
}

// Apps is a page of the applications that the caller gave access.
func (s *Authorizations) Apps(ctx context.Context, p account.Principal, q store.ListQuery) ([]account.App, int, error) {
	return s.Store.Apps(ctx, p.User.ID, p.Token, q)
}

// App is one of them.
func (s *Authorizations) App(ctx context.Context, p account.Principal, id int64) (account.App, error) {
	return s.Store.App(ctx, p.User.ID, p.Token, id)
}

// DeleteApp takes an application's access back.
func (s *Authorizations) DeleteApp(ctx context.Context, p account.Principal, id int64) error {
	defer s.principals.forget()
	return s.Store.DeleteApp(ctx, p.User.ID, id)
}

// Introspect tells unrestricted users about a token of their account; NotFound
// for one that isn't live, or isn't the account's.
func (s *Authorizations) Introspect(ctx context.Context, p account.Principal, token string) (account.Introspection, error) {
	if err := unrestricted(p); err != nil {
		return account.Introspection{}, err
	}
	if len(token) != tokenLength {
		return account.Introspection{}, fault.NewNotFound()
	}
	return s.Store.Introspect(ctx, p.Account, sha256.Sum256([]byte(token)))
}

// remembered is how long what has expired is kept, for those who look into what
// happened yesterday.
const remembered = 24 * time.Hour

// Purge removes codes, tokens and authorizations that ended a day ago.
func (s *Authorizations) Purge(ctx context.Context) error {
	return s.Store.InTx(ctx, func(tx *store.Tx) error { return tx.PurgeAuthorizations(ctx, s.Now().Add(-remembered)) })
}
