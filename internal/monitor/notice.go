package monitor

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
)

// NoticeKind is which end of an outage, or of the work of a maintenance window, a
// notice tells of, or that a database has filled up.
type NoticeKind string

// The kinds of notices. A recipient gets one opening for each service of an issue
// that is theirs, and one notice when the issue is closed: of the recovery, or that
// nothing of it is watched any more.
const (
	NoticeOpened    NoticeKind = "opened"
	NoticeRecovered NoticeKind = "recovered"
	NoticeUnwatched NoticeKind = "unwatched"
	// NoticeAnnounced, NoticeBegun and one of the other two are of a maintenance
	// window: a day ahead, when its work begins and when that ends.
	NoticeAnnounced  NoticeKind = "announced"
	NoticeBegun      NoticeKind = "begun"
	NoticeDone       NoticeKind = "done"
	NoticeUnfinished NoticeKind = "unfinished"
	// NoticeGrown is of a database with autoscale that moves to a larger type, NoticeFull of one that would have to and can't.
	NoticeGrown NoticeKind = "grown"
	NoticeFull  NoticeKind = "full"
	// NoticeTest is of no issue, and isn't kept: the operator tries a channel out.
	NoticeTest NoticeKind = "test"
)

// NoticeState is how far a notice is.
type NoticeState string

// A notice goes pending → sending → sent, or back to pending until it is given
// up as failed. The operator can make a failed one pending again.
const (
	NoticePending NoticeState = "pending"
	NoticeSending NoticeState = "sending"
	NoticeSent    NoticeState = "sent"
	NoticeFailed  NoticeState = "failed"
)

// EmailChannel is the channel whose recipients are contacts' addresses. The
// others are the operator's, by the names that the configuration gives them.
const EmailChannel = "email"

// AccountChannel is the channel of webhooks and chats that accounts have set up; its recipients are their ids. No
// channel of the operator's can have that name.
const AccountChannel = "@account"

// Notice is what one recipient is told of one issue, of one maintenance window, or of a database that filled up.
type Notice struct {
	ID      NoticeID
	Account account.ID
	Issue   IssueID
	// Service is what an opening tells of; 0 of another cause, and at the end.
	Service ServiceID
	// Database is whose window that opens at Window it is of, or which filled up then; 0 of an issue.
	Database cluster.ID
	Window   time.Time
	Kind     NoticeKind
	// Channel is EmailChannel or the name of one of the operator's; Recipient an
	// e-mail address, or "" on a channel that has its own.
	Channel, Recipient string
	// Name is the contact's; "" on the operator's channels.
	Name    string
	Content Content
	State   NoticeState
	// Attempts counts from 1 when it is sent for the first time.
	Attempts int
	// Due is when it is tried next, GiveUp when no more.
	Due, GiveUp time.Time
	// Problem is why the last attempt failed, as one sentence.
	Problem string
	Created time.Time
	Sent    *time.Time

	// What was known when it was taken up to be sent. Over is when the issue was
	// closed; Opening is the recovery's earlier partner, 0 without one, which the
	// recipient has not got when OpeningFailed. Of a window it is the first notice.
	Over           *time.Time
	Opening        NoticeID
	OpeningCreated time.Time
	OpeningFailed  bool
}

// About is what a notice tells of, in a few words.
func (n Notice) About() string {
	if n.Content.Maintenance == nil {
		return fmt.Sprintf("issue %d", n.Issue)
	}
	return fmt.Sprintf("%s, %s", n.Content.Maintenance.Database, n.Window.UTC().Format("2006-01-02 15:04"))
}

// Content is what a notice says: all that is known when its issue opens or
// closes, so that nothing that happens later changes it.
type Content struct {
	Ticket TicketID `json:"ticket"`
	// Summary is what was found, one line: of an opening's service, or of the first
	// that the recipient was told of.
	Summary string `json:"summary"`
	// About names what it is about when that isn't a service.
	About string `json:"about,omitempty"`
	// Host is what the services have in common; "" when that isn't a host.
	Host   string    `json:"host,omitempty"`
	Opened time.Time `json:"opened"`
	// Closed is nil in the opening notice.
	Closed   *time.Time      `json:"closed,omitempty"`
	Services []NoticeService `json:"services,omitempty"`
	// Maintenance is what a notice of a window is about, Growth that of a database that filled up; nil of an issue.
	Maintenance *NoticeWindow `json:"maintenance,omitempty"`
	Growth      *NoticeGrowth `json:"growth,omitempty"`
}

// NoticeGrowth is a database that filled up.
type NoticeGrowth struct {
	Database string `json:"database"`
	// Type is the larger one that it moves to; "" when it can't.
	Type string `json:"type,omitempty"`
	// Note says how full it was, and what came of it.
	Note string `json:"note"`
}

// NoticeWindow is a maintenance window of a database.
type NoticeWindow struct {
	Database string    `json:"database"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	// Work is what will be done, is being done, or was done; or why it wasn't.
	Work string `json:"work"`
}

// NoticeService is a service of the issue.
type NoticeService struct {
	Label   string `json:"label"`
	Address string `json:"address"`
	// Class and Detail are what the deciding check found.
	Class  Class  `json:"class"`
	Detail string `json:"detail,omitempty"`
	// Since is when the service was first found bad, Recovered when well again;
	// Unwatched when nobody looked any more.
	Since     time.Time  `json:"since"`
	Recovered *time.Time `json:"recovered,omitempty"`
	Unwatched *time.Time `json:"unwatched,omitempty"`
}

// Public is the content as it may leave the house: addresses without what
// customers hide secrets in.
func (c Content) Public() Content {
	c.Services = slices.Clone(c.Services)
	for i := range c.Services {
		c.Services[i].Address = BareAddress(c.Services[i].Address)
	}
	return c
}

// BareAddress is a service's address without user, query and fragment.
func BareAddress(address string) string {
	bare, _, _ := strings.Cut(address, "#")
	bare, _, _ = strings.Cut(bare, "?")
	u, err := url.Parse(bare)
	if err != nil || u.User == nil {
		return bare
	}
	u.User = nil
	return u.String()
}

// NoticePatience is how long a notice is tried: longer than a mail server is
// away over a weekend's night, and what SMTP servers themselves bounce after.
const NoticePatience = 48 * time.Hour

// noticePauses follow the first, second, … failed attempt; the last goes on.
var noticePauses = []time.Duration{
	2 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
	5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour,
}

// Failed is the notice after an attempt that failed at now: pending and due later,
// or failed for good when the refusal is permanent or its time is up.
func (n Notice) Failed(now time.Time, problem string, permanent bool) Notice {
	pause := noticePauses[min(max(n.Attempts, 1), len(noticePauses))-1]
	n.Problem, n.State, n.Due = problem, NoticePending, now.Add(pause)
	if permanent || n.Due.After(n.GiveUp) {
		n.State, n.Due = NoticeFailed, now
	}
	return n
}

// Delivered is the notice after its recipient's server took it.
func (n Notice) Delivered(now time.Time) Notice {
	n.State, n.Problem, n.Sent = NoticeSent, "", &now
	return n
}
