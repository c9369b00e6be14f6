package watch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"steward/internal/monitor"
	"steward/internal/store"
)

// LoadOptions are what a Loads is made of.
type LoadOptions struct {
	Store  *store.Store
	Logger *slog.Logger
	// Host is this machine's name: the machine with that label and without a source
	// is read by ReadHost, those with a source by ReadExporter.
	Host         string
	ReadHost     func(ctx context.Context) (monitor.Reading, error)
	ReadExporter func(ctx context.Context, url string) (monitor.Reading, error)
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

const (
	// readingEvery is between two readings of a machine: ten make a point.
	readingEvery = 30 * time.Second
	// readingsAtOnce bounds the connections that are open at the same time. One that
	// hangs is given up after ten seconds: fewer than this can't hold up the others.
	readingsAtOnce = 64
	// keepPoints is an hour more than the stats show.
	keepPoints = monitor.StatsWindow + time.Hour
)

// Loads reads how busy the machines of all accounts are and makes points of it.
// Several servers may do so with one store: a point is kept once.
type Loads struct {
	LoadOptions
	machines map[monitor.ComputeID]*machine
	// points wait to be written.
	points []monitor.Point
}

// machine is one that is read.
type machine struct {
	monitor.Compute
	meter monitor.Meter
	// failing tells that the last reading failed, fresh that no point is over yet.
	failing, fresh bool
}

// NewLoads makes one.
func NewLoads(o LoadOptions) *Loads {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Loads{LoadOptions: o, machines: map[monitor.ComputeID]*machine{}}
}

// Run reads until ctx ends, then writes what is known of the points that aren't over.
func (l *Loads) Run(ctx context.Context) {
	for ctx.Err() == nil {
		l.Round(ctx)
		// At whole multiples: then a point's end falls on a reading.
		select {
		case <-ctx.Done():
		case <-time.After(untilNext(l.Now())):
		}
	}
	l.write(context.WithoutCancel(ctx), l.running(func(*machine) bool { return true }))
}

// untilNext is how long it is to the next whole multiple.
func untilNext(now time.Time) time.Duration {
	return now.Truncate(readingEvery).Add(readingEvery).Sub(now)
}

// running are the points of some machines that aren't over.
func (l *Loads) running(which func(*machine) bool) []monitor.Point {
	var points []monitor.Point
	for id, m := range l.machines {
		if which(m) {
			points = append(points, m.meter.Points(id)...)
		}
	}
	return points
}

// Round reads all machines once and writes the points that are over by now. As
// long as a machine has none, the running one is written: it is of interest at
// once, and is replaced as it grows.
func (l *Loads) Round(ctx context.Context) {
	l.refresh(ctx)
	l.read(ctx)
	if ctx.Err() != nil {
		return // what failed now failed of that
	}
	now := l.Now()
	for id, m := range l.machines {
		over := m.meter.Take(id, now)
		l.points = append(l.points, over...)
		m.fresh = m.fresh && len(over) == 0
	}
	l.write(ctx, l.running(func(m *machine) bool { return m.fresh }))
}

// refresh learns which machines there are; while the store is away those that
// were known are read.
func (l *Loads) refresh(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	all, err := l.Store.AllComputes(asking)
	if err != nil {
		if ctx.Err() == nil {
			l.Logger.WarnContext(ctx, "the list of machines can't be read", "error", err)
		}
		return
	}
	known := l.machines
	l.machines = map[monitor.ComputeID]*machine{}
	for _, c := range all {
		if c.Source == "" && c.Label != l.Host {
			continue // another server's host
		}
		m := known[c.ID]
		if m == nil {
			m = &machine{fresh: true}
		}
		m.Compute = c
		l.machines[c.ID] = m
	}
}

// read adds a reading to each machine's meter.
func (l *Loads) read(ctx context.Context) {
	slots := make(chan struct{}, readingsAtOnce)
	var all sync.WaitGroup
	for _, m := range l.machines {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r, err := l.readOne(ctx, m)
			if err == nil {
				m.meter.Add(r)
			}
			l.tell(ctx, m, err)
		})
	}
	all.Wait()
}

func (l *Loads) readOne(ctx context.Context, m *machine) (monitor.Reading, error) {
	if m.Source == "" {
		return l.ReadHost(ctx)
	}
	return l.ReadExporter(ctx, m.Source)
}

// tell logs that a machine can't be read, or can again, once each.
func (l *Loads) tell(ctx context.Context, m *machine, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !m.failing:
		l.Logger.WarnContext(ctx, "a machine's load can't be read", "compute_id", m.ID, "label", m.Label, "error", err)
		m.failing = true
	case err == nil && m.failing:
		l.Logger.InfoContext(ctx, "a machine's load can be read again", "compute_id", m.ID, "label", m.Label)
		m.failing = false
	}
}

// write keeps the points that are over, and what there is of the running ones,
// and drops those that the stats no longer show. The former wait on when the
// store is away.
func (l *Loads) write(ctx context.Context, running []monitor.Point) {
	points := slices.Concat(l.points, running)
	if len(points) == 0 {
		return
	}
	old := l.Now().Add(-keepPoints)
	asking, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	err := l.Store.InTx(asking, func(tx *store.Tx) error {
		if err := tx.AddPoints(asking, points); err != nil {
			return err
		}
		return tx.DropPoints(asking, old)
	})
	if err != nil {
		l.points = slices.DeleteFunc(l.points, func(p monitor.Point) bool { return p.At.Before(old) })
		l.Logger.WarnContext(ctx, "points of the stats wait to be written", "points", len(l.points), "error", err)
		return
	}
	l.points = nil
}
