// Package outage keeps the account of what is wrong: an outage opens an issue with
// its ticket, or joins the one that its host has already; it tells the contacts,
// and closes the issue when the last of it is over. Everything happens in the
// transaction of the change that it follows from.
package outage

import (
	"context"
	"fmt"
	"time"

	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// IssueTracker opens and closes issues, and tells of them.
type IssueTracker struct {
	// Channels of the operator's are told of every issue.
	Channels []string
	// Maintenance has contacts and channels told of maintenance windows, too.
	Maintenance bool
}

// Begin says that a service has been down since the result given. Services that
// fail at the same host share an issue.
func (t IssueTracker) Begin(ctx context.Context, tx *store.Tx, s monitor.Service, found monitor.Result) error {
	if err := tx.LockIssues(ctx, s.Account); err != nil {
		return err
	}
	one := monitor.NoticeService{Label: s.Label, Address: s.Address, Class: found.Class, Detail: found.Detail, Since: found.Started}
	told := opening{service: s.ID, summary: monitor.Summarize(s.Label, found), services: []monitor.NoticeService{one}, group: s.Group}
	issue, err := tx.IssueOfService(ctx, s)
	if err == nil { // it was changed meanwhile, and is no better
		return t.tellContacts(ctx, tx, issue, told)
	}
	if !fault.IsKind(err, fault.NotFound) {
		return fmt.Errorf("issue of service %d: %w", s.ID, err)
	}
	hosts := found.Hosts(s.Host())
	issue, err = tx.IssueToJoin(ctx, s.Account, hosts, found.Started.Add(-monitor.JoinWindow))
	joins := err == nil
	if fault.IsKind(err, fault.NotFound) {
		issue, err = tx.OpenIssue(ctx, monitor.Issue{Account: s.Account, Host: s.Host(), Contacts: true, Created: found.Started, Ticket: monitor.Ticket{Summary: told.summary}}, hosts...)
	}
	if err != nil {
		return fmt.Errorf("open issue: %w", err)
	}
	if err := tx.Affect(ctx, issue, s, hosts, found.Started); err != nil {
		return fmt.Errorf("issue %d: add service %d: %w", issue.ID, s.ID, err)
	}
	if !joins {
		return t.opened(ctx, tx, issue, told)
	}
	if err := t.note(ctx, tx, issue, monitor.Joined, found.Started, told.summary); err != nil {
		return err
	}
	return t.tellAll(ctx, tx, issue, told)
}

// End says that a service is well again.
func (t IssueTracker) End(ctx context.Context, tx *store.Tx, s monitor.Service, at time.Time) error {
	return t.end(ctx, tx, s, monitor.Recovered, at, "answers again.")
}

// Unwatch says that nobody looks at a service any more, and why: whatever was wrong
// with it is not known to be over.
func (t IssueTracker) Unwatch(ctx context.Context, tx *store.Tx, s monitor.Service, at time.Time, why string) error {
	return t.end(ctx, tx, s, monitor.Unwatched, at, "no longer watched: "+why)
}

func (t IssueTracker) end(ctx context.Context, tx *store.Tx, s monitor.Service, how monitor.ReplyKind, at time.Time, why string) error {
	if err := tx.LockIssues(ctx, s.Account); err != nil {
		return err
	}
	issue, left, err := tx.Unaffect(ctx, s, how == monitor.Unwatched, at)
	if fault.IsKind(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end outage of service %d: %w", s.ID, err)
	}
	if err := t.note(ctx, tx, issue, how, at, s.Label+": "+why); err != nil {
		return err
	}
	if left > 0 {
		return nil
	}
	return t.close(ctx, tx, issue, how, at)
}

// opened records and announces an issue that was opened.
func (t IssueTracker) opened(ctx context.Context, tx *store.Tx, issue monitor.Issue, told opening) error {
	if err := t.note(ctx, tx, issue, monitor.Opened, issue.Created, issue.Ticket.Summary); err != nil {
		return err
	}
	if err := t.event(ctx, tx, issue, operation.TicketCreate); err != nil {
		return err
	}
	return t.tellAll(ctx, tx, issue, told)
}

// note adds to the ticket's timeline what steward itself saw.
func (t IssueTracker) note(ctx context.Context, tx *store.Tx, issue monitor.Issue, kind monitor.ReplyKind, at time.Time, text string) error {
	_, err := tx.AddReply(ctx, monitor.Reply{Ticket: issue.Ticket.ID, Kind: kind, By: monitor.Watcher, FromStaff: true, Text: text, Created: at})
	if err != nil {
		return fmt.Errorf("ticket %d: %w", issue.Ticket.ID, err)
	}
	return nil
}

func (t IssueTracker) event(ctx context.Context, tx *store.Tx, issue monitor.Issue, action operation.Action) error {
	_, err := tx.CreateOperation(ctx, operation.Operation{
		Account: issue.Account, Entity: operation.Entity{Type: operation.Ticket, ID: int64(issue.Ticket.ID)}, Label: issue.Ticket.Summary,
		Action: action, Status: operation.Notification,
	})
	return err
}
