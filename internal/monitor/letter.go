package monitor

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Letter is what a notice says, in parts that each channel lays out in its own way.
type Letter struct {
	// Subject is one line of printable text.
	Subject string
	// Lead are sentences about the whole, each a paragraph.
	Lead     []string
	Services []LetterService
	// Close says where to read on.
	Close string
}

// LetterService is the part about one service.
type LetterService struct {
	Label, Address, Text string
}

// maxSubject is in characters: more is cut off by what shows it.
const maxSubject = 160

// Letter puts the notice into words.
func (n Notice) Letter() Letter {
	c := n.Content
	if c.Maintenance != nil {
		return n.ofWindow(*c.Maintenance)
	}
	if c.Growth != nil {
		return n.ofGrowth(*c.Growth)
	}
	l := Letter{Close: fmt.Sprintf("Ticket %d, issue %d.", c.Ticket, n.Issue)}
	switch n.Kind {
	case NoticeOpened:
		l.Subject, l.Lead = "Problem: "+c.Summary, n.opened()
	case NoticeRecovered:
		l.Subject, l.Lead = c.recovery(), n.ended("It is over.")
	case NoticeUnwatched:
		l.Subject, l.Lead = "No longer watched: "+c.subject(c.Services), n.ended("It is no longer watched; nothing was found well again.")
	case NoticeTest:
		l.Subject, l.Lead, l.Close = "Test: "+c.Summary, []string{oneLine(c.Summary)}, "Nothing is wrong: somebody tries out how notices are sent."
	}
	for _, s := range c.Services {
		l.Services = append(l.Services, LetterService{oneLine(s.Label), oneLine(s.Address), s.text()})
	}
	l.Subject = cut(oneLine(l.Subject), maxSubject)
	return l
}

// ofWindow puts the notice of a maintenance window into words. They are true
// whenever they are read: the notices of a window come in their order, but may be late.
func (n Notice) ofWindow(w NoticeWindow) Letter {
	l := Letter{Lead: []string{oneLine(w.Work)}, Close: fmt.Sprintf("Database %s, id %d.", oneLine(w.Database), n.Database)}
	about := "Maintenance of " + w.Database
	switch n.Kind {
	case NoticeAnnounced:
		l.Subject = about + ": " + w.when()
		l.Lead = append(l.Lead, fmt.Sprintf("This is done in the maintenance window, which is open from %s.", w.when()), whileMaintained,
			"Another notice follows when it begins, and one when it has ended.")
	case NoticeBegun:
		l.Subject = about + " has begun"
		l.Lead = append(l.Lead, fmt.Sprintf("It began at %s. The maintenance window is open from %s.", clock(n.Created), w.when()), whileMaintained,
			"Another notice follows when it has ended.")
	case NoticeDone:
		l.Subject = about + " is done"
		l.Lead = append(l.Lead, fmt.Sprintf("It ended at %s.", clock(n.Created)))
	case NoticeUnfinished:
		l.Subject = about + " isn't finished"
		l.Lead = append(l.Lead, fmt.Sprintf("It ended at %s.", clock(n.Created)))
	}
	l.Subject = cut(oneLine(l.Subject), maxSubject)
	return l
}

// ofGrowth puts the notice of a database that filled up into words.
func (n Notice) ofGrowth(g NoticeGrowth) Letter {
	l := Letter{Lead: []string{oneLine(g.Note)}, Close: fmt.Sprintf("Database %s, id %d.", oneLine(g.Database), n.Database)}
	switch n.Kind {
	case NoticeGrown:
		l.Subject = fmt.Sprintf("Database %s grows to %s", g.Database, g.Type)
		l.Lead = append(l.Lead, whileMaintained)
	case NoticeFull:
		l.Subject = fmt.Sprintf("Database %s fills up and can't grow", g.Database)
		l.Lead = append(l.Lead, "It is tried again as long as the disk is that full.")
	}
	l.Subject = cut(oneLine(l.Subject), maxSubject)
	return l
}

