package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/store/dbsqlc"
)

// SetPassword keeps the hash of a user's password.
func (q queries) SetPassword(ctx context.Context, u account.UserID, hash string) error {
	return classify(q.q.PasswordSet(ctx, dbsqlc.PasswordSetParams{UserID: int64(u), Hash: hash, Changed: q.now()}))
}

// Password is the hash of a user's password; "" when the user has none.
func (q queries) Password(ctx context.Context, u account.UserID) (string, error) {
	hash, err := q.q.PasswordGet(ctx, int64(u))
	if err := classify(err); fault.IsKind(err, fault.NotFound) {
		return "", nil
	}
	return hash, classify(err)
}

// CreateClient registers an application. secret is empty for a public one.
func (q queries) CreateClient(ctx context.Context, c account.Client, secret []byte) (account.Client, error) {
	c.Created = q.now()
	return c, classify(q.q.ClientCreate(ctx, dbsqlc.ClientCreateParams{
		ID: string(c.ID), AccountID: orNull(int64(c.Account)), UserID: orNull(int64(c.Owner)), Label: c.Label, RedirectUri: c.RedirectURI,
		Public: c.Public, SecretHash: secret, OwnScopes: c.OwnScopes.String(), OwnExpiry: c.OwnExpiry, Created: c.Created,
	}))
}

// Client is one application of the account; of owner alone when that isn't 0.
func (q queries) Client(ctx context.Context, in account.ID, owner account.UserID, id account.ClientID) (account.Client, error) {
	row, err := q.q.ClientGet(ctx, dbsqlc.ClientGetParams{AccountID: int64(in), ID: string(id), UserID: int64(owner)})
	if err != nil {
		return account.Client{}, classify(err)
	}
	return toClient(row)
}

// ClientAnywhere is an application of any account with the hash of its secret:
// for the authorization server, which the application comes to by its id alone.
func (q queries) ClientAnywhere(ctx context.Context, id account.ClientID) (account.Client, []byte, error) {
	row, err := q.q.ClientAnywhere(ctx, string(id))
	if err != nil {
		return account.Client{}, nil, classify(err)
	}
	c, err := toClient(row)
	return c, row.SecretHash, err
}

// ClientFields are what applications can be filtered and ordered by.
var ClientFields = filter.Fields{"id": filter.Text, "label": filter.Text, "redirect_uri": filter.Text, "public": filter.Bool}

var clientColumns = columns{"id": "id", "label": "label", "redirect_uri": "redirect_uri", "public": "public"}

func scanClient(row pgx.Row, more ...any) (account.Client, error) {
	var c account.Client
	var scopes string
	err := row.Scan(append([]any{&c.ID, &c.Account, &c.Owner, &c.Label, &c.RedirectURI, &c.Public, &scopes, &c.OwnExpiry, &c.Created}, more...)...)
	if err == nil {
		c.OwnScopes, err = account.ParseScopes(scopes)
	}
	return c, err
}

// Clients is one page of the account's applications, or of owner's alone, and
// how many match.
func (q queries) Clients(ctx context.Context, in account.ID, owner account.UserID, list ListQuery) ([]account.Client, int, error) {
	l := listing[account.Client]{
		sqlBuilder: sqlBuilder{columns: clientColumns}, own: "created, id", scan: scanClient,
		what: "SELECT id, account_id, user_id, label, redirect_uri, public, own_scopes, own_expiry, created",
	}
	l.from = "oauth_clients WHERE account_id = " + l.arg(int64(in))
	if owner != 0 {
		l.from += " AND user_id = " + l.arg(int64(owner))
	}
	return l.page(ctx, q.db, list)
}

// UpdateClient writes label and redirect URI of c.ID.
func (q queries) UpdateClient(ctx context.Context, c account.Client) error {
	n, err := q.q.ClientUpdate(ctx, dbsqlc.ClientUpdateParams{Label: c.Label, RedirectUri: c.RedirectURI, ID: string(c.ID)})
	return oneRow(n, err)
}

// SetClientSecret replaces the hash of an application's secret.
func (q queries) SetClientSecret(ctx context.Context, id account.ClientID, secret []byte) error {
	n, err := q.q.ClientSetSecret(ctx, secret, string(id))
	return oneRow(n, err)
}

// DeleteClient removes an application with all tokens that it holds.
func (q queries) DeleteClient(ctx context.Context, id account.ClientID) error {
	n, err := q.q.ClientDelete(ctx, string(id))
	return oneRow(n, err)
}

func toClient(r dbsqlc.OauthClient) (account.Client, error) {
	scopes, err := account.ParseScopes(r.OwnScopes)
	if err != nil {
		return account.Client{}, err
	}
	return account.Client{
		ID: account.ClientID(r.ID), Account: account.ID(orZero(r.AccountID)), Owner: account.UserID(orZero(r.UserID)), Label: r.Label,
		RedirectURI: r.RedirectUri, Public: r.Public, OwnScopes: scopes, OwnExpiry: r.OwnExpiry, Created: r.Created,
	}, nil
}

