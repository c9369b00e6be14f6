// Package meter reads what databases do, every ten seconds each, and keeps the history of it in the store.
package meter

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/platform"
	"steward/internal/store"
	"steward/internal/wait"
)

// Options are what a Meter is made of.
type Options struct {
	Store    *store.Store
	Platform platform.Measurer
	Logger   *slog.Logger
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

const (
	// tick is how often it is looked whose turn it is: several databases are read at a time, since to wake up costs
	// a process with nothing else to do more than a reading.
	tick = time.Second
	// readTime bounds one reading of a database. One that hangs costs its own values and nothing else.
	readTime = 4 * time.Second
	// storeTime bounds a question to the store, listEvery is how often it is asked which databases there are.
	storeTime  = 5 * time.Second
	listEvery  = 10 * time.Second
	writeEvery = 5 * time.Second
	// mostWritten is how many slices are written in one statement.
	mostWritten = 4000
	// mostWaiting is how many slices wait while the store is away, some 400 bytes each: an hour's of 300 nodes. Beyond,
	// the oldest go.
	mostWaiting = 36_000
)

// Meter measures all databases.
type Meter struct {
	Options

	mu       sync.Mutex
	clusters map[cluster.ID]*measured
	nodes    map[node]*history
	// waiting are slices that the store hasn't got yet, oldest first; those in writing are on their way.
	waiting, writing []store.Slice
	stats            Stats
	reading          sync.WaitGroup
}

// Stats are what a Meter has done since it was made, and what it has to do.
type Stats struct {
	Databases, WaitingSlices int
	// Readings of databases that ended, and those of them that said nothing, because they took too long or failed.
	Readings, Failed int
	// Took sums up how long they took.
	Took time.Duration
}

// node names a node.
type node struct {
	cluster cluster.ID
	ordinal int
}

// measured is a database that is read.
type measured struct {
	// offset is its place within the ten seconds, last the step that it was last read in.
	offset  time.Duration
	last    time.Time
	reading bool
	failing bool
}

// history is what is known of a node.
type history struct {
	meter measure.Meter
	// open is the slice that isn't over.
	started time.Time
	steps   [slicePoints]measure.Values
	any     bool
}

const slicePoints = int(measure.Slice / measure.Every)

// New makes one.
func New(o Options) *Meter {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Meter{Options: o, clusters: map[cluster.ID]*measured{}, nodes: map[node]*history{}}
}

// Run measures until ctx ends, then writes what it knows. The store has a loop of its own: nobody waits for it.
func (m *Meter) Run(ctx context.Context) {
	var keeper sync.WaitGroup
	keeper.Go(func() { m.keep(ctx) })
	for ctx.Err() == nil {
		now := m.Now()
		m.begin(ctx, now)
		m.close(measure.Floor(now.Add(-readTime), measure.Slice))
		// At whole seconds, so that none is left out. The loop sees ctx end.
		_ = wait.Sleep(ctx, now.Truncate(tick).Add(tick).Sub(m.Now()))
	}
	m.reading.Wait()
	keeper.Wait()
	m.close(m.Now().Add(measure.Slice))
	m.write(context.WithoutCancel(ctx))
}

// keep asks the store which databases there are, and gives it what waits.
func (m *Meter) keep(ctx context.Context) {
	for ctx.Err() == nil {
		m.list(ctx)
		for range listEvery / writeEvery {
			m.write(ctx)
			if wait.Sleep(ctx, writeEvery) != nil {
				return
			}
		}
	}
}

// list learns which databases there are; while the store is away those that were known are measured.
func (m *Meter) list(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	ids, err := m.Store.MeasuredClusters(asking)
	if err != nil {
		if ctx.Err() == nil {
			m.Logger.WarnContext(ctx, "the list of databases to measure can't be read", "error", err)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.clusters
	m.clusters = make(map[cluster.ID]*measured, len(ids))
	for _, id := range ids {
		c := known[id]
		if c == nil {
			c = &measured{offset: offsetOf(id)}
		}
		m.clusters[id] = c
	}
	for n := range m.nodes {
		if m.clusters[n.cluster] == nil {
			delete(m.nodes, n)
		}
	}
}

// offsetOf spreads databases over the ten seconds, each at the same second always.
func offsetOf(id cluster.ID) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write(strconv.AppendInt(nil, int64(id), 10)) // never fails
	return time.Duration(h.Sum32()%uint32(measure.Every/tick)) * tick
}

// begin begins to read those whose turn it is. One that is being read still has lost its turn.
func (m *Meter) begin(ctx context.Context, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	step := measure.Floor(now, measure.Every)
	for id, c := range m.clusters {
		if c.reading || !c.last.Before(step) || now.Sub(step) < c.offset {
			continue
		}
		c.last, c.reading = step, true
		m.reading.Go(func() { m.read(ctx, id, c, step) })
	}
}

// read reads a database and notes what that says of a step.
func (m *Meter) read(ctx context.Context, id cluster.ID, c *measured, step time.Time) {
	limited, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	began := time.Now()
	readings, err := m.Platform.Measure(limited, id)
	resting := errors.Is(err, platform.ErrNotRunning)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.reading = false
	m.stats.Readings++
	m.stats.Took += time.Since(began)
	if err != nil && !resting {
		m.stats.Failed++
	}
	if failing := err != nil && !resting; failing != c.failing && ctx.Err() == nil {
		c.failing = failing
		if failing {
			m.Logger.WarnContext(ctx, "a database can't be measured", "cluster_id", id, "error", err)
		}
	}
	for _, r := range readings {
		m.note(node{id, r.Ordinal}, step, r.Reading)
	}
}

// note keeps what a reading says of a step, unless its slice is closed by now.
func (m *Meter) note(n node, step time.Time, r measure.Reading) {
	h := m.nodes[n]
	if h == nil {
		h = &history{}
		m.nodes[n] = h
	}
	values := h.meter.Add(r)
	started := measure.Floor(step, measure.Slice)
	switch {
	case !h.any || started.After(h.started):
		m.closeOne(n, h)
		h.started, h.any = started, true
		for i := range h.steps {
			h.steps[i] = measure.Unknown()
		}
	case started.Before(h.started):
		return
	}
	h.steps[step.Sub(started)/measure.Every] = values
}

// close has slices that began before a moment wait to be written.
func (m *Meter) close(before time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, h := range m.nodes {
		if h.started.Before(before) {
			m.closeOne(n, h)
		}
	}
}

func (m *Meter) closeOne(n node, h *history) {
	if !h.any {
		return
	}
	h.any = false
	if packed := measure.PackSlice(h.steps[:]); len(packed) > 0 {
		m.waiting = append(m.waiting, store.Slice{Cluster: n.cluster, Node: n.ordinal, Started: h.started, Packed: packed})
	}
	if over := len(m.waiting) - mostWaiting; over > 0 {
		m.waiting = m.waiting[over:]
	}
}

// write writes the slices that wait. They wait on when the store is away.
func (m *Meter) write(ctx context.Context) {
	for {
		m.mu.Lock()
		n := min(len(m.waiting), mostWritten)
		m.writing, m.waiting = m.waiting[:n:n], m.waiting[n:]
		m.mu.Unlock()
		if n == 0 {
			return
		}
		asking, cancel := context.WithTimeout(ctx, storeTime)
		err := m.Store.AddSlices(asking, m.writing)
		cancel()
		m.mu.Lock()
		if err != nil {
			m.waiting = append(m.writing, m.waiting...)
		}
		m.writing = nil
		m.mu.Unlock()
		if err != nil {
			if ctx.Err() == nil {
				m.Logger.WarnContext(ctx, "measurements wait to be written", "slices", n, "error", err)
			}
			return
		}
	}
}

// Add adds to b what of a database isn't in the store yet.
func (m *Meter) Add(b *measure.Builder, id cluster.ID, wanted func(measure.Metric) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range slices.Concat(m.writing, m.waiting) {
		if s.Cluster != id {
			continue
		}
		_ = measure.UnpackSlice(s.Packed, slicePoints, func(metric measure.Metric, points []measure.Point) { // packed by us
			if wanted(metric) {
				b.Add(measure.Series{Key: measure.Key{Cluster: id, Node: s.Node, Metric: metric}, Start: s.Started, Step: measure.Every, Points: points}, b.From, b.To)
			}
		})
	}
	for n, h := range m.nodes {
		if n.cluster == id && h.any {
			m.addOpen(b, n, h, wanted)
		}
	}
}

func (m *Meter) addOpen(b *measure.Builder, n node, h *history, wanted func(measure.Metric) bool) {
	for _, d := range measure.Definitions() {
		if !wanted(d.Metric) {
			continue
		}
		points := make([]measure.Point, slicePoints)
		for i := range points {
			points[i] = measure.At(h.steps[i][d.Metric])
		}
		b.Add(measure.Series{Key: measure.Key{Cluster: n.cluster, Node: n.ordinal, Metric: d.Metric}, Start: h.started, Step: measure.Every, Points: points}, b.From, b.To)
	}
}

// Stats are the present ones.
func (m *Meter) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Databases, s.WaitingSlices = len(m.clusters), len(m.writing)+len(m.waiting)
	return s
}
