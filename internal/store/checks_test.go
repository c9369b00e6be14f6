package store_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/monitor"
	"steward/internal/pgtest"
	"steward/internal/store"
	"steward/internal/testdir"
)

// checked are services that are checked at an interval, and the store's clock.
type checked struct {
	*store.Store
	t        *testing.T
	now      time.Time
	services []monitor.ServiceID
	interval time.Duration
	// checks counts those that were recorded.
	checks int
	random *rand.Rand
}

// newChecked has so many services in each of some shards.
func newChecked(t *testing.T, shards, services int, interval time.Duration) *checked {
	t.Helper()
	c := &checked{t: t, now: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC), interval: interval, random: testdir.Rand(t, "checks")}
	for n := range shards * services {
		c.services = append(c.services, monitor.ServiceID(1+n%shards+n/shards*monitor.Shards))
	}
	c.Store = pgtest.Store(t, pgtest.WithNow(func() time.Time { return c.now }))
	c.keep()
	return c
}

// keep does what a watcher does every few minutes.
func (c *checked) keep() {
	c.t.Helper()
	err := c.KeepPartitions(c.t.Context())
	var hours []time.Time
	if err == nil {
		hours, err = c.UnrolledHours(c.t.Context())
	}
	for _, hour := range hours {
		if err == nil {
			err = c.RollUp(c.t.Context(), hour)
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// pass has time go by, with checks that are recorded every ten seconds as watchers
// do. Service 1 fails at each full minute.
func (c *checked) pass(length time.Duration) {
	c.t.Helper()
	const flush = 10 * time.Second
	for end := c.now.Add(length); c.now.Before(end); c.now = c.now.Add(flush) {
		byShard := map[int][]monitor.Sample{}
		for _, id := range c.services {
			offset := time.Duration(id) * 733 * time.Millisecond % c.interval
			for at := c.now.Truncate(c.interval).Add(offset); at.Before(c.now.Add(flush)); at = at.Add(c.interval) {
				if at.Before(c.now) {
					continue
				}
				s := monitor.Sample{Service: id, Started: at.Add(time.Duration(c.random.IntN(4)) * 10 * time.Millisecond), Took: time.Duration(80+c.random.IntN(40)) * time.Millisecond, Class: monitor.OK}
				if id == 1 && at.Before(c.now.Truncate(time.Minute).Add(c.interval)) {
					s.Class = monitor.TimedOut
				}
				c.checks++
				byShard[s.Service.Shard()] = append(byShard[s.Service.Shard()], s)
			}
		}
		var blocks []store.Block
		for shard, samples := range byShard {
			b := store.Block{Shard: shard, Ended: c.now.Add(flush)}
			b.Started, b.Packed = monitor.PackSamples(samples)
			blocks = append(blocks, b)
		}
		if err := c.InTx(c.t.Context(), func(tx *store.Tx) error { return tx.AddBlocks(c.t.Context(), blocks) }); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *checked) samples(id monitor.ServiceID) []monitor.Sample {
	c.t.Helper()
	found, err := c.Samples(c.t.Context(), id, c.now.Add(-24*time.Hour))
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

func (c *checked) count(query string) (n int64) {
	c.t.Helper()
	if err := c.Pool().QueryRow(c.t.Context(), query).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// TestHoursWithoutChecks are summed up all at once, those of the day before the first start, too.
func TestHoursWithoutChecks(t *testing.T) {
	t.Parallel()
	c := newChecked(t, 1, 1, 30*time.Second)
	c.now = c.now.Add(time.Hour)
	c.pass(time.Hour)
	c.now = c.now.Add(3 * time.Hour)
	hours, err := c.UnrolledHours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if with := time.Date(2026, 1, 31, 11, 0, 0, 0, time.UTC); len(hours) != 1 || !hours[0].Equal(with) {
		t.Errorf("hours with results: %v, want %v", hours, with)
	}
	until, err := c.RolledUntil(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 31, 14, 0, 0, 0, time.UTC); !until.Equal(want) {
		t.Errorf("summed up until %v, want %v", until, want)
	}
}

// TestRollUp: an hour is summed up once it is over, and takes less room then; what
// can be read of it is the same.
func TestRollUp(t *testing.T) {
	t.Parallel()
	c := newChecked(t, 2, 3, 10*time.Second)
	began := c.now
	c.pass(80 * time.Minute)
	before, blocks := c.samples(1), c.count("SELECT count(*) FROM check_blocks")
	c.keep()
	if diff := cmp.Diff(before, c.samples(1)); diff != "" {
		t.Errorf("samples changed (-before +after):\n%s", diff)
	}
	if after := c.count("SELECT count(*) FROM check_blocks"); after > blocks/2 {
		t.Errorf("%d blocks before, %d after", blocks, after)
	}
	until, err := c.RolledUntil(t.Context())
	if err != nil || !until.Equal(began.Add(time.Hour)) {
		t.Errorf("rolled until %v, %v", until, err)
	}
	sum, err := c.Sum(t.Context(), 1, began)
	if err != nil {
		t.Fatal(err)
	}
	c.keep() // what was summed up isn't counted again
	if n := c.count("SELECT count(*) FROM check_days"); n != 0 {
		t.Errorf("%d days of services that aren't there", n)
	}
	want := monitor.Hour{Service: 1, Hour: began}
	for _, s := range before {
		if s.Started.Before(until) {
			want.Add(s)
		}
	}
	if sum.Longest != want.Longest || sum.Checks != want.Checks || sum.Failures != want.Failures || sum.Total != want.Total || sum.Checks != 360 || sum.Failures != 60 {
		t.Errorf("sum %+v, want %+v", sum, want)
	}
	c.keep() // nothing is summed up twice
	if again, err := c.Sum(t.Context(), 1, began); err != nil || again != sum {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// TestHistoryOnDisk: a check takes at most ten bytes of disk, with all that belongs
// to it, where a shard has as many services as ten thousand make. What is older
// than is told of goes.
func TestHistoryOnDisk(t *testing.T) {
	t.Parallel()
	const size = "SELECT sum(pg_total_relation_size(inhrelid))::bigint FROM pg_inherits WHERE inhparent = 'check_blocks'::regclass"
	// Two shards of 256: those of the others would be no different.
	c := newChecked(t, 2, 39, 30*time.Second)
	for range 12 { // the longer, the less it is: what is of the last hours is packed loosely still
		c.pass(time.Hour)
		c.keep()
		if _, err := c.Pool().Exec(t.Context(), "VACUUM check_blocks"); err != nil { // as autovacuum does by itself
			t.Fatal(err)
		}
	}
	if perCheck := float64(c.count(size)) / float64(c.checks); perCheck > 10 {
		t.Errorf("%.1f bytes a check", perCheck)
	} else {
		t.Logf("%.1f bytes a check", perCheck)
	}
	c.now = c.now.Add(72 * time.Hour)
	c.keep()
	if left := c.count("SELECT count(*) FROM check_blocks"); left > 0 {
		t.Errorf("%d blocks are left", left)
	}
	if sum, err := c.Sum(t.Context(), 1, c.now.Add(-30*24*time.Hour)); err != nil || sum.Checks < 11*120 {
		t.Errorf("the sums of the month: %+v, %v", sum, err)
	}
}

// TestCheckDays: the hours of a day add up, once, for services that are there; what was of one that is deleted goes.
func TestCheckDays(t *testing.T) {
	t.Parallel()
	c := newChecked(t, 2, 1, 10*time.Second)
	if _, err := c.Pool().Exec(t.Context(), `WITH a AS (INSERT INTO accounts (name, created) VALUES ('a', now()) RETURNING id)
		INSERT INTO services (id, account_id, label, service_type, address, host, timeout, body, consultation_group, notes, region, check_interval, status, since, created, updated)
		OVERRIDING SYSTEM VALUE SELECT 1, id, 'one', 'tcp', '127.0.0.1:1', '127.0.0.1', 5, '', '', '', 'local', 10, 'ok', now(), now(), now() FROM a`); err != nil {
		t.Fatal(err)
	}
	began := c.now
	c.pass(3*time.Hour + 20*time.Minute)
	c.keep()
	c.keep()
	days, err := c.CheckDays(t.Context(), c.services, began.Add(-24*time.Hour))
	if err != nil || len(days) != 1 || len(days[1]) != 1 {
		t.Fatalf("%+v, %v", days, err)
	}
	sum, err := c.Sum(t.Context(), 1, began)
	if err != nil {
		t.Fatal(err)
	}
	day := days[1][0]
	if !day.Day.Equal(began.Truncate(24*time.Hour)) || day.Checks != sum.Checks || day.Failures != sum.Failures || day.Total != sum.Total || day.Longest != sum.Longest || day.Checks < 3*360-1 || day.Failures == 0 {
		t.Errorf("the day has %+v, its hours %+v", day, sum)
	}
	c.now = c.now.Add(401 * 24 * time.Hour)
	c.keep()
	if n := c.count("SELECT count(*) FROM check_days"); n != 0 {
		t.Errorf("%d days are kept after 401 days", n)
	}
}
