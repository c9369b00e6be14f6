package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/filter"
)

// Globals are what else a user was granted.
func (q queries) Globals(ctx context.Context, u account.UserID) (account.Globals, error) {
	text, err := orNone(q.q.UserGlobals(ctx, int64(u)))
	if err != nil || text == nil {
		return account.Globals{}, err
	}
	var g account.Globals
	if err := json.Unmarshal(text, &g); err != nil {
		return g, fmt.Errorf("decode grants: %w", err)
	}
	return g, nil
}

// SetGlobals replaces what else a user was granted.
func (q queries) SetGlobals(ctx context.Context, u account.UserID, g account.Globals) error {
	text, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("encode grants: %w", err)
	}
	return classify(q.q.UserGlobalsSet(ctx, int64(u), text))
}

// Preferences are what a user's client keeps for it: a JSON object, {} at first.
func (q queries) Preferences(ctx context.Context, u account.UserID) (json.RawMessage, error) {
	text, err := orNone(q.q.UserPreferences(ctx, int64(u)))
	if text == nil {
		text = []byte("{}")
	}
	return text, err
}

// SetPreferences replaces them.
func (q queries) SetPreferences(ctx context.Context, u account.UserID, text json.RawMessage) error {
	return classify(q.q.UserPreferencesSet(ctx, int64(u), text))
}

// orNone makes what isn't there nil.
func orNone(text []byte, err error) ([]byte, error) {
	if err := classify(err); !fault.IsKind(err, fault.NotFound) {
		return text, err
	}
	return nil, nil
}

// LoginFields are what log-ins can be filtered and ordered by.
var LoginFields = filter.Fields{
	"id": filter.Number, "datetime": filter.Time, "username": filter.Text, "ip": filter.Text, "status": filter.Text, "restricted": filter.Bool,
}

const (
	loginStatus     = "CASE WHEN a.status IN (401, 429) THEN 'failed' ELSE 'successful' END"
	loginRestricted = "coalesce(u.restricted, false)"
)

var loginColumns = columns{
	"id": "a.id", "datetime": shown("a.at"), "username": "a.username", "ip": "a.address", "status": loginStatus, "restricted": loginRestricted,
}

func scanLogin(row pgx.Row, more ...any) (account.Login, error) {
	var l account.Login
	err := row.Scan(append([]any{&l.ID, &l.At, &l.Username, &l.Address, &l.Status, &l.Restricted}, more...)...)
	return l, err
}

// logins is what the audit trail tells of log-ins to an account's applications,
// newest first; of one user where that is named.
func logins(in account.ID, of account.UserID) listing[account.Login] {
	l := listing[account.Login]{
		sqlBuilder: sqlBuilder{columns: loginColumns, key: "a.id"}, own: "a.id DESC", scan: scanLogin,
		what: "SELECT a.id, a.at, a.username, a.address, " + loginStatus + ", " + loginRestricted,
	}
	l.from = "audit a LEFT JOIN users u ON u.id = a.user_id WHERE a.action = 'POST /oauth/authorize' AND a.user_id <> 0 AND a.account_id = " + l.arg(int64(in))
	if of != 0 {
		l.from += " AND a.user_id = " + l.arg(int64(of))
	}
	return l
}

// Logins is a page of the log-ins of an account, or of one of its users, and how
// many match.
func (q queries) Logins(ctx context.Context, in account.ID, of account.UserID, list ListQuery) ([]account.Login, int, error) {
	return logins(in, of).page(ctx, q.db, list)
}

// Login is one of them.
func (q queries) Login(ctx context.Context, in account.ID, of account.UserID, id int64) (account.Login, error) {
	same := filter.Filter{Where: &filter.Node{Op: filter.Equal, Field: "id", Value: id}}
	found, _, err := logins(in, of).page(ctx, q.db, ListQuery{Filter: same})
	if err == nil && len(found) == 0 {
		err = fault.NewNotFound()
	}
	if err != nil {
		return account.Login{}, err
	}
	return found[0], nil
}

// WaysIn is, by user, when its password was set and what came of its last log-in;
// users without either have none.
func (q queries) WaysIn(ctx context.Context, in account.ID, users ...account.UserID) (map[account.UserID]account.WaysIn, error) {
	const last = `(SELECT a.at, ` + loginStatus + ` AS status FROM audit a
		WHERE a.action = 'POST /oauth/authorize' AND a.user_id = u.id AND a.account_id = u.account_id ORDER BY a.id DESC LIMIT 1)`
	rows, err := q.db.Query(ctx, `SELECT u.id, p.changed, l.at, coalesce(l.status, ''), f.confirmed IS NOT NULL FROM users u
		LEFT JOIN second_factors f ON f.user_id = u.id
		LEFT JOIN passwords p ON p.user_id = u.id LEFT JOIN LATERAL `+last+` l ON true
		WHERE u.account_id = $1 AND u.id = ANY($2)`, int64(in), users)
	if err != nil {
		return nil, classify(err)
	}
	found := map[account.UserID]account.WaysIn{}
	var id account.UserID
	var one account.WaysIn
	_, err = pgx.ForEachRow(rows, []any{&id, &one.PasswordSet, &one.LastLogin, &one.LastStatus, &one.TwoFactor}, func() error {
		found[id] = one
		return nil
	})
	return found, classify(err)
}
