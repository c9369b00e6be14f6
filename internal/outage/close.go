package outage

import (
	"context"
	"fmt"
	"math"
	"time"

	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// close closes an issue and tells all who were told of it. how is what ended the
// last of it.
func (t IssueTracker) close(ctx context.Context, tx *store.Tx, issue monitor.Issue, how monitor.ReplyKind, at time.Time) error {
	if err := tx.CloseIssue(ctx, issue, at); err != nil {
		return fmt.Errorf("close issue %d: %w", issue.ID, err)
	}
	affected, err := tx.AffectedBy(ctx, issue.ID)
	if err != nil {
		return fmt.Errorf("services of issue %d: %w", issue.ID, err)
	}
	if err := t.note(ctx, tx, issue, monitor.Closed, at, closing(how, affected)); err != nil {
		return err
	}
	if err := t.event(ctx, tx, issue, operation.TicketUpdate); err != nil {
		return err
	}
	told, err := tx.Notices(ctx, store.NoticeQuery{Issue: issue.ID, Most: math.MaxInt32})
	if err != nil {
		return fmt.Errorf("who was told of issue %d: %w", issue.ID, err)
	}
	var notices []monitor.Notice
	for _, e := range endings(told) {
		notices = append(notices, e.notice(issue, how, affected, at))
	}
	return tx.CreateNotices(ctx, notices)
}

// closing is the timeline's last word.
func closing(how monitor.ReplyKind, affected []store.Affected) string {
	well, unwatched := how == monitor.Recovered, how == monitor.Unwatched
	for _, a := range affected {
		well, unwatched = well || !a.Unwatched, unwatched || a.Unwatched
	}
	switch {
	case !unwatched:
		return "All is well again."
	case !well:
		return "No longer watched."
	}
	return "All that is still watched is well again."
}

// ending is one recipient and what they were told of.
type ending struct {
	first    monitor.Notice
	services map[monitor.ServiceID]bool
}

// endings are all who were told that something began, in that order.
func endings(told []monitor.Notice) []*ending {
	type recipient struct{ channel, address string }
	known := map[recipient]*ending{}
	var all []*ending
	for i := len(told) - 1; i >= 0; i-- { // from the oldest
		n := told[i]
		if n.Kind != monitor.NoticeOpened {
			continue
		}
		e := known[recipient{n.Channel, n.Recipient}]
		if e == nil {
			e = &ending{first: n, services: map[monitor.ServiceID]bool{}}
			known[recipient{n.Channel, n.Recipient}] = e
			all = append(all, e)
		}
		e.services[n.Service] = true
	}
	return all
}

// notice is what the recipient is told at the end: of the services that they were
// told of, a recovery when one of them is well again. how counts without services.
func (e *ending) notice(issue monitor.Issue, how monitor.ReplyKind, affected []store.Affected, at time.Time) monitor.Notice {
	var services []monitor.NoticeService
	recovered := len(affected) == 0 && how == monitor.Recovered
	for _, a := range affected {
		if !e.services[a.Service] && !e.services[0] { // 0: by a server of an earlier version
			continue
		}
		s := monitor.NoticeService{Label: a.Label, Address: a.Address, Class: monitor.OK, Since: a.Joined, Recovered: a.Ended}
		if a.Unwatched {
			s.Recovered, s.Unwatched = nil, a.Ended
		}
		recovered = recovered || !a.Unwatched
		services = append(services, s)
	}
	kind := monitor.NoticeUnwatched
	if recovered {
		kind = monitor.NoticeRecovered
	}
	n := notice(issue, kind)
	n.Channel, n.Recipient, n.Name = e.first.Channel, e.first.Recipient, e.first.Name
	n.Content.Summary, n.Content.Services, n.Content.Closed = e.first.Content.Summary, services, &at
	return n
}