// whileMaintained is what those need to know whose programs use the database.
const whileMaintained = "Meanwhile connections may break; programs that connect again go on."

// when is the window in a few words: the date of its end only when that is another.
func (w NoticeWindow) when() string {
	const day, minute = "2006-01-02", "15:04"
	start, end := w.Start.UTC(), w.End.UTC()
	until := end.Format(minute)
	if start.Format(day) != end.Format(day) {
		until = end.Format(day + " " + minute)
	}
	return fmt.Sprintf("%s to %s UTC", start.Format(day+" "+minute), until)
}

func (n Notice) opened() []string {
	c := n.Content
	began := c.Opened
	if len(c.Services) > 0 {
		began = c.Services[0].Since
	}
	lead := []string{oneLine(c.Summary), "It began at " + clock(began) + "."}
	if began.After(c.Opened) {
		lead = append(lead, fmt.Sprintf("It joins an issue that was opened at %s.", clock(c.Opened)))
	}
	if n.Over != nil {
		return append(lead, "It has been over since "+clock(*n.Over)+": this notice comes late. Another one tells how it ended.")
	}
	return append(lead, "Another notice follows when it is over.")
}

// recovery is the subject of a recovery: what is well again, after how long.
func (c Content) recovery() string {
	well := slices.DeleteFunc(slices.Clone(c.Services), func(s NoticeService) bool { return s.Recovered == nil })
	began, ended := c.Opened, c.Closed
	for i, s := range well {
		if i == 0 || s.Since.Before(began) {
			began = s.Since
		}
		if i == 0 || s.Recovered.After(*ended) {
			ended = s.Recovered
		}
	}
	subject := "Recovered: " + c.subject(well)
	if ended != nil {
		subject += " after " + lasted(began, *ended)
	}
	return subject
}

// subject names what a notice is about, in a few words.
func (c Content) subject(services []NoticeService) string {
	switch {
	case len(services) == 0 && c.About == "":
		return fmt.Sprintf("ticket %d", c.Ticket)
	case len(services) == 0:
		return c.About
	case len(services) == 1:
		return services[0].Label
	case len(services) == 2:
		return services[0].Label + " and " + services[1].Label
	}
	return fmt.Sprintf("%s and %d others", services[0].Label, len(services)-1)
}

// ended are the sentences of a notice that tells of an issue's end.
func (n Notice) ended(how string) []string {
	c := n.Content
	lead := []string{oneLine(c.Summary)}
	if c.Closed != nil {
		how = fmt.Sprintf("%s It began at %s, ended at %s and lasted %s.", how, clock(c.Opened), clock(*c.Closed), lasted(c.Opened, *c.Closed))
	}
	lead = append(lead, how)
	if n.OpeningFailed {
		lead = append(lead, "The notice of its beginning couldn't be delivered.")
	}
	return lead
}

func (s NoticeService) text() string {
	found := oneLine(s.Detail)
	if found == "" && s.Class != OK {
		found = string(s.Class)
	}
	if found != "" {
		found = ": " + found
	}
	bad := fmt.Sprintf("Found bad at %s%s", clock(s.Since), found)
	switch {
	case s.Recovered != nil:
		return fmt.Sprintf("Well again since %s. %s", clock(*s.Recovered), bad)
	case s.Unwatched != nil:
		return fmt.Sprintf("No longer watched since %s. %s", clock(*s.Unwatched), bad)
	}
	return bad
}

// Text is the letter as plain text, without its subject. Lines end in "\n".
func (l Letter) Text() string {
	var b strings.Builder
	for _, paragraph := range l.Lead {
		fmt.Fprintf(&b, "%s\n\n", paragraph)
	}
	for _, s := range l.Services {
		fmt.Fprintf(&b, "- %s\n  %s\n  %s\n\n", s.Label, s.Address, s.Text)
	}
	b.WriteString(l.Close + "\n")
	return b.String()
}

func lasted(from, to time.Time) string { return to.Sub(from).Round(time.Second).String() }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// oneLine keeps a customer's text from becoming more than a line.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
