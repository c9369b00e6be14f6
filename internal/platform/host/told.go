package host

import (
	"context"
	"math"
	"time"

	"steward/internal/engine"
	"steward/internal/measure"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// A session that is kept takes more of a server's memory than an idle server has use for, and to open one each time takes more of the processor
// than all else that is measured. Whether a server answers is looked at by a session of its own, though, every twenty seconds: that one is
// asked for the statistics, too. What it says holds until the next, as long as the kernel says that the server has done next to nothing since.
const (
	// calmCPU is what a server uses at most that has done next to nothing. To vacuum by itself, and to be connected to, takes less.
	calmCPU = 20 * time.Millisecond
	// toldFresh is how long what it said holds: longer than it takes until somebody looks anew whether it answers.
	toldFresh = 30 * time.Second
	// The session is kept from that reading on at which a server was busy for the busyReadings-th time, until it hasn't been for calmReadings.
	busyReadings, calmReadings = 3, 6
	// measuredFresh is how long it is taken for measured: others than who measures do so only then for it.
	measuredFresh = time.Minute
	// askTime bounds what is asked besides whether a server answers.
	askTime = 4 * time.Second
)

// told is what a server said of itself, and how much of the processor it had used right after that.
type told struct {
	reading  measure.Reading
	position engine.LogPosition
	cpu      time.Duration
}

// add adds what was said. What lasts has lasted on.
func (t *told) add(r *measure.Reading) {
	since := max(0, r.At.Sub(t.reading.At).Seconds())
	for metric, v := range t.reading.Values {
		switch m := measure.Metric(metric); {
		case math.IsNaN(v): // it didn't say
		case (m == measure.LongestTransaction || m == measure.LongestQuery) && v > 0:
			r.Set(m, v+since)
		default:
			r.Set(m, v)
		}
	}
	r.Hits, r.Misses = t.reading.Hits, t.reading.Misses
}

// stands reports whether what the server said holds still, by what it has used since, and notes how much it has to do.
func (m *nodeMeter) stands(at time.Time, p *process.Process, top state.Topology) bool {
	if !m.mayRest(top) {
		m.kept = true
		return false
	}
	var since time.Duration = -1
	if m.told != nil && m.of == p && m.size == top.Size && m.role == top.Role(top.Primary) {
		since = m.usage.CPU - m.told.cpu
	}
	if calm := since >= 0 && since < calmCPU; calm {
		m.busy, m.calm = 0, m.calm+1
	} else {
		m.busy, m.calm = m.busy+1, 0
	}
	if m.kept = m.kept && m.calm < calmReadings || m.busy >= busyReadings; m.kept {
		return false
	}
	return m.calm > 0 && at.Sub(m.told.reading.At) < toldFresh
}

// mayRest reports whether the connection may be ended between two questions: where nobody counts what the server uses nobody knows
// whether what it said holds, and nodes that follow each other are asked all the time how far they are.
func (m *nodeMeter) mayRest(top state.Topology) bool { return top.Size == 1 && m.usage.Exact }

// ask has the server tell anew. It answers if it does, over a connection that is made for that.
func (m *nodeMeter) ask(ctx context.Context, d *Driver, ns *nodeState, p *process.Process, rec *state.Node, top state.Topology) error {
	said := &told{reading: measure.NewReading(d.o.Now())}
	err := m.use(ctx, d, p, rec, top, func(opened engine.Meter) (err error) {
		said.position, err = opened.Measure(ctx, &said.reading)
		return err
	})
	if err != nil {
		return err
	}
	m.told = said
	m.told.cpu, _ = process.GroupCPU(d.groups.Find(nodeName(rec.Cluster, rec.Ordinal))) // 0 where it never stands
	if !m.kept && ns.process() == p {
		ns.answered(d.o.Now())
	}
	return nil
}

// use has the server asked over a connection, which rests afterwards unless it is kept. What that takes of the processor isn't the customer's doing.
func (m *nodeMeter) use(ctx context.Context, d *Driver, p *process.Process, rec *state.Node, top state.Topology, ask func(engine.Meter) error) error {
	group := d.groups.Find(nodeName(rec.Cluster, rec.Ordinal))
	before, counted := process.GroupCPU(group)
	if err := m.ensure(ctx, d, p, rec, top); err != nil {
		return err
	}
	if err := ask(m.opened); err != nil {
		m.drop()
		return err
	}
	if m.kept {
		return nil
	}
	m.opened.Rest()
	if after, ok := process.GroupCPU(group); ok && counted && m.usageOf == p {
		m.usage.Excuse(after - before)
		if m.told != nil {
			m.told.cpu += after - before
		}
	}
	return nil
}

// answersMeter asks a server that is measured, and would be connected to anew for it, whether it answers. False says nothing.
func (d *Driver) answersMeter(ctx context.Context, ns *nodeState, rec *state.Node, p *process.Process) bool {
	top, err := d.topology(rec.Cluster)
	if err != nil || p == nil || !rec.Bootstrapped || rec.Applied == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	m, err := ns.acquireMeter(ctx)
	if err != nil {
		return false
	}
	defer ns.releaseMeter(m)
	if m.usageOf != p || m.kept || !m.mayRest(top) || d.o.Now().Sub(m.measured) >= measuredFresh {
		return false
	}
	if err := m.ask(ctx, d, ns, p, rec, top); err != nil {
		d.log.Debug("a server isn't measured", "cluster_id", rec.Cluster, "node", rec.Ordinal, "error", err)
		return false
	}
	return true
}
