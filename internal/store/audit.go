package store

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/filter"
	"steward/internal/store/dbsqlc"
)

// AddAudit appends to the audit trail, all or nothing.
func (q queries) AddAudit(ctx context.Context, entries ...account.Audit) error {
	var p dbsqlc.AuditAddParams
	for _, e := range entries {
		p.At, p.AccountID, p.UserID = append(p.At, e.At), append(p.AccountID, int64(e.Account)), append(p.UserID, int64(e.User))
		p.Username, p.TokenID, p.ClientID = append(p.Username, plainText(e.Username)), append(p.TokenID, int64(e.Token)), append(p.ClientID, plainText(string(e.Client)))
		p.Address, p.Action, p.Path = append(p.Address, plainText(e.Address)), append(p.Action, plainText(e.Action)), append(p.Path, plainText(e.Path))
		p.Status, p.RequestID = append(p.Status, int32(e.Status)), append(p.RequestID, plainText(e.RequestID)) //nolint:gosec // three digits
	}
	return classify(q.q.AuditAdd(ctx, p))
}

// mostAuditText bounds each text of the trail: strangers write some of them.
const mostAuditText = 512

// plainText is what a text column takes of what a stranger sent.
func plainText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
	if len(s) > mostAuditText {
		s = strings.ToValidUTF8(s[:mostAuditText], "")
	}
	return s
}

// Audit calls f with the lines of the trail since a time, oldest first; of one
// user when username isn't empty.
func (q queries) Audit(ctx context.Context, since time.Time, username string, f func(account.Audit) error) error {
	const batch = 1000
	for after := int64(0); ; {
		rows, err := q.q.AuditList(ctx, dbsqlc.AuditListParams{After: after, Since: since, Username: username, Most: batch})
		if err != nil {
			return classify(err)
		}
		for _, r := range rows {
			after = r.ID
			err := f(account.Audit{
				ID: r.ID, At: r.At, Account: account.ID(r.AccountID), User: account.UserID(r.UserID), Username: r.Username, Token: account.TokenID(r.TokenID),
				Client: account.ClientID(r.ClientID), Address: r.Address, Action: r.Action, Path: r.Path, Status: int(r.Status), RequestID: r.RequestID,
			})
			if err != nil {
				return err
			}
		}
		if len(rows) < batch {
			return nil
		}
	}
}

// ExpireAudit removes lines before a time, and tells how many. The store keeps
// those of the last 30 days whatever it is asked.
func (q queries) ExpireAudit(ctx context.Context, before time.Time) (int64, error) {
	n, err := q.q.AuditExpire(ctx, before)
	return n, classify(err)
}

// TrailFields are what an account's lines of the audit trail can be filtered and ordered by.
var TrailFields = filter.Fields{
	"id": filter.Number, "datetime": filter.Time, "username": filter.Text, "ip": filter.Text, "token_id": filter.Number,
	"action": filter.Text, "path": filter.Text, "status": filter.Number,
}

// What operators did to an account is told without what is theirs: who of them, and where from.
const (
	trailByOperator = "a.username LIKE 'operator:%'"
	trailUsername   = "CASE WHEN " + trailByOperator + " THEN 'operator' ELSE a.username END"
	trailAddress    = "CASE WHEN " + trailByOperator + " THEN '' ELSE a.address END"
)

var trailColumns = columns{
	"id": "a.id", "datetime": shown("a.at"), "username": trailUsername, "ip": trailAddress, "token_id": "a.token_id",
	"action": "a.action", "path": "a.path", "status": "a.status",
}

// Trail is a page of the lines of the audit trail that an account's users may read, newest first, of those since a time, and
// how many match.
func (q queries) Trail(ctx context.Context, in account.ID, since time.Time, list ListQuery) ([]account.Audit, int, error) {
	l := listing[account.Audit]{
		sqlBuilder: sqlBuilder{columns: trailColumns, key: "a.id"}, own: "a.id DESC", scan: scanTrail,
		what: "SELECT a.id, a.at, " + trailUsername + ", a.token_id, a.client_id, " + trailAddress + ", a.action, a.path, a.status, a.request_id",
	}
	l.from = "audit a WHERE a.account_id = " + l.arg(int64(in)) + " AND a.at >= " + l.arg(since)
	return l.page(ctx, q.db, list)
}

func scanTrail(row pgx.Row, more ...any) (account.Audit, error) {
	var a account.Audit
	err := row.Scan(append([]any{&a.ID, &a.At, &a.Username, &a.Token, &a.Client, &a.Address, &a.Action, &a.Path, &a.Status, &a.RequestID}, more...)...)
	return a, err
}
