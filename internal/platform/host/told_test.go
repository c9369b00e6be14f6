package host_test

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/measure"
	"steward/internal/platform"
)

// countedMeters counts what a server is asked, and reports whether a connection is kept.
type countedMeters struct {
	engine.Driver
	asked, pinged atomic.Int32
	connected     atomic.Bool
}

// OpenMeter implements engine.Metered.
func (c *countedMeters) OpenMeter(ctx context.Context, n engine.Node) (engine.Meter, error) {
	m, err := c.Driver.OpenMeter(ctx, n)
	c.connected.Store(err == nil)
	return &countedMeter{m, c}, err
}

// Ping implements engine.Driver.
func (c *countedMeters) Ping(ctx context.Context, n engine.Node) error {
	c.pinged.Add(1)
	return c.Driver.Ping(ctx, n)
}

type countedMeter struct {
	engine.Meter
	c *countedMeters
}

// Measure implements engine.Meter.
func (m *countedMeter) Measure(ctx context.Context, r *measure.Reading) (engine.LogPosition, error) {
	m.c.asked.Add(1)
	m.c.connected.Store(true)
	return m.Meter.Measure(ctx, r)
}

// Rest implements engine.Meter.
func (m *countedMeter) Rest() {
	m.c.connected.Store(false)
	m.Meter.Rest()
}

// Close implements engine.Meter.
func (m *countedMeter) Close() {
	m.c.connected.Store(false)
	m.Meter.Close()
}

// restedNode is a database of one node that is measured, by a clock that the test sets.
type restedNode struct {
	*measuredNode
	c     *countedMeters
	ahead *atomic.Int64
}

func (r *restedNode) pass(d time.Duration) { r.ahead.Add(int64(d)) }

// reading is the next, and how often the server was asked for it.
func (r *restedNode) reading() (platform.NodeReading, int) {
	r.t.Helper()
	before := r.c.asked.Load()
	one := r.read()
	return one, int(r.c.asked.Load() - before)
}

// rested waits until a reading asks the server nothing: the last that did is returned with it.
func (r *restedNode) rested() (before, after platform.NodeReading) {
	r.t.Helper()
	await.True(r.t, "the server is left alone", func() bool { // it may have something to do by itself
		before, _ = r.reading()
		r.pass(measure.Every)
		var asked int
		after, asked = r.reading()
		return asked == 0
	})
	if r.c.connected.Load() {
		r.t.Error("a connection to a server that rests is kept")
	}
	return before, after
}

// TestMeasuringLetsRest: a server that does next to nothing keeps no connection of ours, and is asked by the one that is made to see whether it answers. One
// that works is asked at every reading.
func TestMeasuringLetsRest(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, flavour engine.Flavour) {
		s := newSite(t, distributionOf(t, flavour))
		r := &restedNode{ahead: &atomic.Int64{}}
		s.o.Now = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
		family := s.o.Installations[0].Family()
		r.c = &countedMeters{Driver: s.o.Engines[family]}
		s.o.Engines[family] = r.c
		r.measuredNode = &measuredNode{t: t, s: s, d: s.started(t), want: s.wanted(t, 1)}
		r.want.Engine, r.want.Series = family, s.o.Installations[0].Series
		if family == cluster.MySQL {
			r.want.Commit = ""
		}
		r.want.Hosts = settle(t, r.d, r.want).Hosts
		if !strings.HasPrefix(r.d.Facts().ControlGroups, "cgroup") {
			t.Skip("there are no control groups here, so that nobody knows what a server does")
		}
		r.rests()
		r.lasts()
		r.works()
		r.stops()
	})
}

// rests has a server that does nothing be asked no more often than it is looked at, and by the same connection.
func (r *restedNode) rests() {
	t := r.t
	before, after := r.rested()
	for _, metric := range []measure.Metric{measure.Up, measure.Connections, measure.ConnectionsMax, measure.Commits, measure.LogBytes} {
		if v := after.Values[metric]; math.IsNaN(v) || v != before.Values[metric] {
			t.Errorf("%s: %v, then %v", metric.Definition().Name, before.Values[metric], v)
		}
	}
	r.pass(10 * time.Second)
	asked, pinged := r.c.asked.Load(), r.c.pinged.Load()
	if seen, err := r.d.Observe(t.Context(), r.want.ID); err != nil || !seen.Serving {
		t.Fatalf("%+v, %v", seen, err)
	}
	if n, pings := r.c.asked.Load()-asked, r.c.pinged.Load()-pinged; n != 1 || pings != 0 || r.c.connected.Load() {
		t.Errorf("who looks whether it answers asks %d times, and by another connection %d times; one is kept: %v", n, pings, r.c.connected.Load())
	}
	r.pass(time.Minute)
	if _, asked := r.reading(); asked != 1 {
		t.Errorf("asked %d times after a while in which nobody looked", asked)
	}
}

