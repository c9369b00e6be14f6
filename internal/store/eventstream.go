package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/operation"
)

const eventsTopic = "steward_events"

// List is one whose changes are told without an event of their own.
type List string

// The lists. Log-ins are told of when the audit trail has their lines.
const (
	// AuditTrail is an account's, for its unrestricted users.
	AuditTrail List = "audit"
	// LoginList are the log-ins of an account, and of one of its users.
	LoginList List = "logins"
	// AppList are the applications that a user gave access.
	AppList List = "apps"
	// AccountList are all accounts with what they have, for operators.
	AccountList List = "accounts"
)

// Hint says that a list has changed: an account's, a user's; of any where that is 0.
type Hint struct {
	List    List
	Account account.ID
	User    account.UserID
}

// AnyList are the hints after which nobody has missed one.
func AnyList() []Hint {
	return []Hint{{List: AuditTrail}, {List: LoginList}, {List: AppList}, {List: AccountList}}
}

// ListenEvents calls changed whenever events may have changed, and hinted for each hint, until ctx ends.
func (s *Store) ListenEvents(ctx context.Context, changed func(), hinted func(...Hint)) {
	missed := func() {
		changed()
		hinted(AnyList()...)
	}
	s.listen(ctx, eventsTopic, missed, func(payload string) {
		var h Hint
		if n, _ := fmt.Sscan(payload, &h.List, &h.Account, &h.User); n == 3 {
			hinted(h)
			return
		}
		changed()
	})
}

// EventSnapshot is which transactions have ended by now.
func (q queries) EventSnapshot(ctx context.Context) (operation.Snapshot, error) {
	var text string
	if err := q.db.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&text); err != nil {
		return operation.Snapshot{}, classify(err)
	}
	s, ok := operation.ParseSnapshot(text)
	if !ok {
		return s, fmt.Errorf("snapshot %q can't be read", text)
	}
	return s, nil
}

// ChangedEvents are at most so many that changed between two snapshots, as they are now, in the order of the
// transactions that changed them, from behind a position in that on. One that has changed again
// since isn't among them. With a viewer they are those that it sees.
func (q queries) ChangedEvents(ctx context.Context, v *Viewer, from operation.Position, most int) ([]operation.Changed, error) {
	b := sqlBuilder{}
	sql := selectOperation + ", changed::text::bigint FROM operations WHERE changed >= " + b.arg(fmt.Sprint(from.From.Xmin)) + "::text::xid8" +
		" AND NOT pg_visible_in_snapshot(changed, " + b.arg(from.From.String()) + "::pg_snapshot) AND pg_visible_in_snapshot(changed, " + b.arg(from.To.String()) + "::pg_snapshot)" +
		" AND (changed, id) > (" + b.arg(fmt.Sprint(from.Xid)) + "::text::xid8, " + b.arg(int64(from.ID)) + ")"
	if v != nil {
		sql += " AND " + b.visibleEvents(*v)
	}
	rows, err := q.db.Query(ctx, sql+" ORDER BY changed, id LIMIT "+b.arg(most), b.args...)
	if err != nil {
		return nil, classify(err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (operation.Changed, error) {
		var xid int64
		o, err := scanOperation(row, &xid)
		return operation.Changed{Operation: o, Xid: uint64(xid)}, err
	})
}

// Following is whom a token stands for, who follows events.
type Following struct {
	User    account.UserID
	Account account.ID
	// Restricted users see what is their own, or what they have a grant for.
	Restricted bool
	// Operator is one of the installation's.
	Operator bool
}

// Sees reports whether the list of a hint is one that this user may read.
func (f Following) Sees(h Hint) bool {
	in, own := h.Account == 0 || h.Account == f.Account, h.User == 0 || h.User == f.User
	switch h.List {
	case AuditTrail:
		return in && !f.Restricted
	case LoginList:
		return in && (own || !f.Restricted)
	case AppList:
		return own
	}
	return h.List == AccountList && f.Operator
}

// StillFollowing are the tokens, of those given, that are good.
func (q queries) StillFollowing(ctx context.Context, tokens []account.TokenID) (map[account.TokenID]Following, error) {
	rows, err := q.db.Query(ctx, `SELECT t.id, u.id, u.account_id, u.restricted, NOT u.restricted AND EXISTS (SELECT 1 FROM operators o WHERE o.user_id = u.id)
		FROM tokens t JOIN users u ON u.id = t.user_id JOIN accounts a ON a.id = u.account_id
		WHERE t.id = ANY ($1) AND (t.expiry IS NULL OR t.expiry > $2) AND a.status = $3`, numbers(tokens), q.now(), string(account.Active))
	if err != nil {
		return nil, classify(err)
	}
	all := map[account.TokenID]Following{}
	var token account.TokenID
	var f Following
	_, err = pgx.ForEachRow(rows, []any{&token, &f.User, &f.Account, &f.Restricted, &f.Operator}, func() error {
		all[token] = f
		return nil
	})
	return all, classify(err)
}

// GrantsAmong are which of the databases each of the users has a grant for.
func (q queries) GrantsAmong(ctx context.Context, users []account.UserID, clusters []cluster.ID) (map[account.UserID]map[cluster.ID]bool, error) {
	rows, err := q.db.Query(ctx, "SELECT user_id, cluster_id FROM grants WHERE user_id = ANY ($1) AND cluster_id = ANY ($2)", numbers(users), numbers(clusters))
	if err != nil {
		return nil, classify(err)
	}
	all := map[account.UserID]map[cluster.ID]bool{}
	var user account.UserID
	var id cluster.ID
	_, err = pgx.ForEachRow(rows, []any{&user, &id}, func() error {
		if all[user] == nil {
			all[user] = map[cluster.ID]bool{}
		}
		all[user][id] = true
		return nil
	})
	return all, classify(err)
}
