package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/insight"
	"steward/internal/platform/memplatform"
)

func TestLogs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	path := fmt.Sprintf("/v4/databases/postgresql/instances/%d/logs", id)
	start := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	b.behind(id, func(c *memplatform.Cluster) {
		for i := range 60 {
			l := insight.LogLine{Time: start.Add(time.Duration(i/2) * time.Second), Severity: insight.Severities[i%4], Text: fmt.Sprint("Line ", i)}
			c.Inside.Log = append(c.Inside.Log, l)
		}
		c.Inside.Log = append(c.Inside.Log, insight.LogLine{Time: start, Severity: insight.Fatal, Text: "Line of ours", Ours: true})
		c.Running = false // nobody has to run for it
	})
	type page struct {
		Data []struct{ Time, Severity, Message string }
		Next *string `json:"next_page_token"`
	}
	read := func(query string) (got []string) {
		t.Helper()
		for token, n := "", 0; n < 10; n++ {
			var p page
			b.decode(b.send("GET", path+query+"&page_size=25&page_token="+token, b.readOnly, ""), &p)
			for _, l := range p.Data {
				got = append(got, strings.TrimPrefix(l.Message, "Line "))
			}
			if p.Next == nil || len(p.Data) == 0 {
				break
			}
			token = *p.Next
		}
		return got
	}
	if got := read("?order=oldest"); len(got) != 60 || got[0] != "0" || got[59] != "59" {
		t.Errorf("%v", got)
	}
	got := read("?order=newest")
	if slices.Reverse(got); len(got) != 60 || got[0] != "0" || got[59] != "59" {
		t.Errorf("%v", got)
	}
	if got := read("?severity=fatal&order=oldest&from=2026-01-31T18:00:05&to=2026-01-31T18:00:09&text=LINE"); !slices.Equal(got, []string{"11", "15", "19"}) {
		t.Errorf("%v", got)
	}
	r := b.send("GET", path+"?from=x&to=y&node=7x&page_token=%21&severity=info", b.readOnly, "")
	if want := []string{
		"from: Must be a time such as 2026-01-31T18:04:05", "node: Must be a node's number", "page_token: Must be the next_page_token of another page", "to: Must be a time such as 2026-01-31T18:04:05",
	}; r.StatusCode != 400 || !slices.Equal(r.faults(), want) {
		t.Errorf("%d %q", r.StatusCode, r.faults())
	}
	for _, wrong := range []string{"node=1", "node=-1", "severity=all", "page_size=1", "from=2026-01-31T18:00:05&to=2026-01-31T18:00:04"} {
		if r := b.send("GET", path+"?"+wrong, b.readOnly, ""); r.StatusCode != 400 {
			t.Errorf("%s: %d %s", wrong, r.StatusCode, r.body)
		}
	}
	if r := b.send("GET", path, b.restricted, ""); r.StatusCode != 404 {
		t.Errorf("without a grant: %d", r.StatusCode)
	}
}
