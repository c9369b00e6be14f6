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

func TestSlowQueries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	instance := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	path := instance + "/queries/slow"
	start := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	b.behind(id, func(c *memplatform.Cluster) {
		for i := range 30 {
			s := insight.SlowStatement{User: "app", Database: "shop", Took: time.Duration(i) * 100 * time.Millisecond, Text: fmt.Sprint("SELECT ", i)}
			c.Inside.Log = append(c.Inside.Log,
				insight.LogLine{Time: start.Add(time.Duration(i) * time.Second), Severity: insight.Info, Text: s.Line(), Slow: &s},
				insight.LogLine{Time: start, Severity: insight.Error, Text: "SELECT no statement"})
		}
		c.Inside.Log = append(c.Inside.Log, insight.LogLine{Time: start, Severity: insight.Info, Ours: true, Slow: &insight.SlowStatement{User: "steward", Took: time.Hour}})
	})
	type page struct {
		Threshold *float64
		Missing   *string
		Data      []struct {
			Time, User, Query string
			Database          *string
			Duration          float64
			Node              int
		}
		Next *string `json:"next_page_token"`
	}
	read := func(query string) (p page, texts []string) {
		t.Helper()
		b.decode(b.send("GET", path+query, b.readOnly, ""), &p)
		for _, l := range p.Data {
			texts = append(texts, l.Query)
		}
		return p, texts
	}
	p, got := read("?page_size=25")
	if len(got) != 25 || got[0] != "SELECT 29" || p.Threshold != nil || p.Missing == nil || !strings.Contains(*p.Missing, "pg.log_min_duration_statement") {
		t.Errorf("%+v", p)
	}
	if _, got := read("?page_size=25&page_token=" + *p.Next); len(got) != 5 || got[4] != "SELECT 0" {
		t.Errorf("%q", got)
	}
	if r := b.send("PUT", instance, b.full, `{"engine_config":{"pg":{"log_min_duration_statement":2500}}}`); r.StatusCode != 200 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	p, got = read("?min_duration=2.7&order=oldest&from=2026-01-31T18:00:01")
	if !slices.Equal(got, []string{"SELECT 27", "SELECT 28", "SELECT 29"}) || p.Missing != nil || p.Threshold == nil || *p.Threshold != 2.5 {
		t.Errorf("%+v", p)
	}
	if one := p.Data[0]; one.Duration != 2.7 || one.User != "app" || *one.Database != "shop" || one.Time != "2026-01-31T18:00:27" {
		t.Errorf("%+v", one)
	}
	for _, wrong := range []string{"node=1", "page_size=1", "min_duration=-1", "min_duration=x", "from=x", "page_token=%21"} {
		if r := b.send("GET", path+"?"+wrong, b.readOnly, ""); r.StatusCode != 400 {
			t.Errorf("%s: %d %s", wrong, r.StatusCode, r.body)
		}
	}
	if r := b.send("GET", path, b.restricted, ""); r.StatusCode != 404 {
		t.Errorf("without a grant: %d", r.StatusCode)
	}
	for _, wrong := range []string{`{"pg":{"log_min_duration_statement":-2}}`, `{"pg":{"log_min_duration_statement":1.5}}`, `{"pg":{"log_min_duration_statement":86400001}}`} {
		if r := b.send("PUT", instance, b.full, `{"engine_config":`+wrong+`}`); r.StatusCode != 400 {
			t.Errorf("%s: %d %s", wrong, r.StatusCode, r.body)
		}
	}
}