// lasts has a transaction grow old of which the server isn't asked.
func (r *restedNode) lasts() {
	t := r.t
	db := r.s.customerDB(t, r.want.Cluster)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // it has changed nothing that counts
	for _, q := range []string{"CREATE TABLE forgotten (v int)", "INSERT INTO forgotten VALUES (1)"} {
		if r.want.Engine == cluster.MySQL && q[0] == 'C' { // which commits
			if _, err := r.s.customerDB(t, r.want.Cluster).ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := tx.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "the transaction is seen", func() bool {
		r.pass(time.Minute)
		before, asked := r.reading()
		return asked == 1 && before.Values[measure.LongestTransaction] > 0
	})
	before, after := r.rested()
	if grown, passed := after.Values[measure.LongestTransaction]-before.Values[measure.LongestTransaction], after.At.Sub(before.At).Seconds(); math.Abs(grown-passed) > 0.01 {
		t.Errorf("the longest transaction is older by %v s, %v s later", grown, passed)
	}
}

// works has the server do something before each reading.
func (r *restedNode) works() {
	t := r.t
	db := r.s.customerDB(t, r.want.Cluster)
	before, _ := r.reading()
	queries := bulk(r.want.Engine)
	for _, q := range queries[:len(queries)-1] {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	r.pass(measure.Every)
	if _, asked := r.reading(); asked != 1 || r.c.connected.Load() {
		t.Errorf("asked %d times after some work; a connection is kept: %v", asked, r.c.connected.Load())
	}
	work := func() platform.NodeReading {
		if _, err := db.ExecContext(t.Context(), queries[len(queries)-1]); err != nil {
			t.Fatal(err)
		}
		r.pass(measure.Every)
		after, asked := r.reading()
		if asked != 1 {
			t.Errorf("asked %d times while it works", asked)
		}
		return after
	}
	await.True(t, "a connection is kept to a server that works", func() bool {
		work()
		return r.c.connected.Load()
	})
	await.True(t, "the rows are counted", func() bool { // a session of PostgreSQL tells at most once a second what it did
		return work().Values[measure.RowsInserted]-before.Values[measure.RowsInserted] >= 20_000
	})
	r.pass(measure.Every)
	if _, asked := r.reading(); asked != 1 {
		t.Errorf("asked %d times over the connection that is kept", asked)
	}
	pinged := r.c.pinged.Load()
	if _, err := r.d.Observe(t.Context(), r.want.ID); err != nil || r.c.pinged.Load() != pinged+1 {
		t.Errorf("a kept connection stands for a new one: %d pings, %v", r.c.pinged.Load()-pinged, err)
	}
	await.True(t, "the connection isn't kept for ever", func() bool {
		r.pass(measure.Every)
		_, _ = r.reading()
		return !r.c.connected.Load()
	})
}

// stops stands the server still: what it said doesn't stand for an answer, and it isn't asked in vain.
func (r *restedNode) stops() {
	pid := r.s.pid(r.t, r.want.ID)
	await.True(r.t, "a server that stands still isn't asked", func() bool { // it may have had something to do by itself just before
		r.rested()
		return r.stopped(pid) == 0
	})
}

// stopped has the server measured while it stands still, and returns how often it was asked for that.
func (r *restedNode) stopped(pid int) int {
	t := r.t
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	await.True(t, "all threads stand still", func() bool { return !moves(pid) })
	now, asked := r.reading()
	if now.Values[measure.Up] != 0 || !math.IsNaN(now.Values[measure.Connections]) {
		t.Errorf("stopped: up %v, connections %v", now.Values[measure.Up], now.Values[measure.Connections])
	}
	return asked
}
