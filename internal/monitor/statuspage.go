package monitor

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
)

// StatusPageID identifies a status page.
type StatusPageID int64

// Bounds of status pages (docs/rules.md, Managed services).
const (
	minSlug, maxSlug   = 3, 48
	minTitle, maxTitle = 1, 100
	// DefaultStatusDays is how many days a page shows that doesn't say.
	DefaultStatusDays = 90
	// KeepCheckDays is how long sums of days are kept, and the most that a page shows.
	KeepCheckDays = 400
	// MostStatusEntries is how many services, and how many databases, a page shows.
	MostStatusEntries = 100
	// MostStatusPages is how many an account has.
	MostStatusPages = 100
)

// StatusPage is what an account shows to everybody who knows the page's slug.
type StatusPage struct {
	ID        StatusPageID
	Account   account.ID
	Slug      string
	Title     string
	Services  []ServiceID
	Databases []cluster.ID
	// Days is of how many days, today included, the page tells.
	Days              int
	ShowResponseTimes bool
	Created, Updated  time.Time
}

var slugPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Validate finds everything that is wrong with a page by itself.
func (p StatusPage) Validate() fault.Faults {
	var faults fault.Faults
	switch n := len(p.Slug); {
	case n < minSlug || n > maxSlug:
		faults = append(faults, fault.Length("slug", minSlug, maxSlug))
	case !slugPattern.MatchString(p.Slug):
		faults.Add("slug", "Must be of small letters a to z and digits, with single hyphens between")
	}
	title := validateText("title", p.Title, minTitle, maxTitle)
	if len(title) == 0 && strings.TrimSpace(p.Title) == "" {
		title = fault.Faults{fault.Blank("title")}
	}
	faults = append(faults, title...)
	if p.Days < 1 || p.Days > KeepCheckDays {
		faults = append(faults, fault.Range("days", 1, KeepCheckDays))
	}
	faults = append(faults, validateEntries("services", p.Services)...)
	return append(faults, validateEntries("databases", p.Databases)...)
}

func validateEntries[ID ~int64](field string, ids []ID) (faults fault.Faults) {
	if len(ids) > MostStatusEntries {
		faults.Add(field, "Must be at most %d", MostStatusEntries)
	}
	sorted := slices.Sorted(slices.Values(ids))
	if len(slices.Compact(sorted)) < len(ids) {
		faults.Add(field, "Must not name one twice")
	}
	return faults
}

// StatusPageSlugTaken is the fault of a slug that another page has, of whatever account:
// the page itself can be seen by everybody.
func StatusPageSlugTaken() *fault.Fault {
	return fault.NewInvalid("slug", "Another status page has this slug")
}

// PublicState is how something is, in words for everybody.
type PublicState string

// How what a status page shows can be.
const (
	Operational PublicState = "operational"
	Disturbed   PublicState = "degraded"
	Outage      PublicState = "outage"
	Maintenance PublicState = "maintenance"
	Paused      PublicState = "paused"
	Unknown     PublicState = "unknown"
)

// State is how a service of the status is, for everybody.
func (s Status) State() PublicState {
	switch s {
	case Up:
		return Operational
	case Down:
		return Outage
	case Disabled:
		return Paused
	}
	return Unknown
}

// StateOf is how a database of the status is, for everybody. One that sleeps wakes for who connects: it is well.
func StateOf(s cluster.Status) PublicState {
	switch s {
	case cluster.Active, cluster.BackingUp:
		return Operational
	case cluster.Degraded:
		return Disturbed
	case cluster.Failed:
		return Outage
	case cluster.Suspending, cluster.Suspended:
		return Paused
	}
	return Maintenance
}

// Overall is how a page is as a whole: as bad as the worst of its entries, of which those that are paused, or of which
// nothing is known, say nothing.
func Overall(entries []PublicEntry) PublicState {
	worst := Unknown
	rank := map[PublicState]int{Operational: 1, Maintenance: 2, Disturbed: 3, Outage: 4}
	for _, e := range entries {
		if rank[e.State] > rank[worst] {
			worst = e.State
		}
	}
	return worst
}

// PublicDay is what is known of a day, UTC.
type PublicDay struct {
	Day time.Time
	// Uptime is the part of the day's checks that was good, in percent; nil where nothing is known.
	Uptime *float64
}

// PublicEntry is a service or a database as a status page shows it: without address, plan or cause.
type PublicEntry struct {
	Name  string
	State PublicState
	// Uptime is that of all days together, in percent; nil where nothing is known.
	Uptime *float64
	// Mean is how long a check took; nil where the page doesn't show it, or nothing is known.
	Mean *time.Duration
	// Days are the page's, oldest first.
	Days []PublicDay
}

// PublicUpdate is what was written for everybody.
type PublicUpdate struct {
	ID   ReplyID
	At   time.Time
	Text string
}

// PublicIncident is an issue of which something was written for everybody. It has no summary: that says what was found
// where.
type PublicIncident struct {
	ID    IssueID
	Names []string
	Began time.Time
	// Ended is nil while it lasts.
	Ended *time.Time
	// Updates are the newest first.
	Updates []PublicUpdate
}

// PublicPage is what a status page shows.
type PublicPage struct {
	Slug, Title string
	Days        int
	// ShowResponseTimes reports whether entries have them.
	ShowResponseTimes bool
	State             PublicState
	At                time.Time
	Entries           []PublicEntry
	// Incidents are those that last and those that ended within the page's days, the newest first.
	Incidents []PublicIncident
}
