package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// accountLock is the class of the advisory lock under which an account's issues change.
const accountLock = 7005

// LockIssues has others who would change the account's issues wait until the
// transaction ends: two services that fail at once must find the same issue.
func (t *Tx) LockIssues(ctx context.Context, of account.ID) error {
	return classify(t.q.AccountLock(ctx, accountLock<<40+int64(of)))
}

const selectIssue = `SELECT i.id, i.account_id, i.host, coalesce(i.cause, ''), i.about, i.contacts, i.created, i.closed,
	ARRAY(SELECT s.service_id FROM issue_services s WHERE s.issue_id = i.id ORDER BY s.joined, s.service_id),
	t.id, t.account_id, t.summary, t.status = 'open', t.opened, t.updated, t.closed`

const fromIssues = "issues i JOIN tickets t ON t.id = i.ticket_id WHERE "

func scanIssue(row pgx.Row, more ...any) (monitor.Issue, error) {
	var i monitor.Issue
	t := &i.Ticket
	err := row.Scan(append([]any{
		&i.ID, &i.Account, &i.Host, &i.Cause, &i.About, &i.Contacts, &i.Created, &i.Closed, &i.Services,
		&t.ID, &t.Account, &t.Summary, &t.Open, &t.Opened, &t.Updated, &t.Closed,
	}, more...)...)
	return i, err
}

// Issue is one issue of the account, however old.
func (q queries) Issue(ctx context.Context, of account.ID, id monitor.IssueID) (monitor.Issue, error) {
	i, err := scanIssue(q.db.QueryRow(ctx, selectIssue+" FROM "+fromIssues+"i.account_id = $1 AND i.id = $2", int64(of), int64(id)))
	return i, classify(err)
}

// IssueFields are what issues can be filtered and ordered by. An entity is the
// issue's ticket.
var IssueFields = filter.Fields{
	"id": filter.Number, "created": filter.Time, "closed": filter.Time, "entity.id": filter.Number, "entity.label": filter.Text,
	"database_id": filter.Number,
}

var issueColumns = columns{
	"id": "i.id", "created": shown("i.created"), "closed": shown("i.closed"), "entity.id": "t.id", "entity.label": "t.summary",
	"database_id": "substring(i.cause FROM '^database/([0-9]{1,18})(?:/|$)')::bigint",
}

// Issues is one page of the account's open issues and those closed lately,
// oldest first, and how many match.
func (q queries) Issues(ctx context.Context, of account.ID, list ListQuery) ([]monitor.Issue, int, error) {
	l := listing[monitor.Issue]{sqlBuilder: sqlBuilder{columns: issueColumns, key: "i.id"}, what: selectIssue, own: "i.id", scan: scanIssue}
	l.from = fromIssues + "i.account_id = " + l.arg(int64(of)) +
		" AND (i.closed IS NULL OR i.closed > " + l.arg(q.now().Add(-monitor.RecentIssues)) + ")"
	return l.page(ctx, q.db, list)
}

// IssueToJoin is the account's newest open issue on one of the hosts that was
// opened or joined since the moment given; NotFound when there is none.
func (t *Tx) IssueToJoin(ctx context.Context, of account.ID, hosts []string, since time.Time) (monitor.Issue, error) {
	r, err := t.q.IssueToJoin(ctx, dbsqlc.IssueToJoinParams{AccountID: int64(of), Hosts: hosts, Since: since})
	if err != nil {
		return monitor.Issue{}, classify(err)
	}
	return t.Issue(ctx, of, monitor.IssueID(r.ID))
}

// IssueOfService is the open issue that a service is affected by; NotFound when
// there is none.
func (t *Tx) IssueOfService(ctx context.Context, s monitor.Service) (monitor.Issue, error) {
	id, err := t.q.IssueOfService(ctx, int64(s.ID))
	if err != nil {
		return monitor.Issue{}, classify(err)
	}
	return t.Issue(ctx, s.Account, monitor.IssueID(id))
}

// OpenIssue opens an issue on the hosts, and its ticket. There can't be two of one cause: whoever
// opens one has locked the account's issues and looked.
func (t *Tx) OpenIssue(ctx context.Context, i monitor.Issue, hosts ...string) (monitor.Issue, error) {
	i.Ticket.Account, i.Ticket.Open, i.Ticket.Opened, i.Ticket.Updated = i.Account, true, i.Created, i.Created
	ticket, err := t.q.TicketCreate(ctx, dbsqlc.TicketCreateParams{AccountID: int64(i.Account), Summary: i.Ticket.Summary, Opened: i.Created})
	if err != nil {
		return i, classify(err)
	}
	if hosts == nil {
		hosts = []string{} // NULL is no array
	}
	p := dbsqlc.IssueCreateParams{AccountID: int64(i.Account), TicketID: ticket, Host: i.Host, Hosts: hosts, About: i.About, Contacts: i.Contacts, Created: i.Created}
	if i.Cause != "" {
		p.Cause = &i.Cause
	}
	id, err := t.q.IssueCreate(ctx, p)
	i.ID, i.Ticket.ID = monitor.IssueID(id), monitor.TicketID(ticket)
	return i, classify(err)
}

