package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// noticesTopic is what servers listen to for new notices.
const noticesTopic = "steward_notices"

// CreateNotices records what is to be told, for servers to send once the
// transaction is committed. What was recorded before (of the same issue and service
// or the same window, and of the same kind, channel and recipient) stays as it is.
func (t *Tx) CreateNotices(ctx context.Context, notices []monitor.Notice) error {
	if len(notices) == 0 {
		return nil
	}
	in := dbsqlc.NoticesCreateParams{Now: t.now()}
	in.GiveUp = in.Now.Add(monitor.NoticePatience)
	for _, n := range notices {
		content, err := json.Marshal(n.Content.Public())
		if err != nil {
			return fmt.Errorf("encode a notice: %w", err)
		}
		in.Accounts, in.Issues = append(in.Accounts, int64(n.Account)), append(in.Issues, int64(n.Issue))
		in.Services = append(in.Services, int64(n.Service))
		in.Clusters, in.Windows = append(in.Clusters, int64(n.Database)), append(in.Windows, n.Window)
		in.Kinds, in.Channels = append(in.Kinds, string(n.Kind)), append(in.Channels, n.Channel)
		in.Recipients, in.Names = append(in.Recipients, n.Recipient), append(in.Names, n.Name)
		in.Contents = append(in.Contents, content)
	}
	if _, err := t.q.NoticesCreate(ctx, in); err != nil {
		return classify(err)
	}
	return classify(t.q.NoticesTell(ctx))
}

// ListenNotices calls heard after each commit that made notices due, and
// whenever some may have been missed, until ctx ends.
func (s *Store) ListenNotices(ctx context.Context, heard func()) {
	s.listen(ctx, noticesTopic, heard, func(string) { heard() })
}

// NoticeClaim is which notices a server takes up to send.
type NoticeClaim struct {
	// Holder names who sends, the same after its server was started again.
	Holder string
	// Channels are whose notices are wanted; with Others those of all the rest.
	Channels []string
	Others   bool
	// AtIt are notices that the holder is sending; Busy are recipients who are being sent enough, and BusyAccounts the accounts
	// whose receivers are. Each is how many one recipient gets at most, EachAccount those of one account together, Most how
	// many there are in all; an EachAccount of 0 bounds nothing.
	AtIt                    []monitor.NoticeID
	Busy                    []string
	BusyAccounts            []account.ID
	Each, EachAccount, Most int
	// Lease is for how long they are the holder's unless renewed.
	Lease time.Duration
}

// ClaimNotices takes up notices that are due, or whose holder let its lease run
// out. Nobody else gets them meanwhile. A recovery isn't due before its opening
// has been sent or given up, nor what comes of a window before what came earlier.
func (q queries) ClaimNotices(ctx context.Context, c NoticeClaim) ([]monitor.Notice, error) {
	now := q.now()
	channels, busy := c.Channels, c.Busy
	if channels == nil {
		channels = []string{} // NULL would match nothing
	}
	if busy == nil {
		busy = []string{}
	}
	rows, err := q.q.NoticesClaim(ctx, dbsqlc.NoticesClaimParams{
		Holder: c.Holder, Now: now, Until: now.Add(c.Lease), Channels: channels, Others: c.Others, AtIt: numbers(c.AtIt), Busy: busy,
		BusyAccounts: numbers(c.BusyAccounts), Each: int64(c.Each), EachAccount: int64(cmp.Or(c.EachAccount, c.Most)), Most: int32(c.Most),
	})
	if err != nil {
		return nil, classify(err)
	}
	claimed := make([]monitor.Notice, len(rows))
	for i, r := range rows {
		n, err := toNotice(dbsqlc.NoticesListRow{
			ID: r.ID, AccountID: r.AccountID, IssueID: r.IssueID, ServiceID: r.ServiceID,
			ClusterID: r.ClusterID, WindowStart: r.WindowStart, Kind: r.Kind, Channel: r.Channel, Recipient: r.Recipient, Name: r.Name,
			Content: r.Content, State: r.State, Attempts: r.Attempts, Due: r.Due, GiveUp: r.GiveUp, Problem: r.Problem, Created: r.Created, Sent: r.Sent,
		})
		if err != nil {
			return nil, err
		}
		n.Over, n.Opening, n.OpeningCreated, n.OpeningFailed = r.Over, monitor.NoticeID(r.Opening), r.OpeningCreated, r.OpeningFailed
		claimed[i] = n
	}
	return claimed, nil
}

// RenewNotices prolongs the lease and tells which notices are still the holder's.
func (q queries) RenewNotices(ctx context.Context, holder string, ids []monitor.NoticeID, lease time.Duration) ([]monitor.NoticeID, error) {
	rows, err := q.q.NoticesRenew(ctx, dbsqlc.NoticesRenewParams{Until: q.now().Add(lease), Ids: numbers(ids), Holder: holder})
	kept := make([]monitor.NoticeID, len(rows))
	for i, id := range rows {
		kept[i] = monitor.NoticeID(id)
	}
	return kept, classify(err)
}

