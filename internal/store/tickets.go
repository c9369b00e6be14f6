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
		TicketID: int64(r.Ticket), Kind: string(r.Kind), CreatedBy: r.By, FromStaff: r.FromStaff, Text: r.Text, Created: r.Created,
	})
	if err != nil {
		return r, classify(err)
	}
	r.ID = monitor.ReplyID(id)
	return r, classify(t.q.TicketTouch(ctx, r.Created, int64(r.Ticket)))
}

// Replies is one page of a ticket's timeline, oldest first, and how many entries it has.
func (q queries) Replies(ctx context.Context, of account.ID, id monitor.TicketID, page Page) ([]monitor.Reply, int, error) {
	rows, err := q.q.ReplyList(ctx, dbsqlc.ReplyListParams{TicketID: int64(id), AccountID: int64(of), Size: page.limit(), Skip: page.offset()})
	if err != nil {
		return nil, 0, classify(err)
	}
	found, total := make([]monitor.Reply, len(rows)), 0
	for i, r := range rows {
		found[i] = monitor.Reply{
			ID: monitor.ReplyID(r.ID), Ticket: monitor.TicketID(r.TicketID), Kind: monitor.ReplyKind(r.Kind), By: r.CreatedBy,
			FromStaff: r.FromStaff, Text: r.Text, Created: r.Created,
		}
		total = int(r.Total)
	}
	if len(found) == 0 && page.Number > 1 {
		_, total, err = q.Replies(ctx, of, id, Page{Number: 1, Size: 1})
	}
	return found, total, err
}