// IssuesOfCause are the open issues of a cause and of those below it, which have
// its name, a slash and more.
func (t *Tx) IssuesOfCause(ctx context.Context, of account.ID, cause string) ([]monitor.Issue, error) {
	ids, err := t.q.IssuesOfCause(ctx, int64(of), cause)
	return t.issues(ctx, of, ids, err)
}

// OpenIssues are all of the account's that last.
func (t *Tx) OpenIssues(ctx context.Context, of account.ID) ([]monitor.Issue, error) {
	ids, err := t.q.IssuesOpen(ctx, int64(of))
	return t.issues(ctx, of, ids, err)
}

func (t *Tx) issues(ctx context.Context, of account.ID, ids []int64, err error) ([]monitor.Issue, error) {
	if err != nil {
		return nil, classify(err)
	}
	found := make([]monitor.Issue, len(ids))
	for i, id := range ids {
		if found[i], err = t.Issue(ctx, of, monitor.IssueID(id)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Affected is a service of an issue.
type Affected struct {
	Service monitor.ServiceID
	Label   string
	Joined  time.Time
	// Ended is when it recovered or, Unwatched, was disabled or deleted; nil while it
	// is affected.
	Ended     *time.Time
	Unwatched bool
	// Address, Group and Reason are today's; "" when the service is gone.
	Address, Group, Reason string
}

// Affect adds a service on the hosts to an issue, or has one that had recovered be
// affected again. The service isn't affected by another issue.
func (t *Tx) Affect(ctx context.Context, i monitor.Issue, s monitor.Service, hosts []string, at time.Time) error {
	n, err := t.q.IssueServiceReopen(ctx, dbsqlc.IssueServiceReopenParams{IssueID: int64(i.ID), ServiceID: int64(s.ID), Joined: at})
	if err == nil && n == 0 {
		n, err = t.q.IssueServiceAdd(ctx, dbsqlc.IssueServiceAddParams{
			IssueID: int64(i.ID), AccountID: int64(i.Account), ServiceID: int64(s.ID), Label: s.Label, Joined: at,
		})
	}
	if err := changedOne(n, err); err != nil {
		return err
	}
	return classify(t.q.IssueAddHosts(ctx, hosts, int64(i.ID)))
}

// Unaffect says that a service has recovered or, unwatched, was disabled or
// deleted. It returns the issue that it was affected by, and how many others still
// are; NotFound when it wasn't.
func (t *Tx) Unaffect(ctx context.Context, s monitor.Service, unwatched bool, at time.Time) (monitor.Issue, int, error) {
	id, err := t.q.IssueServiceRecover(ctx, dbsqlc.IssueServiceRecoverParams{Ended: at, Unwatched: unwatched, ServiceID: int64(s.ID)})
	if err != nil {
		return monitor.Issue{}, 0, classify(err)
	}
	left, err := t.q.IssueOpenServices(ctx, id)
	if err != nil {
		return monitor.Issue{}, 0, classify(err)
	}
	i, err := t.Issue(ctx, s.Account, monitor.IssueID(id))
	return i, int(left), err
}

// AffectedBy are an issue's services.
func (q queries) AffectedBy(ctx context.Context, id monitor.IssueID) ([]Affected, error) {
	rows, err := q.q.IssueServices(ctx, int64(id))
	if err != nil {
		return nil, classify(err)
	}
	found := make([]Affected, len(rows))
	for i, r := range rows {
		found[i] = Affected{
			Service: monitor.ServiceID(r.ServiceID), Label: r.Label, Joined: r.Joined, Ended: r.Recovered, Unwatched: r.Unwatched,
			Address: textOf(r.Address), Group: textOf(r.ConsultationGroup), Reason: textOf(r.Reason),
		}
	}
	return found, nil
}

func textOf(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// CloseIssue closes an open issue and its ticket.
func (t *Tx) CloseIssue(ctx context.Context, i monitor.Issue, at time.Time) error {
	n, err := t.q.IssueClose(ctx, at, int64(i.ID))
	if err := changedOne(n, err); err != nil {
		return err
	}
	return classify(t.q.TicketClose(ctx, at, int64(i.Ticket.ID)))
}
