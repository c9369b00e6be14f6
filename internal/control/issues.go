package control

import (
	"context"
	"strings"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// Issues are the use cases of outages. All of them are for unrestricted users.
type Issues struct{ Deps }

// List is a page of the account's issues: those that last and those closed lately.
func (s *Issues) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]monitor.Issue, int, error) {
	return unrestrictedPage(ctx, p, q, s.Store.Issues)
}

// View is one issue.
func (s *Issues) View(ctx context.Context, p account.Principal, id monitor.IssueID) (monitor.Issue, error) {
	return unrestrictedOne(ctx, p, id, s.Store.Issue)
}

// Tickets are the use cases of what people write about issues. All of them are
// for unrestricted users.
type Tickets struct{ Deps }

// List is a page of the account's tickets, newest first.
func (s *Tickets) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]monitor.Ticket, int, error) {
	return unrestrictedPage(ctx, p, q, s.Store.Tickets)
}

// View is one ticket.
func (s *Tickets) View(ctx context.Context, p account.Principal, id monitor.TicketID) (monitor.Ticket, error) {
	return unrestrictedOne(ctx, p, id, s.Store.Ticket)
}

// Replies is a page of a ticket's timeline, oldest first.
func (s *Tickets) Replies(ctx context.Context, p account.Principal, id monitor.TicketID, q store.ListQuery) ([]monitor.Reply, int, error) {
	if _, err := s.View(ctx, p, id); err != nil {
		return nil, 0, err
	}
	return s.Store.Replies(ctx, p.Account, id, q)
}

// Reply adds what the caller has to say to a ticket, open or closed; public: status pages
// show it.
func (s *Tickets) Reply(ctx context.Context, p account.Principal, id monitor.TicketID, text string, public bool, faults fault.Faults) (monitor.Reply, error) {
	ticket, err := s.View(ctx, p, id)
	if err != nil {
		return monitor.Reply{}, err
	}
	if err := combine(faults, validateReply(text)).Err(); err != nil {
		return monitor.Reply{}, err
	}
	reply := monitor.Reply{Ticket: id, Kind: monitor.Replied, By: p.User.Username, Text: text, Public: public}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if reply, err = tx.AddReply(ctx, reply); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.TicketUpdate, operation.Entity{Type: operation.Ticket, ID: int64(id)}, ticket.Summary)
	})
	return reply, err
}

// Publish sets whether status pages show what somebody wrote to a ticket. What steward itself
// noted is never shown: it says what was found where.
func (s *Tickets) Publish(ctx context.Context, p account.Principal, id monitor.TicketID, reply monitor.ReplyID, public *bool, faults fault.Faults) (changed monitor.Reply, err error) {
	if err := unrestricted(p); err != nil {
		return changed, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		ticket, err := tx.Ticket(ctx, p.Account, id)
		if err != nil {
			return err
		}
		if changed, err = tx.Reply(ctx, p.Account, id, reply); err != nil {
			return err
		}
		if changed.Kind != monitor.Replied {
			faults.Add("public", "Only what somebody wrote can be public")
		}
		if err := faults.Err(); err != nil || public == nil || *public == changed.Public {
			return err
		}
		changed.Public = *public
		if err := tx.PublishReply(ctx, p.Account, id, reply, *public); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.TicketUpdate, operation.Entity{Type: operation.Ticket, ID: int64(id)}, ticket.Summary)
	})
	return changed, err
}

// Answer adds what a member of the staff has to say to any account's ticket; public: the
// account's status pages show it. It is the operator's.
func (s *Tickets) Answer(ctx context.Context, id monitor.TicketID, staff, text string, public bool) error {
	if err := validateReply(text).Err(); err != nil {
		return err
	}
	ticket, err := s.Store.TicketForStaff(ctx, id)
	if err != nil {
		return err
	}
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.AddReply(ctx, monitor.Reply{Ticket: id, Kind: monitor.Replied, By: staff, FromStaff: true, Text: text, Public: public}); err != nil {
			return err
		}
		_, err := tx.CreateOperation(ctx, operation.Operation{
			Account: ticket.Account, Entity: operation.Entity{Type: operation.Ticket, ID: int64(id)}, Label: ticket.Summary,
			Action: operation.TicketUpdate, Status: operation.Finished, Username: staff,
		})
		return err
	})
}

// mostReply is how long an entry of a ticket may be, in characters.
const mostReply = 65535

// validateReply finds what is wrong with an entry of a ticket.
func validateReply(text string) fault.Faults {
	if n := utf8.RuneCountInString(text); strings.TrimSpace(text) == "" || n > mostReply {
		return fault.Faults{fault.Length("description", 1, mostReply)}
	}
	return nil
}
