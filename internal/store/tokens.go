package store

import (
	"context"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/store/dbsqlc"
)

// TokenHash is the SHA-256 of a token's text: all that is kept of it.
type TokenHash [32]byte

// CreateToken records a token of t.User.
func (q queries) CreateToken(ctx context.Context, t account.Token, hash TokenHash) (account.Token, error) {
	t.Created = q.now()
	id, err := q.q.TokenCreate(ctx, dbsqlc.TokenCreateParams{
		UserID: int64(t.User), Label: t.Label, Prefix: t.Prefix, Hash: hash[:], Scopes: t.Scopes.String(), Created: t.Created, Expiry: t.Expiry,
	})
	t.ID = account.TokenID(id)
	return t, classify(err)
}

// TokenCount is how many tokens the user has, expired ones too.
func (q queries) TokenCount(ctx context.Context, u account.UserID) (int64, error) {
	n, err := q.q.TokenCount(ctx, int64(u))
	return n, classify(err)
}

// Principal is who a token stands for, in one query. Unknown and expired
// tokens are both NotFound.
func (q queries) Principal(ctx context.Context, hash TokenHash) (account.Principal, error) {
	r, err := q.q.TokenPrincipal(ctx, hash[:], q.now())
	if err != nil {
		return account.Principal{}, classify(err)
	}
	scopes, err := account.ParseScopes(r.Scopes)
	if err != nil {
		return account.Principal{}, err
	}
	return account.Principal{
		Account: account.ID(r.AccountID), Token: account.TokenID(r.TokenID), Client: account.ClientID(r.ClientID), Scopes: scopes, TokenExpiry: r.Expiry,
		User: account.User{
			ID: account.UserID(r.UserID), Account: account.ID(r.AccountID), Username: r.Username, Email: r.Email,
			Restricted: r.Restricted, AddDatabases: r.AddDatabases, Created: r.Created,
		},
	}, nil
}

// Tokens is one page of the user's unexpired tokens, and how many there are.
func (q queries) Tokens(ctx context.Context, u account.UserID, page Page) ([]account.Token, int, error) {
	rows, err := q.q.TokenList(ctx, dbsqlc.TokenListParams{UserID: int64(u), Now: q.now(), Size: page.limit(), Skip: page.offset()})
	if err != nil {
		return nil, 0, classify(err)
	}
	tokens, total := make([]account.Token, len(rows)), 0
	for i, r := range rows {
		if tokens[i], err = toToken(dbsqlc.TokenGetRow{
			ID: r.ID, UserID: r.UserID, Label: r.Label, Prefix: r.Prefix, Scopes: r.Scopes, Created: r.Created, Expiry: r.Expiry,
		}); err != nil {
			return nil, 0, err
		}
		total = int(r.Total)
	}
	if len(rows) == 0 && page.Number > 1 {
		all, total, err := q.Tokens(ctx, u, Page{Number: 1, Size: 1})
		return all[:0], total, err
	}
	return tokens, total, nil
}

// Token is one unexpired token of the user.
func (q queries) Token(ctx context.Context, u account.UserID, id account.TokenID) (account.Token, error) {
	r, err := q.q.TokenGet(ctx, dbsqlc.TokenGetParams{UserID: int64(u), ID: int64(id), Now: q.now()})
	if err != nil {
		return account.Token{}, classify(err)
	}
	return toToken(r)
}

// RelabelToken changes what a token says it is for.
func (q queries) RelabelToken(ctx context.Context, u account.UserID, id account.TokenID, label string) error {
	n, err := q.q.TokenRelabel(ctx, dbsqlc.TokenRelabelParams{Label: label, UserID: int64(u), ID: int64(id)})
	return oneRow(n, err)
}

// DeleteToken revokes a token; the next request with it is refused.
func (q queries) DeleteToken(ctx context.Context, u account.UserID, id account.TokenID) error {
	n, err := q.q.TokenDelete(ctx, int64(u), int64(id))
	return oneRow(n, err)
}

func toToken(r dbsqlc.TokenGetRow) (account.Token, error) {
	scopes, err := account.ParseScopes(r.Scopes)
	if err != nil {
		return account.Token{}, fault.NewNotFound()
	}
	return account.Token{
		ID: account.TokenID(r.ID), User: account.UserID(r.UserID), Label: r.Label, Prefix: r.Prefix,
		Scopes: scopes, Created: r.Created, Expiry: r.Expiry,
	}, nil
}
