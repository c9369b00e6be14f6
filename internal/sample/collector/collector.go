// Package collector reads how busy the machines of all accounts are, and keeps points
// of it in the store.
package collector

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"steward/internal/monitor"
	"steward/internal/store"
	"steward/internal/wait"
)

// Options are what a Collector is made of.
type Options struct {
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
	// storeTime bounds a question to the store.
	storeTime = 5 * time.Second
)

// Collector reads how busy the machines of all accounts are and makes points of it.
// Several servers may do so with one store: a point is kept once.
type Collector struct {
	Options
	machines map[monitor.MachineID]*machine
	// points wait to be written.
	points []monitor.Point
}

// machine is one that is read.
type machine struct {
	monitor.Machine
	meter monitor.Meter
	// failing reports whether the last reading failed, fresh that no point is over yet.
	failing, fresh bool
}

// New makes one.
func New(o Options) *Collector {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Collector{Options: o, machines: map[monitor.MachineID]*machine{}}
}

// Run reads until ctx ends, then writes what is known of the points that aren't over.
func (c *Collector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		c.Round(ctx)
		// At whole multiples: then a point's end falls on a reading.
		_ = wait.Sleep(ctx, untilNext(c.Now())) // the loop sees ctx end
	}
	c.write(context.WithoutCancel(ctx), c.running(func(*machine) bool { return true }))
}

// untilNext is how long it is to the next whole multiple.
func untilNext(now time.Time) time.Duration {
	return now.Truncate(readingEvery).Add(readingEvery).Sub(now)
}

// running are the points of some machines that aren't over.
func (c *Collector) running(which func(*machine) bool) []monitor.Point {
	var points []monitor.Point
	for id, m := range c.machines {
		if which(m) {
			points = append(points, m.meter.Points(id)...)
		}
	}
	return points
}

// Round reads all machines once and writes the points that are over by now. As
// long as a machine has none, the running one is written: it is of interest at
// once, and is replaced as it grows.
func (c *Collector) Round(ctx context.Context) {
	c.refresh(ctx)
	c.read(ctx)
	if ctx.Err() != nil {
		return // what failed now failed of that
	}
	now := c.Now()
	for id, m := range c.machines {
		over := m.meter.Take(id, now)
		c.points = append(c.points, over...)
		m.fresh = m.fresh && len(over) == 0
	}
	c.write(ctx, c.running(func(m *machine) bool { return m.fresh }))
}

// refresh learns which machines there are; while the store is away those that
// were known are read.
func (c *Collector) refresh(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	all, err := c.Store.AllMachines(asking)
	if err != nil {
		if ctx.Err() == nil {
			c.Logger.WarnContext(ctx, "the list of machines can't be read", "error", err)
		}
		return
	}
	known := c.machines
	c.machines = map[monitor.MachineID]*machine{}
	for _, found := range all {
		if found.Source == "" && found.Label != c.Host {
			continue // another server's host
		}
		m := known[found.ID]
		if m == nil {
			m = &machine{fresh: true}
		}
		m.Machine = found
		c.machines[found.ID] = m
	}
}

// read adds a reading to each machine's meter.
func (c *Collector) read(ctx context.Context) {
	slots := make(chan struct{}, readingsAtOnce)
	var all sync.WaitGroup
	for _, m := range c.machines {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r, err := c.readOne(ctx, m)
			if err == nil {
				m.meter.Add(r)
			}
			c.tell(ctx, m, err)
		})
	}
	all.Wait()
}

func (c *Collector) readOne(ctx context.Context, m *machine) (monitor.Reading, error) {
	if m.Source == "" {
		return c.ReadHost(ctx)
	}
	return c.ReadExporter(ctx, m.Source)
}

// tell logs that a machine can't be read, or can again, once each.
func (c *Collector) tell(ctx context.Context, m *machine, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !m.failing:
		c.Logger.WarnContext(ctx, "a machine's load can't be read", "compute_id", m.ID, "label", m.Label, "error", err)
		m.failing = true
	case err == nil && m.failing:
		c.Logger.InfoContext(ctx, "a machine's load can be read again", "compute_id", m.ID, "label", m.Label)
		m.failing = false
	}
}

// write keeps the points that are over, and what there is of the running ones,
// and drops those that the stats no longer show. The former wait on when the
// store is away.
func (c *Collector) write(ctx context.Context, running []monitor.Point) {
	points := slices.Concat(c.points, running)
	if len(points) == 0 {
		return
	}
	old := c.Now().Add(-keepPoints)
	asking, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	err := c.Store.InTx(asking, func(tx *store.Tx) error {
		if err := tx.AddPoints(asking, points); err != nil {
			return err
		}
		return tx.DropPoints(asking, old)
	})
	if err != nil {
		c.points = slices.DeleteFunc(c.points, func(p monitor.Point) bool { return p.At.Before(old) })
		c.Logger.WarnContext(ctx, "points of the stats wait to be written", "points", len(c.points), "error", err)
		return
	}
	c.points = nil
}
