package statuspage

import (
	"fmt"
	"math"
	"strings"
	"time"

	"steward/internal/monitor"
)

// words are what states are called.
var words = map[monitor.PublicState]string{
	monitor.Operational: "Operational", monitor.Disturbed: "Degraded", monitor.Outage: "Outage", monitor.Maintenance: "Maintenance",
	monitor.Paused: "Paused", monitor.Unknown: "Unknown",
}

// wholes are what a page says at its top.
var wholes = map[monitor.PublicState]string{
	monitor.Operational: "All is well.", monitor.Disturbed: "Some of it is degraded.", monitor.Outage: "Some of it is down.",
	monitor.Maintenance: "Some of it is being worked on.", monitor.Paused: "All of it is paused.", monitor.Unknown: "Nothing is known yet.",
}

// view is a page as the template shows it.
type view struct {
	monitor.PublicPage
	Whole, Class, At, Stamp string
	Rows                    []row
	// Now are the incidents that last.
	Now, Past []incident
}

type row struct {
	Name, State, Class, Uptime, Mean string
	Bars                             []bar
}

// bar is a day: its class is for the eye, its text for everybody.
type bar struct{ Class, Text string }

type incident struct {
	ID              int64
	What            string
	Began, BeganISO string
	Ended, EndedISO string
	Lasts           bool
	Updates         []update
}

type update struct{ At, ISO, Text string }

const (
	timeLayout = "2 January 2006, 15:04 UTC"
	dayLayout  = "2 January 2006"
)

func viewOf(p monitor.PublicPage) view {
	v := view{PublicPage: p, Whole: wholes[p.State], Class: string(p.State), At: p.At.UTC().Format(timeLayout), Stamp: p.At.UTC().Format(time.RFC3339)}
	for _, e := range p.Entries {
		r := row{Name: e.Name, State: words[e.State], Class: string(e.State), Uptime: percentText(e.Uptime), Mean: meanText(e.Mean)}
		for _, d := range e.Days {
			r.Bars = append(r.Bars, bar{barClass(d.Uptime), d.Day.Format(dayLayout) + ": " + percentText(d.Uptime)})
		}
		v.Rows = append(v.Rows, r)
	}
	for _, i := range p.Incidents {
		shown := showIncident(i)
		if shown.Lasts {
			v.Now = append(v.Now, shown)
		} else {
			v.Past = append(v.Past, shown)
		}
	}
	return v
}

func showIncident(i monitor.PublicIncident) incident {
	shown := incident{ID: int64(i.ID), What: whatOf(i), Began: i.Began.UTC().Format(timeLayout), BeganISO: i.Began.UTC().Format(time.RFC3339), Lasts: i.Ended == nil}
	if i.Ended != nil {
		shown.Ended, shown.EndedISO = i.Ended.UTC().Format(timeLayout), i.Ended.UTC().Format(time.RFC3339)
	}
	for _, u := range i.Updates {
		shown.Updates = append(shown.Updates, update{u.At.UTC().Format(timeLayout), u.At.UTC().Format(time.RFC3339), u.Text})
	}
	return shown
}

// whatOf names what an incident is about.
func whatOf(i monitor.PublicIncident) string {
	if len(i.Names) == 0 {
		return "Incident"
	}
	return strings.Join(i.Names, ", ")
}

// percentText never rounds a failure away.
func percentText(p *float64) string {
	if p == nil {
		return "no data"
	}
	return fmt.Sprintf("%.5g %%", math.Floor(*p*100)/100)
}

func meanText(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func barClass(p *float64) string {
	switch {
	case p == nil:
		return "none"
	case *p >= 99.9:
		return "good"
	case *p >= 95:
		return "fair"
	}
	return "bad"
}
