package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// StatusPageFields are what status pages can be filtered and ordered by.
var StatusPageFields = filter.Fields{"id": filter.Number, "slug": filter.Text, "title": filter.Text, "created": filter.Time, "updated": filter.Time}

var statusPageColumns = columns{"id": "id", "slug": "slug", "title": "title", "created": shown("created"), "updated": shown("updated")}

const selectStatusPage = `SELECT id, account_id, slug, title, days, show_response_times, created, updated,
	ARRAY(SELECT s.service_id FROM status_page_services s WHERE s.page_id = status_pages.id ORDER BY s.position),
	ARRAY(SELECT d.cluster_id FROM status_page_databases d JOIN clusters c ON c.id = d.cluster_id
	      WHERE d.page_id = status_pages.id AND c.deleted IS NULL ORDER BY d.position)`

func scanStatusPage(row pgx.Row, more ...any) (monitor.StatusPage, error) {
	var p monitor.StatusPage
	err := row.Scan(append([]any{
		&p.ID, &p.Account, &p.Slug, &p.Title, &p.Days, &p.ShowResponseTimes, &p.Created, &p.Updated, &p.Services, &p.Databases,
	}, more...)...)
	return p, err
}

// StatusPages is one page of the account's status pages, and how many match.
func (q queries) StatusPages(ctx context.Context, of account.ID, list ListQuery) ([]monitor.StatusPage, int, error) {
	l := listing[monitor.StatusPage]{sqlBuilder: sqlBuilder{columns: statusPageColumns}, what: selectStatusPage, own: "id", scan: scanStatusPage}
	l.from = "status_pages WHERE account_id = " + l.arg(int64(of))
	return l.page(ctx, q.db, list)
}

// StatusPage is one status page of the account.
func (q queries) StatusPage(ctx context.Context, of account.ID, id monitor.StatusPageID) (monitor.StatusPage, error) {
	p, err := scanStatusPage(q.db.QueryRow(ctx, selectStatusPage+" FROM status_pages WHERE account_id = $1 AND id = $2", int64(of), int64(id)))
	return p, classify(err)
}

// LockStatusPage is StatusPage, and keeps others from changing it until the transaction ends.
func (t *Tx) LockStatusPage(ctx context.Context, of account.ID, id monitor.StatusPageID) (monitor.StatusPage, error) {
	p, err := scanStatusPage(t.db.QueryRow(ctx, selectStatusPage+" FROM status_pages WHERE account_id = $1 AND id = $2 FOR UPDATE", int64(of), int64(id)))
	return p, classify(err)
}

// StatusPageOf is the page of a slug, whoever's it is: for everybody. Those of accounts that aren't active aren't there.
func (q queries) StatusPageOf(ctx context.Context, slug string) (monitor.StatusPage, error) {
	p, err := scanStatusPage(q.db.QueryRow(ctx, selectStatusPage+
		" FROM status_pages WHERE slug = $1 AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = status_pages.account_id AND a.status = 'active')", slug))
	return p, classify(err)
}

// CountStatusPages is how many pages an account has.
func (q queries) CountStatusPages(ctx context.Context, of account.ID) (int, error) {
	n, err := q.q.StatusPagesCount(ctx, int64(of))
	return int(n), classify(err)
}

// CreateStatusPage adds a page.
func (t *Tx) CreateStatusPage(ctx context.Context, p monitor.StatusPage) (monitor.StatusPage, error) {
	p.Created = t.now()
	p.Updated = p.Created
	id, err := t.q.StatusPageCreate(ctx, dbsqlc.StatusPageCreateParams{
		AccountID: int64(p.Account), Slug: p.Slug, Title: p.Title, Days: int32(p.Days), ShowResponseTimes: p.ShowResponseTimes, Now: p.Created,
	})
	if err != nil {
		return p, classify(err)
	}
	p.ID = monitor.StatusPageID(id)
	return p, t.setStatusEntries(ctx, p)
}

// UpdateStatusPage writes p over the row that LockStatusPage read.
func (t *Tx) UpdateStatusPage(ctx context.Context, p monitor.StatusPage) (monitor.StatusPage, error) {
	p.Updated = t.now()
	n, err := t.q.StatusPageUpdate(ctx, dbsqlc.StatusPageUpdateParams{
		ID: int64(p.ID), AccountID: int64(p.Account), Slug: p.Slug, Title: p.Title, Days: int32(p.Days), ShowResponseTimes: p.ShowResponseTimes, Updated: p.Updated,
	})
	if err := oneRow(n, err); err != nil {
		return p, err
	}
	return p, t.setStatusEntries(ctx, p)
}

// setStatusEntries replaces what a page shows; all of it is the account's.
func (t *Tx) setStatusEntries(ctx context.Context, p monitor.StatusPage) error {
	if err := t.q.StatusPageServicesClear(ctx, int64(p.ID)); err != nil {
		return classify(err)
	}
	if err := t.q.StatusPageDatabasesClear(ctx, int64(p.ID)); err != nil {
		return classify(err)
	}
	n, err := t.q.StatusPageServicesSet(ctx, dbsqlc.StatusPageServicesSetParams{PageID: int64(p.ID), Ids: numbers(p.Services), AccountID: int64(p.Account)})
	if err != nil {
		return classify(err)
	}
	m, err := t.q.StatusPageDatabasesSet(ctx, dbsqlc.StatusPageDatabasesSetParams{PageID: int64(p.ID), Ids: numbers(p.Databases), AccountID: int64(p.Account)})
	if err != nil {
		return classify(err)
	}
	if int(n) != len(p.Services) {
		return fault.NotValid("services")
	}
	if int(m) != len(p.Databases) {
		return fault.NotValid("databases")
	}
	return nil
}

