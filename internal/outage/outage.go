// Package outage keeps the account of what is wrong: an outage opens an issue with
// its ticket, or joins the one that its host has already; it tells the contacts,
// and closes the issue when the last of it is over. Everything happens in the
// transaction of the change that it follows from.
package outage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// Desk opens and closes issues.
type Desk struct {
	// Channels of the operator's are told of every issue.
	Channels []string
}

// Begin says that a service has been down since the result given. host is what
// makes one issue of several services.
func (d Desk) Begin(ctx context.Context, tx *store.Tx, s monitor.Service, host string, found monitor.Result) error {
	if err := tx.LockIssues(ctx, s.Account); err != nil {
		return err
	}
	summary := monitor.Summarize(s.Label, found)
	issue, err := tx.IssueToJoin(ctx, s.Account, host, found.Started.Add(-monitor.JoinWindow))
	joins := err == nil
	if fault.IsKind(err, fault.NotFound) {
		issue, err = tx.OpenIssue(ctx, monitor.Issue{Account: s.Account, Host: host, Created: found.Started, Ticket: monitor.Ticket{Summary: summary}})
	}
	if err != nil {
		return fmt.Errorf("open issue: %w", err)
	}
	added, err := tx.Affect(ctx, issue, s, found.Started)
	if err != nil {
		return fmt.Errorf("issue %d: add service %d: %w", issue.ID, s.ID, err)
	}
	if !added {
		return nil // told of already
	}
	service := monitor.NoticeService{Label: s.Label, Address: s.Address, Class: found.Class, Detail: found.Detail, Since: found.Started}
	if !joins {
		return d.opened(ctx, tx, issue, s.Group, service)
	}
	if err := d.note(ctx, tx, issue, monitor.Joined, found.Started, summary); err != nil {
		return err
	}
	return d.tellOpened(ctx, tx, issue, s.Group, service)
}

// End says that a service is no longer affected by what it was affected by, if
// anything, and why.
func (d Desk) End(ctx context.Context, tx *store.Tx, s monitor.Service, at time.Time, why string) error {
	if err := tx.LockIssues(ctx, s.Account); err != nil {
		return err
	}
	issue, left, err := tx.Unaffect(ctx, s, at)
	if fault.IsKind(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end outage of service %d: %w", s.ID, err)
	}
	if err := d.note(ctx, tx, issue, monitor.Recovered, at, s.Label+": "+why); err != nil {
		return err
	}
	if left > 0 {
		return nil
	}
	return d.close(ctx, tx, issue, at)
}

// opened writes down and tells that an issue was opened.
func (d Desk) opened(ctx context.Context, tx *store.Tx, issue monitor.Issue, group string, services ...monitor.NoticeService) error {
	if err := d.note(ctx, tx, issue, monitor.Opened, issue.Created, issue.Ticket.Summary); err != nil {
		return err
	}
	if err := d.event(ctx, tx, issue, operation.TicketCreate); err != nil {
		return err
	}
	return d.tellOpened(ctx, tx, issue, group, services...)
}

func (d Desk) tellOpened(ctx context.Context, tx *store.Tx, issue monitor.Issue, group string, services ...monitor.NoticeService) error {
	contacts, err := tx.ContactsOfGroup(ctx, issue.Account, group)
	if err != nil {
		return fmt.Errorf("contacts of issue %d: %w", issue.ID, err)
	}
	notice := d.notice(issue, monitor.NoticeOpened, services)
	var notices []monitor.Notice
	for _, c := range contacts {
		notice.Channel, notice.Recipient, notice.Name = monitor.EmailChannel, c.Email, c.Name
		notices = append(notices, notice)
	}
	for _, channel := range d.Channels {
		notice.Channel, notice.Recipient, notice.Name = channel, "", ""
		notices = append(notices, notice)
	}
	return tx.CreateNotices(ctx, notices)
}