// CreateAuthorization begins a family.
func (q queries) CreateAuthorization(ctx context.Context, a account.Authorization) error {
	return classify(q.q.AuthorizationCreate(ctx, dbsqlc.AuthorizationCreateParams{
		Request: a.Request, ClientID: string(a.Client), UserID: int64(a.User), Scopes: a.Scopes.String(), Browser: a.Browser, Address: a.Address, Created: q.now(),
	}))
}

// EndAuthorization revokes all that came of an authorization; NotFound when it
// has ended already.
func (q queries) EndAuthorization(ctx context.Context, request string) error {
	n, err := q.q.AuthorizationDelete(ctx, request)
	return oneRow(n, err)
}

// AppFields are what allowed applications can be filtered and ordered by.
var AppFields = filter.Fields{"id": filter.Number, "label": filter.Text, "website": filter.Text, "scopes": filter.Text, "created": filter.Time}

var appColumns = columns{"id": "a.id", "label": "c.label", "website": "c.redirect_uri", "scopes": "a.scopes", "created": shown("a.created")}

func scanApp(row pgx.Row, more ...any) (account.App, error) {
	var app account.App
	var scopes string
	err := row.Scan(append([]any{&app.ID, &scopes, &app.Created, &app.Label, &app.Website, &app.Expiry, &app.Browser, &app.Address, &app.LastUsed, &app.Current}, more...)...)
	if err == nil {
		app.Scopes, err = account.ParseScopes(scopes)
	}
	return app, err
}

// apps are those that the user of a token allowed, and that are still in use.
func (q queries) apps(u account.UserID, token account.TokenID) listing[account.App] {
	l := listing[account.App]{sqlBuilder: sqlBuilder{columns: appColumns, key: "a.id"}, own: "a.id", scan: scanApp}
	l.what = `SELECT a.id, a.scopes, a.created, c.label, c.redirect_uri,
	(SELECT max(f.expiry) FROM (SELECT r.expiry FROM refresh_tokens r WHERE r.authorization_id = a.id AND NOT r.used
	                            UNION ALL SELECT t.expiry FROM tokens t WHERE t.authorization_id = a.id) f),
	a.browser, a.address, (SELECT max(s.used) FROM console_sessions s WHERE s.authorization_id = a.id),
	EXISTS (SELECT 1 FROM tokens t WHERE t.id = ` + l.arg(int64(token)) + ` AND t.authorization_id = a.id)`
	user, now := l.arg(int64(u)), l.arg(q.now())
	l.from = `authorizations a JOIN oauth_clients c ON c.id = a.client_id WHERE a.user_id = ` + user + `
	AND (EXISTS (SELECT 1 FROM refresh_tokens r WHERE r.authorization_id = a.id AND NOT r.used AND r.expiry > ` + now + `)
	  OR EXISTS (SELECT 1 FROM tokens t WHERE t.authorization_id = a.id AND t.expiry > ` + now + `))`
	return l
}

// Apps is one page of what the user of a token allowed, and is still in use.
func (q queries) Apps(ctx context.Context, u account.UserID, token account.TokenID, list ListQuery) ([]account.App, int, error) {
	return q.apps(u, token).page(ctx, q.db, list)
}

// App is one of them.
func (q queries) App(ctx context.Context, u account.UserID, token account.TokenID, id int64) (account.App, error) {
	l := q.apps(u, token)
	l.from += " AND a.id = " + l.arg(id)
	apps, _, err := l.page(ctx, q.db, ListQuery{})
	if err == nil && len(apps) == 0 {
		err = fault.NewNotFound()
	}
	if err != nil {
		return account.App{}, err
	}
	return apps[0], nil
}

// DeleteApp takes back what the user allowed.
func (q queries) DeleteApp(ctx context.Context, u account.UserID, id int64) error {
	n, err := q.q.AppDelete(ctx, int64(u), id)
	return oneRow(n, err)
}

// Code is an authorization code that hasn't expired.
type Code struct {
	account.Authorization
	RedirectURI string
	// Challenge is PKCE's, by SHA-256; empty when the client sent none.
	Challenge string
	Used      bool
}

// CreateCode adds a code to the family named request.
func (q queries) CreateCode(ctx context.Context, hash TokenHash, request, redirectURI string, expiry time.Time) error {
	n, err := q.q.CodeCreate(ctx, dbsqlc.CodeCreateParams{Hash: hash[:], Request: request, RedirectUri: redirectURI, Expiry: expiry})
	return oneRow(n, err)
}

// SetCodeChallenge adds what the code's verifier will be compared with.
func (q queries) SetCodeChallenge(ctx context.Context, hash TokenHash, challenge string) error {
	n, err := q.q.CodeSetChallenge(ctx, challenge, hash[:])
	return oneRow(n, err)
}

// LockCode finds a code and keeps others from it until the transaction ends.
func (t *Tx) LockCode(ctx context.Context, hash TokenHash) (Code, error) {
	r, err := t.q.CodeGet(ctx, hash[:], t.now())
	if err != nil {
		return Code{}, classify(err)
	}
	a, err := toAuthorization(dbsqlc.AccessTokenGetRow{Request: r.Request, ClientID: r.ClientID, UserID: r.UserID, Scopes: r.Scopes, Created: r.Created})
	return Code{Authorization: a, RedirectURI: r.RedirectUri, Challenge: r.Challenge, Used: r.Used}, err
}

