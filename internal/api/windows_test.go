package api_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestWindow is changed by single members; null takes the week of the month away,
// which only a weekly window can do without.
func TestWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.active()
	for _, step := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"updates":{"duration":4}}`, 200, `"duration":4`},
		{`{"updates":{"duration":5}}`, 400, `{"field":"updates.duration","reason":"Must be 1-4"}`},
		{`{"updates":{"week_of_month":null}}`, 200, `"frequency":"weekly"`},
		{`{"updates":{"frequency":"monthly","week_of_month":null}}`, 400, `"field":"updates.week_of_month"`},
		{`{"updates":{"frequency":"monthly","week_of_month":2}}`, 200, `"week_of_month":2`},
		{`{"updates":{"week_of_month":null}}`, 400, `"field":"updates.week_of_month"`},
		{`{"updates":{"hour_of_day":7}}`, 200, `"week_of_month":2`},
		{`{"updates":{"week_of_month":5}}`, 400, `"field":"updates.week_of_month"`},
		{`{"updates":{"frequency":"weekly","week_of_month":null}}`, 200, `"week_of_month":null`},
	} {
		r := b.send("PUT", one, b.full, step.body)
		if r.StatusCode != step.status || !strings.Contains(r.body, step.want) {
			t.Errorf("%s: %d %s; want %d with %s", step.body, r.StatusCode, r.body, step.status, step.want)
		}
	}
}

// TestWindowAtCreation: what is asked for of it is taken, the rest is chosen.
func TestWindowAtCreation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = "/v4/databases/postgresql/instances"
	for _, c := range []struct {
		updates string
		status  int
		want    string
	}{
		{`{"duration":4,"hour_of_day":7}`, 200, `"updates":{"frequency":"weekly","duration":4,"hour_of_day":7`},
		{`{"frequency":"monthly","day_of_week":6,"week_of_month":2}`, 200, `"frequency":"monthly","duration":3,"hour_of_day":2,"day_of_week":6,"week_of_month":2`},
		{`{"frequency":"monthly"}`, 400, `"field":"updates.week_of_month"`},
		{`{"hour_of_day":24}`, 400, `"field":"updates.hour_of_day"`},
	} {
		label := fmt.Sprintf("shop-%d", len(c.updates))
		r := b.send("POST", all, b.full, strings.Replace(goodCreate, `"shop"`, `"`+label+`","updates":`+c.updates, 1))
		if r.StatusCode != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s; want %d with %s", c.updates, r.StatusCode, r.body, c.status, c.want)
		}
	}
}

// active is the path of a database that serves.
func (b *bench) active() string {
	b.t.Helper()
	id := b.create()
	if _, err := b.store.Pool().Exec(b.t.Context(), "UPDATE clusters SET status = 'active' WHERE id = $1", id); err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
}
