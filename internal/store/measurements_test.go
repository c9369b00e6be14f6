package store_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// measuredStore is a store with a clock, and what was measured of some clusters.
type measuredStore struct {
	*store.Store
	t   *testing.T
	now time.Time
	// shop and desk are clusters.
	shop, desk cluster.ID
}

func newMeasuredStore(t *testing.T) *measuredStore {
	t.Helper()
	m := &measuredStore{t: t, now: time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)}
	m.Store = pgtest.Store(t, pgtest.WithNow(func() time.Time { return m.now }))
	u := newAccount(t, m.Store, "a")
	m.shop, m.desk = newCluster(t, m.Store, u.Account, "shop").ID, newCluster(t, m.Store, u.Account, "desk").ID
	m.keep()
	return m
}

func (m *measuredStore) keep() {
	m.t.Helper()
	if err := m.KeepMeasurements(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// measuredValue is what a metric is at a moment: it rises by one with every step of the day.
func measuredValue(id cluster.ID, at time.Time) float64 {
	return float64(id)*10_000 + math.Mod(float64(at.Unix()/10), 8640)
}

// pass has time go by in which nodes 0 and 1 of clusters are measured; the history is kept in shape every so often.
func (m *measuredStore) pass(length, every time.Duration, ids ...cluster.ID) {
	m.t.Helper()
	kept := m.now
	for end := m.now.Add(length); m.now.Before(end); {
		var all []store.Slice
		for ; m.now.Before(end) && m.now.Sub(kept) < every; m.now = m.now.Add(measure.Slice) {
			for _, id := range ids {
				for node := range 2 {
					all = append(all, store.Slice{Cluster: id, Node: node, Started: m.now, Packed: slice(id, node, m.now)})
				}
			}
		}
		if err := m.AddSlices(m.t.Context(), all); err != nil {
			m.t.Fatal(err)
		}
		m.keep()
		kept = m.now
	}
}

func slice(id cluster.ID, node int, started time.Time) []byte {
	steps := make([]measure.Values, 3)
	for i := range steps {
		steps[i] = measure.Unknown()
		steps[i][measure.Connections] = measuredValue(id, started.Add(time.Duration(i)*measure.Every))
		steps[i][measure.Primary] = float64(1 - node)
	}
	return measure.PackSlice(steps)
}

func (m *measuredStore) series(id cluster.ID, metric measure.Metric, r measure.Range) map[int][]measure.Point {
	m.t.Helper()
	b := measure.NewBuilder(r)
	if err := m.AddMeasurements(m.t.Context(), b, id, []measure.Metric{metric}); err != nil {
		m.t.Fatal(err)
	}
	found := map[int][]measure.Point{}
	for _, s := range b.Series() {
		if s.Cluster != id || s.Metric != metric {
			m.t.Errorf("asked for %d of %d, got %+v", metric, id, s.Key)
		}
		found[s.Node] = s.Points
	}
	return found
}

// check demands that each step has the mean, the lowest and the highest of what was measured in it.
func (m *measuredStore) check(what string, id cluster.ID, r measure.Range) {
	m.t.Helper()
	found := m.series(id, measure.Connections, r)
	if len(found) != 2 {
		m.t.Fatalf("%s: %d nodes", what, len(found))
	}
	steps := r.Step / measure.Every
	for i, p := range found[1] {
		var sum measure.Summary
		for n := range steps {
			sum.Add(measure.At(measuredValue(id, r.From.Add(time.Duration(i)*r.Step+n*measure.Every))))
		}
		want := sum.Point()
		const right = 2. / 4096 // packed twice
		if !(math.Abs(p.Mean-want.Mean) <= right*want.Mean+1e-9 && math.Abs(p.Min-want.Min) <= right*want.Min+1e-9 && math.Abs(p.Max-want.Max) <= right*want.Max+1e-9) {
			m.t.Fatalf("%s: step %d of %d is %v, want %v", what, i, len(found[1]), p, want)
		}
	}
}

func (m *measuredStore) count(query string) (n int) {
	m.t.Helper()
	if err := m.Pool().QueryRow(m.t.Context(), query).Scan(&n); err != nil {
		m.t.Fatal(err)
	}
	return n
}

// TestMeasurements has days go by: each step is the same, whichever tier it comes from.
func TestMeasurements(t *testing.T) {
	t.Parallel()
	m := newMeasuredStore(t)
	begin := m.now
	m.pass(90*time.Minute, 5*time.Minute, m.shop, m.desk)
	m.check("half an hour of slices, an hour packed", m.shop, measure.Range{From: begin, To: m.now, Step: measure.Every})
	m.check("a minute's steps", m.desk, measure.Range{From: begin, To: m.now, Step: time.Minute})
	if n := m.count("SELECT count(*) FROM measured_slices WHERE started < '2026-01-31 23:00Z'"); n != 0 {
		t.Errorf("%d slices of the hour that was packed", n)
	}
	m.pass(40*time.Hour, 12*time.Hour, m.shop)
	if n := m.count("SELECT count(*) FROM measured_medium"); n == 0 {
		t.Error("no day in steps of five minutes")
	}
	m.check("two days in steps of five minutes", m.shop, measure.Range{From: begin, To: m.now.Add(-time.Hour).Truncate(time.Hour), Step: 5 * time.Minute})
	m.check("in hours", m.shop, measure.Range{From: begin, To: m.now.Truncate(time.Hour), Step: time.Hour})
	if found := m.series(999, measure.Connections, measure.Range{From: begin, To: m.now, Step: time.Hour}); len(found) != 0 {
		t.Errorf("a cluster that wasn't measured has %v", found)
	}
	if role := m.series(m.shop, measure.Primary, measure.Range{From: begin, To: m.now.Truncate(time.Hour), Step: time.Hour}); role[0][3] != measure.At(1) || role[1][3] != measure.At(0) {
		t.Errorf("roles %v", role)
	}

	// A late slice has what was made of its hour made anew; one of last week is of no use.
	late := m.now.Add(-20 * time.Hour).Truncate(time.Hour)
	err := m.AddSlices(t.Context(), []store.Slice{
		{Cluster: m.desk, Node: 0, Started: late, Packed: slice(m.desk, 0, late)},
		{Cluster: m.desk, Node: 1, Started: late, Packed: slice(m.desk, 1, late)},
		{Cluster: m.desk, Node: 0, Started: late.Add(-7 * 24 * time.Hour), Packed: slice(m.desk, 0, late)},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.keep()
	m.check("a late slice", m.desk, measure.Range{From: late, To: late.Add(measure.Slice), Step: measure.Every})
	if p := m.series(m.desk, measure.Connections, measure.Range{From: late, To: late.Add(5 * time.Minute), Step: 5 * time.Minute})[0]; len(p) != 1 || !p[0].Known() {
		t.Errorf("a late slice in five minutes: %v", p)
	}

	// Weeks later only hours are left; years later nothing.
	end := m.now.Truncate(time.Hour)
	for _, days := range []time.Duration{5, 55} {
		m.now = m.now.Add(days * 24 * time.Hour)
		m.keep()
	}
	if fine, medium := m.count("SELECT count(*) FROM measured_fine"), m.count("SELECT count(*) FROM measured_medium"); fine != 0 || medium != 0 {
		t.Errorf("%d fine blocks and %d medium ones after two months", fine, medium)
	}
	m.check("hours after two months", m.shop, measure.Range{From: begin, To: end, Step: time.Hour})
	err = m.InTx(t.Context(), func(tx *store.Tx) error {
		c, err := tx.ClusterForWork(t.Context(), m.shop)
		if err == nil {
			err = tx.MarkDeleted(t.Context(), c)
		}
		if err == nil {
			err = tx.RemoveCluster(t.Context(), m.shop)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m.keep()
	if n := m.count(fmt.Sprintf("SELECT count(*) FROM measured_coarse WHERE cluster_id = %d", m.shop)); n != 0 {
		t.Errorf("%d blocks of a cluster that is gone", n)
	}
	if n := m.count("SELECT count(*) FROM measured_coarse"); n == 0 {
		t.Error("the other's are gone, too")
	}
	m.now = m.now.Add(400 * 24 * time.Hour)
	m.keep()
	if n := m.count("SELECT count(*) FROM measured_coarse"); n != 0 {
		t.Errorf("%d blocks after more than a year", n)
	}
}

// TestDamagedMeasurements are told of, with the place.
func TestDamagedMeasurements(t *testing.T) {
	t.Parallel()
	m := newMeasuredStore(t)
	begin := m.now
	m.pass(time.Minute, time.Minute, m.shop)
	if _, err := m.Pool().Exec(t.Context(), "UPDATE measured_slices SET packed = '\\x0102ff'"); err != nil {
		t.Fatal(err)
	}
	b := measure.NewBuilder(measure.Range{From: begin, To: m.now, Step: measure.Every})
	if err := m.AddMeasurements(t.Context(), b, m.shop, []measure.Metric{measure.Connections}); err == nil {
		t.Error("damaged slices are read")
	}
}