// UseCode marks a code as exchanged. It stays until it expires, so that a
// second attempt is recognised.
func (q queries) UseCode(ctx context.Context, hash TokenHash) error {
	n, err := q.q.CodeUse(ctx, hash[:])
	return oneRow(n, err)
}

// CreateRefreshToken adds a refresh token to the family named request.
func (q queries) CreateRefreshToken(ctx context.Context, hash TokenHash, request string, expiry time.Time) error {
	n, err := q.q.RefreshTokenCreate(ctx, dbsqlc.RefreshTokenCreateParams{Hash: hash[:], Request: request, Expiry: expiry})
	return oneRow(n, err)
}

// LockRefreshToken finds a refresh token, reports whether it was used before, and
// keeps others from it until the transaction ends.
func (t *Tx) LockRefreshToken(ctx context.Context, hash TokenHash) (a account.Authorization, used bool, err error) {
	r, err := t.q.RefreshTokenGet(ctx, hash[:], t.now())
	if err != nil {
		return a, false, classify(err)
	}
	a, err = toAuthorization(dbsqlc.AccessTokenGetRow{Request: r.Request, ClientID: r.ClientID, UserID: r.UserID, Scopes: r.Scopes, Created: r.Created})
	return a, r.Used, err
}

// UseRefreshToken marks a refresh token as exchanged.
func (q queries) UseRefreshToken(ctx context.Context, hash TokenHash) error {
	n, err := q.q.RefreshTokenUse(ctx, hash[:])
	return oneRow(n, err)
}

// CreateAccessToken adds an access token to the family named request.
func (q queries) CreateAccessToken(ctx context.Context, hash TokenHash, request string, scopes account.Scopes, expiry time.Time) error {
	n, err := q.q.AccessTokenCreate(ctx, dbsqlc.AccessTokenCreateParams{
		Hash: hash[:], Request: request, Scopes: scopes.String(), Created: q.now(), Expiry: expiry,
	})
	return oneRow(n, err)
}

// AccessToken is the authorization behind an access token that hasn't expired.
func (q queries) AccessToken(ctx context.Context, hash TokenHash) (account.Authorization, error) {
	r, err := q.q.AccessTokenGet(ctx, hash[:], q.now())
	if err != nil {
		return account.Authorization{}, classify(err)
	}
	return toAuthorization(r)
}

// DeleteAccessTokens revokes the access tokens of a family, which goes on.
func (q queries) DeleteAccessTokens(ctx context.Context, request string) error {
	return classify(q.q.AccessTokensDelete(ctx, request))
}

func toAuthorization(r dbsqlc.AccessTokenGetRow) (account.Authorization, error) {
	scopes, err := account.ParseScopes(r.Scopes)
	return account.Authorization{
		Request: r.Request, Client: account.ClientID(r.ClientID), User: account.UserID(r.UserID), Scopes: scopes, Created: r.Created,
	}, err
}

// Introspect tells about a live token of the account: personal, access or refresh.
func (q queries) Introspect(ctx context.Context, in account.ID, hash TokenHash) (account.Introspection, error) {
	t, err := q.q.TokenIntrospect(ctx, dbsqlc.TokenIntrospectParams{Hash: hash[:], AccountID: int64(in), Now: q.now()})
	if err == nil {
		scopes, err := account.ParseScopes(t.Scopes)
		return account.Introspection{
			User: account.UserID(t.UserID), Username: t.Username, Client: account.ClientID(t.ClientID), Scopes: scopes, Created: t.Created, Expiry: t.Expiry,
		}, err
	}
	if err := classify(err); !fault.IsKind(err, fault.NotFound) {
		return account.Introspection{}, err
	}
	r, err := q.q.RefreshTokenIntrospect(ctx, dbsqlc.RefreshTokenIntrospectParams{Hash: hash[:], AccountID: int64(in), Now: q.now()})
	if err != nil {
		return account.Introspection{}, classify(err)
	}
	scopes, err := account.ParseScopes(r.Scopes)
	return account.Introspection{
		User: account.UserID(r.UserID), Username: r.Username, Client: account.ClientID(r.ClientID), Scopes: scopes, Created: r.Created, Expiry: &r.Expiry, Refresh: true,
	}, err
}

// PurgeAuthorizations removes codes and tokens that expired before a time, and
// families that nothing is left of.
func (t *Tx) PurgeAuthorizations(ctx context.Context, before time.Time) error {
	for _, purge := range []func(context.Context) error{
		func(ctx context.Context) error { return t.q.CodesPurge(ctx, before) },
		func(ctx context.Context) error { return t.q.RefreshTokensPurge(ctx, before) },
		func(ctx context.Context) error { return t.q.AccessTokensPurge(ctx, &before) },
		func(ctx context.Context) error { return t.q.AuthorizationsPurge(ctx, before) },
	} {
		if err := purge(ctx); err != nil {
			return classify(err)
		}
	}
	return nil
}
