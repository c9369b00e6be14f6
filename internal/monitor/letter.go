package monitor

import (
	"fmt"
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
	l := Letter{Close: fmt.Sprintf("Ticket %d, issue %d.", c.Ticket, n.Issue)}
	switch n.Kind {
	case NoticeOpened:
		l.Subject, l.Lead = "Problem: "+c.Summary, n.opened()
	case NoticeRecovered:
		l.Subject, l.Lead = "Recovered: "+c.Summary, n.recovered()
	case NoticeTest:
		l.Subject, l.Lead, l.Close = "Test: "+c.Summary, []string{oneLine(c.Summary)}, "Nothing is wrong: an operator tries out how notices are sent."
	}
	for _, s := range c.Services {
		l.Services = append(l.Services, LetterService{oneLine(s.Label), oneLine(s.Address), s.text()})
	}
	l.Subject = cut(oneLine(l.Subject), maxSubject)
	return l
}

func (n Notice) opened() []string {
	lead := []string{oneLine(n.Content.Summary), "It began at " + clock(n.Content.Opened) + "."}
	if n.Over != nil {
		return append(lead, "It has been over since "+clock(*n.Over)+": this notice comes late. Another one tells of the recovery.")
	}
	return append(lead, "Another notice follows when it is over.")
}

func (n Notice) recovered() []string {
	lead := []string{oneLine(n.Content.Summary)}
	if closed := n.Content.Closed; closed != nil {
		lasted := closed.Sub(n.Content.Opened).Round(time.Second)
		lead = append(lead, fmt.Sprintf("It is over. It began at %s, ended at %s and lasted %s.", clock(n.Content.Opened), clock(*closed), lasted))
	}
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
	if s.Recovered != nil {
		return fmt.Sprintf("Well again since %s. Found bad at %s%s", clock(*s.Recovered), clock(s.Since), found)
	}
	return fmt.Sprintf("Found bad at %s%s", clock(s.Since), found)
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