// DeleteStatusPage removes one of the account's.
func (q queries) DeleteStatusPage(ctx context.Context, of account.ID, id monitor.StatusPageID) error {
	n, err := q.q.StatusPageDelete(ctx, int64(of), int64(id))
	return oneRow(n, err)
}

// StatusEntriesThere are those of the services and databases that are the account's.
func (q queries) StatusEntriesThere(ctx context.Context, of account.ID, services []monitor.ServiceID, databases []cluster.ID) (s, d int, err error) {
	found, err := q.q.ServicesThere(ctx, int64(of), numbers(services))
	if err != nil {
		return 0, 0, classify(err)
	}
	also, err := q.q.DatabasesThere(ctx, int64(of), numbers(databases))
	return len(found), len(also), classify(err)
}

// ShownService is a service as a status page knows it.
type ShownService struct {
	ID     monitor.ServiceID
	Label  string
	Status monitor.Status
}

// ShownDatabase is a database as a status page knows it.
type ShownDatabase struct {
	ID     cluster.ID
	Label  string
	Status cluster.Status
}

// ShownOn is what a status page shows, in its order.
func (q queries) ShownOn(ctx context.Context, id monitor.StatusPageID) (services []ShownService, databases []ShownDatabase, err error) {
	rows, err := q.q.StatusPageServices(ctx, int64(id))
	if err != nil {
		return nil, nil, classify(err)
	}
	for _, r := range rows {
		services = append(services, ShownService{monitor.ServiceID(r.ID), r.Label, monitor.Status(r.Status)})
	}
	more, err := q.q.StatusPageDatabases(ctx, int64(id))
	for _, r := range more {
		databases = append(databases, ShownDatabase{cluster.ID(r.ID), r.Label, cluster.Status(r.Status)})
	}
	return services, databases, classify(err)
}

// CheckDay sums up a day of a service's checks, of the hours that have been rolled up.
type CheckDay struct {
	Day time.Time
	monitor.Hour
}

// CheckDays are the days of services since the one given, oldest first.
func (q queries) CheckDays(ctx context.Context, ids []monitor.ServiceID, since time.Time) (map[monitor.ServiceID][]CheckDay, error) {
	rows, err := q.q.CheckDaysOf(ctx, numbers(ids), dayOf(since))
	found := map[monitor.ServiceID][]CheckDay{}
	for _, r := range rows {
		id := monitor.ServiceID(r.ServiceID)
		found[id] = append(found[id], CheckDay{r.Day.Time, monitor.Hour{
			Service: id, Hour: r.Day.Time, Checks: int(r.Checks), Failures: int(r.Failures),
			Total: time.Duration(r.TotalMs) * time.Millisecond, Longest: time.Duration(r.LongestMs) * time.Millisecond,
		}})
	}
	return found, classify(err)
}

// ShownIssue is an issue of which something was written for everybody.
type ShownIssue struct {
	ID      monitor.IssueID
	Cause   string
	Created time.Time
	Closed  *time.Time
	// Services are those of the page.
	Services []monitor.ServiceID
	Updates  []monitor.PublicUpdate
}

// mostIncidents bounds what a status page tells of.
const mostIncidents = 50

// ShownIssues are the issues of a page that last or ended since, with what was written for everybody, newest first.
func (q queries) ShownIssues(ctx context.Context, p monitor.StatusPage, since time.Time) ([]ShownIssue, error) {
	rows, err := q.q.StatusPageIncidents(ctx, dbsqlc.StatusPageIncidentsParams{
		AccountID: int64(p.Account), Services: numbers(p.Services), Databases: numbers(p.Databases), Since: since, Most: mostIncidents,
	})
	if err != nil || len(rows) == 0 {
		return nil, classify(err)
	}
	tickets := make([]int64, len(rows))
	for i, r := range rows {
		tickets[i] = r.TicketID
	}
	replies, err := q.q.RepliesPublic(ctx, tickets)
	if err != nil {
		return nil, classify(err)
	}
	shown := make([]ShownIssue, len(rows))
	for i, r := range rows {
		shown[i] = ShownIssue{ID: monitor.IssueID(r.ID), Cause: r.Cause, Created: r.Created, Closed: r.Closed}
		for _, id := range r.Affected {
			shown[i].Services = append(shown[i].Services, monitor.ServiceID(id))
		}
		for _, reply := range replies {
			if reply.TicketID == r.TicketID {
				shown[i].Updates = append([]monitor.PublicUpdate{{ID: monitor.ReplyID(reply.ID), At: reply.Created, Text: reply.Text}}, shown[i].Updates...)
			}
		}
	}
	return shown, nil
}

// PublishReply sets whether status pages may show what somebody wrote; NotFound for what nobody wrote.
func (t *Tx) PublishReply(ctx context.Context, of account.ID, ticket monitor.TicketID, id monitor.ReplyID, public bool) error {
	n, err := t.q.ReplyPublish(ctx, dbsqlc.ReplyPublishParams{Public: public, ID: int64(id), TicketID: int64(ticket), AccountID: int64(of)})
	return oneRow(n, err)
}

// Reply is one entry of a ticket of the account.
func (q queries) Reply(ctx context.Context, of account.ID, ticket monitor.TicketID, id monitor.ReplyID) (monitor.Reply, error) {
	r, err := scanReply(q.db.QueryRow(ctx, selectReply+" FROM ticket_replies r JOIN tickets t ON t.id = r.ticket_id WHERE t.account_id = $1 AND t.id = $2 AND r.id = $3",
		int64(of), int64(ticket), int64(id)))
	return r, classify(err)
}
