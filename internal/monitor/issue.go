package monitor

import (
	"fmt"
	"time"

	"steward/internal/account"
)

// JoinWindow is how long after an issue was opened, or last joined, another
// service that fails on the same host joins it: one cause, one issue.
const JoinWindow = 2 * time.Minute

// RecentIssues is how long closed issues are listed.
const RecentIssues = 30 * 24 * time.Hour

// Issue is one outage, of one service or of several on the same host.
type Issue struct {
	ID      IssueID
	Account account.ID
	Host    string
	// Cause is what is at fault when that isn't a service, and About its name for
	// people.
	Cause string
	About string
	// Contacts reports whether it is told to the account's contacts.
	Contacts bool
	Created  time.Time
	// Closed is nil while the outage lasts.
	Closed *time.Time
	// Services are those affected, also if they have recovered.
	Services []ServiceID
	Ticket   Ticket
}

// Ticket is what people are told of an issue and what they write about it.
type Ticket struct {
	ID      TicketID
	Account account.ID
	Summary string
	Open    bool
	Opened  time.Time
	Updated time.Time
	Closed  *time.Time
}

// ReplyKind is what an entry of a ticket's timeline is about.
type ReplyKind string

// What happens to a ticket.
const (
	Opened    ReplyKind = "opened"
	Joined    ReplyKind = "joined"
	Notified  ReplyKind = "notice"
	Recovered ReplyKind = "recovered"
	Unwatched ReplyKind = "unwatched"
	Closed    ReplyKind = "closed"
	Replied   ReplyKind = "reply"
)

// Reply is one entry of a ticket's timeline: what happened, or what somebody wrote.
type Reply struct {
	ID        ReplyID
	Ticket    TicketID
	Kind      ReplyKind
	By        string
	FromStaff bool
	Text      string
	// Public reports whether status pages may show it.
	Public  bool
	Created time.Time
}

// Watcher is who writes what nobody wrote.
const Watcher = "steward"

// Summarize is a ticket's summary: which service, and what was found.
func Summarize(label string, r Result) string {
	if r.Detail == "" {
		return fmt.Sprintf("%s: %s", label, r.Class)
	}
	return fmt.Sprintf("%s: %s", label, r.Detail)
}
