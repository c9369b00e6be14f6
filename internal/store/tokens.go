package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/filter"
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
		Account: account.ID(r.AccountID), Status: account.Status(r.AccountStatus), Token: account.TokenID(r.TokenID), Client: account.ClientID(r.ClientID), Scopes: scopes, TokenExpiry: r.Expiry,
		User: account.User{
			ID: account.UserID(r.UserID), Account: account.ID(r.AccountID), Username: r.Username, Email: r.Email,
			Restricted: r.Restricted, AddDatabases: r.AddDatabases, Created: r.Created,
		},
	}, nil
}

// TokenFields are what tokens can be filtered and ordered by.
var TokenFields = filter.Fields{"id": filter.Number, "label": filter.Text, "scopes": filter.Text, "created": filter.Time, "expiry": filter.Time}

var tokenColumns = columns{"id": "id", "label": "label", "scopes": "scopes", "created": shown("created"), "expiry": shown("expiry")}

func scanToken(row pgx.Row, more ...any) (account.Token, error) {
	var t account.Token
	var scopes string
	err := row.Scan(append([]any{&t.ID, &t.User, &t.Label, &t.Prefix, &scopes, &t.Created, &t.Expiry}, more...)...)
	if err == nil {
		t.Scopes, err = account.ParseScopes(scopes)
	}
	return t, err
}

// Tokens is one page of the user's unexpired tokens, and how many match.
func (q queries) Tokens(ctx context.Context, u account.UserID, list ListQuery) ([]account.Token, int, error) {
	l := listing[account.Token]{
		sqlBuilder: sqlBuilder{columns: tokenColumns}, own: "id", scan: scanToken,
		what: "SELECT id, user_id, label, prefix, scopes, created, expiry",
	}
	l.from = "tokens WHERE user_id = " + l.arg(int64(u)) + " AND authorization_id IS NULL AND (expiry IS NULL OR expiry > " + l.arg(q.now()) + ")"
	return l.page(ctx, q.db, list)
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