func (d Desk) notice(issue monitor.Issue, kind monitor.NoticeKind, services []monitor.NoticeService) monitor.Notice {
	return monitor.Notice{Account: issue.Account, Issue: issue.ID, Kind: kind, Content: monitor.Content{
		Ticket: issue.Ticket.ID, Summary: issue.Ticket.Summary, Host: issue.Host, Opened: issue.Created, Services: services,
	}}
}

// close closes an issue and tells all who were told of it.
func (d Desk) close(ctx context.Context, tx *store.Tx, issue monitor.Issue, at time.Time) error {
	if err := tx.CloseIssue(ctx, issue, at); err != nil {
		return fmt.Errorf("close issue %d: %w", issue.ID, err)
	}
	if err := d.note(ctx, tx, issue, monitor.Closed, at, "All is well again."); err != nil {
		return err
	}
	if err := d.event(ctx, tx, issue, operation.TicketUpdate); err != nil {
		return err
	}
	affected, err := tx.AffectedBy(ctx, issue.ID)
	if err != nil {
		return err
	}
	services := make([]monitor.NoticeService, len(affected))
	for i, a := range affected {
		services[i] = monitor.NoticeService{Label: a.Label, Address: a.Address, Class: monitor.OK, Since: a.Joined, Recovered: a.Recovered}
	}
	told, err := tx.Notices(ctx, store.NoticeQuery{Issue: issue.ID, Most: math.MaxInt32})
	if err != nil {
		return fmt.Errorf("who was told of issue %d: %w", issue.ID, err)
	}
	told = slices.DeleteFunc(told, func(n monitor.Notice) bool { return n.Kind != monitor.NoticeOpened })
	notices := make([]monitor.Notice, len(told))
	for i, n := range told {
		notices[i] = d.notice(issue, monitor.NoticeRecovered, services)
		notices[i].Content.Closed = &at
		notices[i].Channel, notices[i].Recipient, notices[i].Name = n.Channel, n.Recipient, n.Name
	}
	return tx.CreateNotices(ctx, notices)
}

// note adds to the ticket's timeline what steward itself saw.
func (d Desk) note(ctx context.Context, tx *store.Tx, issue monitor.Issue, kind monitor.ReplyKind, at time.Time, text string) error {
	_, err := tx.AddReply(ctx, monitor.Reply{Ticket: issue.Ticket.ID, Kind: kind, By: monitor.Watcher, FromStaff: true, Text: text, Created: at})
	if err != nil {
		return fmt.Errorf("ticket %d: %w", issue.Ticket.ID, err)
	}
	return nil
}

func (d Desk) event(ctx context.Context, tx *store.Tx, issue monitor.Issue, action operation.Action) error {
	_, err := tx.CreateOperation(ctx, operation.Operation{
		Account: issue.Account, Entity: operation.Entity{Type: operation.Ticket, ID: int64(issue.Ticket.ID)}, Label: issue.Ticket.Summary,
		Action: action, Status: operation.Notification,
	})
	return err
}

// Told writes into the ticket's timeline that a notice was sent, or couldn't be.
func Told(ctx context.Context, tx *store.Tx, n monitor.Notice) error {
	to := n.Channel
	if n.Channel == monitor.EmailChannel {
		to = strings.TrimSpace(n.Name + " <" + n.Recipient + ">")
	}
	text := fmt.Sprintf("Told %s that the outage %s.", to, map[monitor.NoticeKind]string{
		monitor.NoticeOpened: "began", monitor.NoticeRecovered: "is over",
	}[n.Kind])
	if n.State == monitor.NoticeFailed {
		text = fmt.Sprintf("Could not tell %s: %s", to, n.Problem)
	}
	_, err := tx.AddReply(ctx, monitor.Reply{Ticket: n.Content.Ticket, Kind: monitor.Notified, By: monitor.Watcher, FromStaff: true, Text: text})
	return err
}
