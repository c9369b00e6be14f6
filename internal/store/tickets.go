package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// TicketFields are what tickets can be filtered and ordered by.
var TicketFields = filter.Fields{"id": filter.Number, "status": filter.Text, "summary": filter.Text, "opened": filter.Time, "updated": filter.Time}

var ticketColumns = columns{"id": "id", "status": "status", "summary": "summary", "opened": shown("opened"), "updated": shown("updated")}

const selectTicket = "SELECT id, account_id, summary, status = 'open', opened, updated, closed"

func scanTicket(row pgx.Row, more ...any) (monitor.Ticket, error) {
	var t monitor.Ticket
	err := row.Scan(append([]any{&t.ID, &t.Account, &t.Summary, &t.Open, &t.Opened, &t.Updated, &t.Closed}, more...)...)
	return t, err
}

// Ticket is one ticket of the account.
func (q queries) Ticket(ctx context.Context, of account.ID, id monitor.TicketID) (monitor.Ticket, error) {
	t, err := scanTicket(q.db.QueryRow(ctx, selectTicket+" FROM tickets WHERE account_id = $1 AND id = $2", int64(of), int64(id)))
	return t, classify(err)
}

// TicketForStaff is a ticket whoever it belongs to.
func (q queries) TicketForStaff(ctx context.Context, id monitor.TicketID) (monitor.Ticket, error) {
	t, err := scanTicket(q.db.QueryRow(ctx, selectTicket+" FROM tickets WHERE id = $1", int64(id)))
	return t, classify(err)
}

// Tickets is one page of the account's tickets, newest first, and how many match.
func (q queries) Tickets(ctx context.Context, of account.ID, list ListQuery) ([]monitor.Ticket, int, error) {
	l := listing[monitor.Ticket]{sqlBuilder: sqlBuilder{columns: ticketColumns}, what: selectTicket, own: "id DESC", scan: scanTicket}
	l.from = "tickets WHERE account_id = " + l.arg(int64(of))
	return l.page(ctx, q.db, list)
}

// AddReply adds to a ticket's timeline. A zero time is now.
func (t *Tx) AddReply(ctx context.Context, r monitor.Reply) (monitor.Reply, error) {
	if r.Created.IsZero() {
		r.Created = t.now()
	}
	id, err := t.q.ReplyAdd(ctx, dbsqlc.ReplyAddParams{
		TicketID: int64(r.Ticket), Kind: string(r.Kind), CreatedBy: r.By, FromStaff: r.FromStaff, Text: r.Text, Public: r.Public, Created: r.Created,
	})
	if err != nil {
		return r, classify(err)
	}
	r.ID = monitor.ReplyID(id)
	return r, classify(t.q.TicketTouch(ctx, r.Created, int64(r.Ticket)))
}

// ReplyFields are what a ticket's entries can be filtered and ordered by.
var ReplyFields = filter.Fields{"id": filter.Number, "kind": filter.Text, "created": filter.Time, "created_by": filter.Text, "from_linode": filter.Bool, "public": filter.Bool}

var replyColumns = columns{"id": "r.id", "kind": "r.kind", "created": shown("r.created"), "created_by": "r.created_by", "from_linode": "r.from_staff", "public": "r.public"}

const selectReply = "SELECT r.id, r.ticket_id, r.kind, r.created_by, r.from_staff, r.text, r.public, r.created"

func scanReply(row pgx.Row, more ...any) (monitor.Reply, error) {
	var r monitor.Reply
	err := row.Scan(append([]any{&r.ID, &r.Ticket, &r.Kind, &r.By, &r.FromStaff, &r.Text, &r.Public, &r.Created}, more...)...)
	return r, err
}

// Replies is one page of a ticket's timeline, oldest first, and how many entries match.
func (q queries) Replies(ctx context.Context, of account.ID, id monitor.TicketID, list ListQuery) ([]monitor.Reply, int, error) {
	l := listing[monitor.Reply]{
		sqlBuilder: sqlBuilder{columns: replyColumns, key: "r.id"}, own: "r.id", scan: scanReply,
		what: selectReply,
	}
	l.from = "ticket_replies r JOIN tickets t ON t.id = r.ticket_id WHERE t.id = " + l.arg(int64(id)) + " AND t.account_id = " + l.arg(int64(of))
	return l.page(ctx, q.db, list)
}
