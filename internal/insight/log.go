package insight

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Severity is how bad a line of a server's log is.
type Severity string

// The severities, from what is least.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
	Fatal   Severity = "fatal" // the session or the server ended
)

// Severities are all of them, in their order.
var Severities = []Severity{Info, Warning, Error, Fatal}

func (s Severity) rank() int { return slices.Index(Severities, s) }

// LogLine is one entry of a server's log, which may have had several lines.
type LogLine struct {
	Time     time.Time
	Node     int
	Severity Severity
	Text     string
	// Ours reports whether it is about a session of ours: it isn't shown.
	Ours bool
	// Slow is the statement that took long, if the entry is about one.
	Slow *SlowStatement
	// OfSession reports whether it is an error that ended a session, or a statement of one, and not the server. In the server's file it may quote values.
	OfSession bool
}

// SlowStatement is one that took longer than its owner wants to be told of.
type SlowStatement struct {
	User, Database string
	Took           time.Duration
	// Text is without values.
	Text string
}

// Line is the statement as a line of a log.
func (s SlowStatement) Line() string {
	who := s.User
	if s.Database != "" {
		who += "@" + s.Database
	}
	return who + ": took " + s.Took.Round(time.Microsecond).String() + ": " + s.Text
}

// LogQuery says which lines are wanted. From and To are inclusive, zero for no bound.
type LogQuery struct {
	From, To time.Time
	// Least is the least severity, Node the only node if there is one, and Text what a line has to have, in either case.
	Least Severity
	Node  *int
	Text  string
	// Slow asks for statements that took long only, Took for those of them that took so long at least.
	Slow bool
	Took time.Duration
	// Oldest asks for the oldest first; otherwise the newest are.
	Oldest bool
	// After is where an earlier page ended, Most how many lines are wanted.
	After LogToken
	Most  int
}

// LogToken is a place between lines: behind Skip of those of a time. The zero value is the beginning.
type LogToken struct {
	Time time.Time
	Skip int
}

// String is the token as customers see it; "" for the beginning.
func (t LogToken) String() string {
	if t.Time.IsZero() {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", t.Time.UnixMicro(), t.Skip))
}

// ParseLogToken reads what String wrote.
func ParseLogToken(text string) (t LogToken, ok bool) {
	if text == "" {
		return t, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return t, false
	}
	at, skip, _ := strings.Cut(string(raw), ".")
	micros, err1 := strconv.ParseInt(at, 10, 64)
	t.Time = time.UnixMicro(micros).UTC()
	var err2 error
	t.Skip, err2 = strconv.Atoi(skip)
	return t, err1 == nil && err2 == nil && t.Skip >= 0 && t.String() == text
}

// Wants reports whether a line may be among those asked for.
func (q LogQuery) Wants(l LogLine) bool {
	switch {
	case l.Ours, l.Severity.rank() < q.Least.rank(), q.Node != nil && *q.Node != l.Node:
		return false
	case q.Slow && (l.Slow == nil || l.Slow.Took < q.Took):
		return false
	case !q.From.IsZero() && l.Time.Before(q.From), !q.To.IsZero() && l.Time.After(q.To):
		return false
	case !q.After.Time.IsZero() && q.Oldest && l.Time.Before(q.After.Time), !q.After.Time.IsZero() && !q.Oldest && l.Time.After(q.After.Time):
		return false
	}
	return q.Text == "" || strings.Contains(strings.ToLower(l.Text), strings.ToLower(q.Text))
}

// Needs is how many lines a page can need, and the next one be known to be there.
func (q LogQuery) Needs() int { return q.Most + q.After.Skip + 1 }

// Begins is before which no line is wanted; zero for no bound.
func (q LogQuery) Begins() time.Time {
	if q.Oldest && q.After.Time.After(q.From) {
		return q.After.Time
	}
	return q.From
}

// Page are the lines of one page, of all that are wanted, and the token of the next; "" when there is none
// further back. Going forward there is always one, since more lines will be written.
func (q LogQuery) Page(lines []LogLine) (page []LogLine, next LogToken) {
	sorted := slices.Clone(lines)
	slices.SortStableFunc(sorted, func(a, b LogLine) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node)) })
	if !q.Oldest {
		slices.Reverse(sorted)
	}
	skip := q.After.Skip
	for skip > 0 && len(sorted) > 0 && sorted[0].Time.Equal(q.After.Time) {
		sorted, skip = sorted[1:], skip-1
	}
	page = sorted[:min(q.Most, len(sorted))]
	if len(page) == 0 {
		if q.Oldest {
			next = q.After
		}
		return page, next
	}
	if len(page) == len(sorted) && !q.Oldest {
		return page, LogToken{}
	}
	next.Time = page[len(page)-1].Time
	for _, l := range page {
		if l.Time.Equal(next.Time) {
			next.Skip++
		}
	}
	if next.Time.Equal(q.After.Time) {
		next.Skip += q.After.Skip - skip
	}
	return page, next
}

// MostLog is how many bytes of an entry are shown.
const MostLog = 4 << 10

// Paths finds what texts name of the machine that a server runs on: what is below the usual folders, and others of its own.
func Paths(others ...string) *regexp.Regexp {
	all := append([]string{"/usr", "/var", "/dev/shm", "/tmp", "/proc", "/etc", "/home", "/root", "/opt", "/srv"}, others...)
	for i, folder := range all {
		all[i] = regexp.QuoteMeta(folder)
	}
	// The longer first: of several that fit it is the first that is taken.
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return regexp.MustCompile(`(?:` + strings.Join(all, "|") + `)(?:/[^\s'",:;)]*)?`)
}

// LogText is the text of an entry, made harmless and no longer than is shown.
func LogText(text string) string {
	text = strings.TrimSpace(Harmless(text))
	if len(text) <= MostLog {
		return text
	}
	return strings.ToValidUTF8(text[:MostLog], "") + "…"
}
