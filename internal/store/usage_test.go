package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/cluster"
	"steward/internal/filter"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// TestUsage: no second of a database is missing or counted twice, whatever it becomes and whenever somebody counts.
func TestUsage(t *testing.T) {
	t.Parallel()
	clock := newClock()
	clock.at = time.Date(2026, 1, 30, 20, 0, 0, 0, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(clock.now))
	owner := newAccount(t, s, "a").Account
	other := newAccount(t, s, "b").Account
	newCluster(t, s, other, "theirs")
	c := newCluster(t, s, owner, "db")
	plan := c.Type
	count := func() {
		t.Helper()
		if err := s.CountUsage(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	move := func(on cluster.Trigger) {
		t.Helper()
		inTx(t, s, func(tx *store.Tx) (err error) {
			c, err = tx.Transition(t.Context(), c, on)
			return err
		})
	}
	move(cluster.Ready)
	clock.pass(90 * time.Minute)
	count()
	count() // at the same moment
	clock.pass(30 * time.Minute)
	c.Type = "larger"
	inTx(t, s, func(tx *store.Tx) (err error) {
		c, err = tx.UpdateCluster(t.Context(), c)
		return err
	})
	clock.pass(26 * time.Hour) // over a whole day
	move(cluster.Suspend)
	move(cluster.Ready)
	clock.pass(6 * time.Hour)
	move(cluster.Resume)
	move(cluster.Ready)
	clock.pass(time.Hour)
	inTx(t, s, func(tx *store.Tx) error { return tx.MarkDeleted(t.Context(), c) })
	clock.pass(5 * time.Hour)
	count()
	got, total, err := s.Usage(t.Context(), owner, store.ListQuery{})
	if err != nil || total != 4 {
		t.Fatalf("%d, %v", total, err)
	}
	var lines []string
	for _, u := range got {
		if u.Account != owner || u.Cluster != c.ID || u.Label != "db" || u.Engine != c.EngineID() || u.Size != 1 {
			t.Errorf("%+v", u)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s", u.Day.Format(time.DateOnly), u.Type, u.Running, u.Suspended))
	}
	want := []string{"2026-02-01 larger 1h0m0s 6h0m0s", "2026-01-31 larger 24h0m0s 0s", "2026-01-30 " + plan + " 2h0m0s 0s", "2026-01-30 larger 2h0m0s 0s"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	f, err := filter.Parse(`{"day":{"+gte":"2026-01-31"},"+order_by":"day","+order":"asc"}`, store.UsageFields)
	if err != nil {
		t.Fatal(err)
	}
	if got, total, err = s.Usage(t.Context(), owner, store.ListQuery{Filter: f}); err != nil || total != 2 || got[0].Day.Day() != 31 {
		t.Errorf("since a day: %+v, %v", got, err)
	}
	clock.pass(401 * 24 * time.Hour)
	count()
	if _, total, err = s.Usage(t.Context(), owner, store.ListQuery{}); err != nil || total != 0 {
		t.Errorf("years later there are %d, %v", total, err)
	}
}
