package outage

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/monitor"
	"steward/internal/store"
)

// opening is what those are told who have to do with a service that fails or,
// without one, with another cause.
type opening struct {
	service  monitor.ServiceID
	summary  string
	services []monitor.NoticeService
	// group is whose contacts are told; "": all of the account's.
	group string
	// channels of the account's are told as well.
	channels []alert.Channel
}

// tellAll tells the contacts and the operator's channels. Whoever was told of the
// same service in this issue already isn't told again.
func (t IssueTracker) tellAll(ctx context.Context, tx *store.Tx, issue monitor.Issue, told opening) error {
	if err := t.tellContacts(ctx, tx, issue, told); err != nil {
		return err
	}
	return t.tellChannels(ctx, tx, issue, told)
}

func (t IssueTracker) tellChannels(ctx context.Context, tx *store.Tx, issue monitor.Issue, told opening) error {
	notices := told.toChannels(issue)
	for _, channel := range t.Channels {
		n := told.notice(issue)
		n.Channel = channel
		notices = append(notices, n)
	}
	return tx.CreateNotices(ctx, notices)
}

// toChannels are the notices to the account's channels.
func (o opening) toChannels(issue monitor.Issue) (notices []monitor.Notice) {
	for _, c := range o.channels {
		n := o.notice(issue)
		n.Name = c.Label
		if c.Kind != alert.Email {
			n.Channel, n.Recipient = monitor.AccountChannel, strconv.FormatInt(int64(c.ID), 10)
			notices = append(notices, n)
			continue
		}
		for _, address := range c.Addresses {
			n.Channel, n.Recipient = monitor.EmailChannel, address
			notices = append(notices, n)
		}
	}
	return notices
}

func (t IssueTracker) tellContacts(ctx context.Context, tx *store.Tx, issue monitor.Issue, told opening) error {
	if !issue.Contacts {
		return nil
	}
	contacts, err := tx.ContactsOfGroup(ctx, issue.Account, told.group)
	if err != nil {
		return fmt.Errorf("contacts of issue %d: %w", issue.ID, err)
	}
	var notices []monitor.Notice
	for _, c := range contacts {
		n := told.notice(issue)
		n.Channel, n.Recipient, n.Name = monitor.EmailChannel, c.Email, c.Name
		notices = append(notices, n)
	}
	return tx.CreateNotices(ctx, notices)
}

func (o opening) notice(issue monitor.Issue) monitor.Notice {
	n := notice(issue, monitor.NoticeOpened)
	n.Service, n.Content.Summary, n.Content.Services = o.service, o.summary, o.services
	return n
}

func notice(issue monitor.Issue, kind monitor.NoticeKind) monitor.Notice {
	return monitor.Notice{Account: issue.Account, Issue: issue.ID, Kind: kind, Content: monitor.Content{
		Ticket: issue.Ticket.ID, Summary: issue.Ticket.Summary, About: issue.About, Host: issue.Host, Opened: issue.Created,
	}}
}

// TellNewcomers tells of all that goes on the contacts who should know and don't:
// those who are new, or have another address or group, and those of a service's
// new group.
func (t IssueTracker) TellNewcomers(ctx context.Context, tx *store.Tx, of account.ID) error {
	if err := tx.LockIssues(ctx, of); err != nil {
		return err
	}
	issues, err := tx.OpenIssues(ctx, of)
	if err != nil {
		return fmt.Errorf("open issues: %w", err)
	}
	for _, issue := range issues {
		going, err := goingOn(ctx, tx, issue)
		if err != nil {
			return err
		}
		for _, told := range going {
			if err := t.tellContacts(ctx, tx, issue, told); err != nil {
				return err
			}
		}
	}
	return nil
}

// goingOn is what an open issue's contacts are to have been told. A service that is
// looked at anew since it was changed isn't in it: what comes of that is told.
func goingOn(ctx context.Context, tx *store.Tx, issue monitor.Issue) ([]opening, error) {
	if issue.Cause != "" {
		return []opening{{summary: issue.Ticket.Summary}}, nil
	}
	affected, err := tx.AffectedBy(ctx, issue.ID)
	if err != nil {
		return nil, fmt.Errorf("services of issue %d: %w", issue.ID, err)
	}
	var going []opening
	for _, a := range affected {
		if a.Ended != nil || a.Reason == "" {
			continue
		}
		one := monitor.NoticeService{Label: a.Label, Address: a.Address, Detail: a.Reason, Since: a.Joined}
		summary := monitor.Summarize(a.Label, monitor.Result{Detail: a.Reason})
		going = append(going, opening{service: a.Service, summary: summary, services: []monitor.NoticeService{one}, group: a.Group})
	}
	return going, nil
}

// Told writes into the ticket's timeline that a notice was sent, or couldn't be. A
// notice of a maintenance window has no ticket. Customers read it: what the
// operator's channels are called, and what the mail server said, which may name
// machines of the house, isn't theirs.
func Told(ctx context.Context, tx *store.Tx, n monitor.Notice) error {
	if n.Issue == 0 {
		return nil
	}
	to := "the operator"
	if n.Channel == monitor.EmailChannel {
		to = strings.TrimSpace(n.Name + " <" + n.Recipient + ">")
	}
	if n.Channel == monitor.AccountChannel {
		to = "the channel " + n.Name
	}
	text := fmt.Sprintf("Told %s that %s.", to, tidings(n))
	if n.State == monitor.NoticeFailed {
		text = fmt.Sprintf("Could not tell %s that %s. The operator's log tells why.", to, tidings(n))
	}
	_, err := tx.AddReply(ctx, monitor.Reply{Ticket: n.Content.Ticket, Kind: monitor.Notified, By: monitor.Watcher, FromStaff: true, Text: text})
	return err
}

// tidings is what a notice says, in half a sentence.
func tidings(n monitor.Notice) string {
	switch {
	case n.Kind == monitor.NoticeRecovered:
		return "the outage is over"
	case n.Kind == monitor.NoticeUnwatched:
		return "it is no longer watched"
	case len(n.Content.Services) == 1:
		return "the outage of " + n.Content.Services[0].Label + " began"
	}
	return "the outage began"
}
