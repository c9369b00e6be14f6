package store

import (
	"context"
	"time"

	"steward/internal/account"
	"steward/internal/store/dbsqlc"
)

// ConsoleSession is a browser that is logged in to the console.
type ConsoleSession struct {
	// Hash is that of the browser's cookie, which alone opens Sealed.
	Hash   TokenHash
	Sealed []byte
	// Version grows each time Sealed is replaced.
	Version int64
	Created time.Time
	Used    time.Time
	// Confirmed is when the user's password was last given.
	Confirmed time.Time
}

// CreateConsoleSession adds a session that begins now, of the user whose token it has: it ends
// with the token's authorization.
func (q queries) CreateConsoleSession(ctx context.Context, s ConsoleSession, token account.TokenID) error {
	n, err := q.q.ConsoleSessionCreate(ctx, dbsqlc.ConsoleSessionCreateParams{Hash: s.Hash[:], Tokens: s.Sealed, TokenID: int64(token), Now: q.now()})
	return oneRow(n, err)
}

// ConsoleSession finds a session that was used after idle and created after oldest.
func (q queries) ConsoleSession(ctx context.Context, hash TokenHash, idle, oldest time.Time) (ConsoleSession, error) {
	r, err := q.q.ConsoleSessionGet(ctx, dbsqlc.ConsoleSessionGetParams{Hash: hash[:], Idle: idle, Oldest: oldest})
	return ConsoleSession{Hash: hash, Sealed: r.Tokens, Version: r.Version, Created: r.Created, Used: r.Used, Confirmed: r.Confirmed}, classify(err)
}

// UseConsoleSession notes that the session is in use.
func (q queries) UseConsoleSession(ctx context.Context, hash TokenHash) error {
	return classify(q.q.ConsoleSessionUse(ctx, q.now(), hash[:]))
}

// ConfirmConsoleSession notes that the user's password was given.
func (q queries) ConfirmConsoleSession(ctx context.Context, hash TokenHash) error {
	n, err := q.q.ConsoleSessionConfirm(ctx, q.now(), hash[:])
	return oneRow(n, err)
}

// ClaimConsoleSession reports whether the caller is to renew the session's tokens:
// nobody has since this version, and nobody who claimed it after stale is at it.
func (q queries) ClaimConsoleSession(ctx context.Context, hash TokenHash, version int64, stale time.Time) (bool, error) {
	n, err := q.q.ConsoleSessionClaim(ctx, dbsqlc.ConsoleSessionClaimParams{Now: new(q.now()), Hash: hash[:], Version: version, Stale: stale})
	return n > 0, classify(err)
}

// ReleaseConsoleSession lets another renew the session's tokens.
func (q queries) ReleaseConsoleSession(ctx context.Context, hash TokenHash, version int64) error {
	return classify(q.q.ConsoleSessionRelease(ctx, hash[:], version))
}

// RenewConsoleSession replaces what a session holds; NotFound when somebody has
// replaced or ended it.
func (q queries) RenewConsoleSession(ctx context.Context, hash TokenHash, version int64, sealed []byte) error {
	n, err := q.q.ConsoleSessionRenew(ctx, dbsqlc.ConsoleSessionRenewParams{Tokens: sealed, Hash: hash[:], Version: version})
	return oneRow(n, err)
}

// EndConsoleSession removes a session, if it is there.
func (q queries) EndConsoleSession(ctx context.Context, hash TokenHash) error {
	return classify(q.q.ConsoleSessionDelete(ctx, hash[:]))
}

// PurgeConsole removes sessions that ended by time with all that belongs to them, and links that expired.
func (q queries) PurgeConsole(ctx context.Context, idle, oldest time.Time) error {
	if err := q.q.ConsoleAuthorizationsPurge(ctx, idle, oldest); err != nil {
		return classify(err)
	}
	if err := q.q.ConsoleSessionsPurge(ctx, idle, oldest); err != nil {
		return classify(err)
	}
	return classify(q.q.LoginLinksPurge(ctx, q.now()))
}

// ReplaceLoginLink makes a link with which the user can set a password, and ends
// the user's earlier ones.
func (t *Tx) ReplaceLoginLink(ctx context.Context, hash TokenHash, user account.UserID, expiry time.Time) error {
	if err := t.q.LoginLinksDelete(ctx, int64(user)); err != nil {
		return classify(err)
	}
	return classify(t.q.LoginLinkCreate(ctx, dbsqlc.LoginLinkCreateParams{Hash: hash[:], UserID: int64(user), Expiry: expiry}))
}

// LoginLink is whose link it is; NotFound for one that was used or has expired.
func (q queries) LoginLink(ctx context.Context, hash TokenHash) (account.User, error) {
	row, err := q.q.LoginLinkUser(ctx, hash[:], q.now())
	return toUser(row), classify(err)
}

// UseLoginLink ends a link; NotFound when another was faster.
func (q queries) UseLoginLink(ctx context.Context, hash TokenHash) error {
	n, err := q.q.LoginLinkUse(ctx, hash[:], q.now())
	return oneRow(n, err)
}

// AccountOfUser is whose user it is.
func (q queries) AccountOfUser(ctx context.Context, id account.UserID) (account.ID, error) {
	of, err := q.q.UserAccount(ctx, int64(id))
	return account.ID(of), classify(err)
}
