package statuspage

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"time"

	"steward/internal/monitor"
)

type pageJSON struct {
	Title     string         `json:"title"`
	State     string         `json:"state"`
	Days      int            `json:"days"`
	Updated   string         `json:"updated"`
	Entries   []entryJSON    `json:"entries"`
	Incidents []incidentJSON `json:"incidents"`
}

type entryJSON struct {
	Name   string   `json:"name"`
	State  string   `json:"state"`
	Uptime *float64 `json:"uptime"`
	// Mean is in seconds; it isn't there where the page doesn't show it.
	Mean *float64  `json:"mean_response_time,omitempty"`
	Days []dayJSON `json:"days"`
}

type dayJSON struct {
	Day    string   `json:"day"`
	Uptime *float64 `json:"uptime"`
}

type incidentJSON struct {
	ID       int64        `json:"id"`
	Affected []string     `json:"affected"`
	Began    string       `json:"began"`
	Ended    *string      `json:"ended"`
	Updates  []updateJSON `json:"updates"`
}

type updateJSON struct {
	At   string `json:"at"`
	Text string `json:"text"`
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func jsonOf(p monitor.PublicPage) pageJSON {
	out := pageJSON{Title: p.Title, State: string(p.State), Days: p.Days, Updated: stamp(p.At), Entries: []entryJSON{}, Incidents: []incidentJSON{}}
	for _, e := range p.Entries {
		one := entryJSON{Name: e.Name, State: string(e.State), Uptime: e.Uptime, Days: []dayJSON{}}
		if e.Mean != nil {
			one.Mean = new(e.Mean.Seconds())
		}
		for _, d := range e.Days {
			one.Days = append(one.Days, dayJSON{d.Day.Format(time.DateOnly), d.Uptime})
		}
		out.Entries = append(out.Entries, one)
	}
	for _, i := range p.Incidents {
		one := incidentJSON{ID: int64(i.ID), Affected: append([]string{}, i.Names...), Began: stamp(i.Began), Updates: []updateJSON{}}
		if i.Ended != nil {
			one.Ended = new(stamp(*i.Ended))
		}
		for _, u := range i.Updates {
			one.Updates = append(one.Updates, updateJSON{stamp(u.At), u.Text})
		}
		out.Incidents = append(out.Incidents, one)
	}
	return out
}

// json is public as the page is: scripts of any site may read it.
func (p *Pages) json(w http.ResponseWriter, _ *http.Request, page monitor.PublicPage) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	_ = json.NewEncoder(w).Encode(jsonOf(page)) // a reader that has gone needs none
}

type feed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Title   string      `xml:"title"`
	ID      string      `xml:"id"`
	Updated string      `xml:"updated"`
	Author  string      `xml:"author>name"`
	Links   []feedLink  `xml:"link"`
	Entries []feedEntry `xml:"entry"`
}

type feedLink struct {
	Rel  string `xml:"rel,attr,omitempty"`
	Href string `xml:"href,attr"`
}

type feedEntry struct {
	Title   string   `xml:"title"`
	ID      string   `xml:"id"`
	Updated string   `xml:"updated"`
	Link    feedLink `xml:"link"`
	Content feedText `xml:"content"`
}

type feedText struct {
	Type string `xml:"type,attr"`
	Text string `xml:",chardata"`
}

// atom has an entry for each update. Ids name the page, not where it is read: a page that moves to another host brings
// nothing old again.
func (p *Pages) atom(w http.ResponseWriter, _ *http.Request, page monitor.PublicPage) {
	path := "/status/" + page.Slug
	f := feed{Title: page.Title, ID: "urn:steward:status:" + page.Slug, Author: page.Title, Links: []feedLink{{"self", path + ".atom"}, {"alternate", path}}}
	var last time.Time
	for _, i := range page.Incidents {
		for _, u := range i.Updates {
			if u.At.After(last) {
				last = u.At
			}
			f.Entries = append(f.Entries, feedEntry{
				Title: whatOf(i), ID: fmt.Sprintf("urn:steward:status:%s:%d:%d", page.Slug, i.ID, u.ID), Updated: stamp(u.At),
				Link: feedLink{Href: fmt.Sprintf("%s#incident-%d", path, i.ID)}, Content: feedText{"text", u.Text},
			})
		}
	}
	f.Updated = stamp(cmp.Or(last, page.At))
	w.Header().Set("Content-Type", "application/atom+xml; charset=utf-8")
	_, _ = w.Write([]byte(xml.Header))
	_ = xml.NewEncoder(w).Encode(f) // a reader that has gone needs none
}

var colours = map[monitor.PublicState]string{
	monitor.Operational: "#1a7f4b", monitor.Disturbed: "#8a5a00", monitor.Maintenance: "#8a5a00", monitor.Outage: "#b3261e",
}

// badge is a picture of the page's state in a word, for other sites.
func (p *Pages) badge(w http.ResponseWriter, r *http.Request) {
	page, ok := p.find(w, r, r.PathValue("name"))
	if !ok {
		return
	}
	word := strings.ToLower(words[page.State])
	width := 64 + 7*len(word)
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="status: %s"><title>status: %s</title>`+
		`<rect width="%d" height="20" rx="3" fill="#444"/><rect x="50" width="%d" height="20" rx="3" fill="%s"/>`+
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"><text x="7" y="14">status</text><text x="57" y="14">%s</text></g></svg>`,
		width, word, word, width, width-50, cmp.Or(colours[page.State], "#555"), word)
}