// ReleaseNotices makes due what the holder has taken up without being at it: what
// its predecessor of the same name was sending when it ended, and claims whose
// answer was lost. except is what it is at.
func (q queries) ReleaseNotices(ctx context.Context, holder string, except []monitor.NoticeID) (int64, error) {
	n, err := q.q.NoticesRelease(ctx, dbsqlc.NoticesReleaseParams{Now: q.now(), Holder: holder, AtIt: numbers(except)})
	return n, classify(err)
}

// EndNotice records how the holder's attempt went: n is what Notice.Delivered or
// Notice.Failed made of it. It is NotFound when that is no news: another server
// has sent the notice, or has taken it up after the holder was taken for lost.
func (t *Tx) EndNotice(ctx context.Context, holder string, n monitor.Notice) error {
	if n.State == monitor.NoticeSent {
		// Taken is taken, whoever has the notice now.
		return oneRow(t.q.NoticeSent(ctx, *n.Sent, int64(n.ID)))
	}
	return oneRow(t.q.NoticeFailed(ctx, dbsqlc.NoticeFailedParams{
		State: string(n.State), Problem: n.Problem, Due: n.Due, ID: int64(n.ID), Holder: holder, Attempts: int32(n.Attempts),
	}))
}

// HastenNotices makes all that waits for its channel due: it works again.
func (q queries) HastenNotices(ctx context.Context, channel string) (int64, error) {
	n, err := q.q.NoticesHasten(ctx, q.now(), channel)
	return n, classify(err)
}

// RetryNotices makes a notice that failed or waits due again, or with id 0 all
// that failed, and tells how many.
func (t *Tx) RetryNotices(ctx context.Context, id monitor.NoticeID) (int, error) {
	now := t.now()
	ids, err := t.q.NoticesRetry(ctx, dbsqlc.NoticesRetryParams{Now: now, GiveUp: now.Add(monitor.NoticePatience), Every: id == 0, ID: int64(id)})
	if err != nil {
		return 0, classify(err)
	}
	return len(ids), classify(t.q.NoticesTell(ctx))
}

// NoticeQuery is which notices are wanted; the zero value of a field means any.
type NoticeQuery struct {
	Account account.ID
	Issue   monitor.IssueID
	State   monitor.NoticeState
	// Most is how many; 0 means 500.
	Most int
}

// Notices lists notices, the newest first.
func (q queries) Notices(ctx context.Context, of NoticeQuery) ([]monitor.Notice, error) {
	if of.Most == 0 {
		of.Most = 500
	}
	rows, err := q.q.NoticesList(ctx, dbsqlc.NoticesListParams{
		AccountID: int64(of.Account), IssueID: int64(of.Issue), State: string(of.State), Most: int32(of.Most),
	})
	if err != nil {
		return nil, classify(err)
	}
	notices := make([]monitor.Notice, len(rows))
	for i, r := range rows {
		if notices[i], err = toNotice(r); err != nil {
			return nil, err
		}
	}
	return notices, nil
}

// NoticeCount is how many notices of a channel wait, are being sent or failed.
type NoticeCount struct {
	Channel string
	State   monitor.NoticeState
	Notices int
	// Oldest is when the first of them was made.
	Oldest time.Time
}

// NoticeCounts counts what hasn't been sent.
func (q queries) NoticeCounts(ctx context.Context) ([]NoticeCount, error) {
	rows, err := q.q.NoticesCount(ctx)
	counts := make([]NoticeCount, len(rows))
	for i, r := range rows {
		counts[i] = NoticeCount{r.Channel, monitor.NoticeState(r.State), int(r.Notices), r.Oldest}
	}
	return counts, classify(err)
}

func toNotice(r dbsqlc.NoticesListRow) (monitor.Notice, error) {
	n := monitor.Notice{
		ID: monitor.NoticeID(r.ID), Account: account.ID(r.AccountID), Issue: monitor.IssueID(r.IssueID), Service: monitor.ServiceID(r.ServiceID),
		Database: cluster.ID(r.ClusterID), Kind: monitor.NoticeKind(r.Kind),
		Channel: r.Channel, Recipient: r.Recipient, Name: r.Name, State: monitor.NoticeState(r.State), Attempts: int(r.Attempts),
		Due: r.Due, GiveUp: r.GiveUp, Problem: r.Problem, Created: r.Created, Sent: r.Sent,
	}
	if r.WindowStart != nil {
		n.Window = *r.WindowStart
	}
	if err := json.Unmarshal(r.Content, &n.Content); err != nil {
		return n, fmt.Errorf("decode notice %d: %w", r.ID, err)
	}
	return n, nil
}

func numbers[ID ~int64](ids []ID) []int64 {
	all := make([]int64, len(ids))
	for i, id := range ids {
		all[i] = int64(id)
	}
	return all
}
