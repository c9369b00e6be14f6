package host

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/measure"
	"steward/internal/pki"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// Measure implements platform.Measurer.
func (d *Driver) Measure(ctx context.Context, id cluster.ID) ([]platform.NodeReading, error) {
	cs, top, err := d.measurable(id)
	if err != nil {
		return nil, err
	}
	ordinals := append([]int{top.Primary}, top.Replicas()...)
	readings := make([]platform.NodeReading, len(ordinals))
	positions := make([]engine.LogPosition, len(ordinals))
	// The primary first: what a replica has applied by then it isn't behind with.
	readings[0], positions[0] = d.measureNode(ctx, cs, top, ordinals[0])
	var replicas sync.WaitGroup
	for i := range ordinals[1:] {
		replicas.Go(func() { readings[i+1], positions[i+1] = d.measureNode(ctx, cs, top, ordinals[i+1]) })
	}
	replicas.Wait()
	platform.NoteLag(readings, positions)
	return readings, nil
}

// measurable is a cluster of which servers should run.
func (d *Driver) measurable(id cluster.ID) (*clusterState, state.Topology, error) {
	if d.dormant(id) || !exists(d.layout.cluster(id)) {
		return nil, state.Topology{}, platform.ErrNotRunning
	}
	cs := d.clusterState(id)
	top, err := d.topology(id)
	if err != nil {
		return nil, top, fmt.Errorf("measure cluster %d: %w", id, err)
	}
	if top.Rests() || top.Restoring || cs.rest().falling {
		return nil, top, platform.ErrNotRunning
	}
	return cs, top, nil
}

// nodeMeter is what measures a node.
type nodeMeter struct {
	// turn is held while the server is asked. Who doesn't get it in time does without.
	turn chan struct{}
	// opened is the meter of a process, nil while there is none. told is what it told last, busy for how many readings in a row
	// the server had much to do, and calm for how many it hadn't.
	opened     engine.Meter
	told       *told
	busy, calm int
	// kept reports whether the connection is kept between questions.
	kept bool
	of   *process.Process
	size int
	role cluster.Role
	// rec is the node's record, as it was read last.
	rec   *state.Node
	recAt time.Time
	// certificate is when the server's certificate ends, as it was read with the record; zero when that isn't known.
	certificate time.Time
	// measured is when the node was measured last, whether its server was asked for that or not.
	measured time.Time
	// usage is what the server's processes, those of usageOf, had used at the last reading, and network what had come in and gone out.
	usage   process.Usage
	usageOf *process.Process
	network *traffic
	// disk is what was in use when it was last looked at, and written what the server had written by then.
	written int64
	disk    float64
	diskAt  time.Time
}

// acquireMeter waits until nobody else uses the node's meter.
func (ns *nodeState) acquireMeter(ctx context.Context) (*nodeMeter, error) {
	ns.mu.Lock()
	if ns.meter.turn == nil {
		ns.meter.turn = make(chan struct{}, 1)
	}
	turn := ns.meter.turn
	ns.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return &ns.meter, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the meter of node %d: %w", ns.ordinal, ctx.Err())
	}
}

// releaseMeter ends the connection if it is to a server that is no more.
func (ns *nodeState) releaseMeter(m *nodeMeter) {
	if m.of != ns.process() {
		m.drop()
	}
	<-m.turn
}

// dropMeter ends the connection, unless it is in use: then whoever uses it does.
func (ns *nodeState) dropMeter() {
	ns.mu.Lock()
	turn := ns.meter.turn
	ns.mu.Unlock()
	if turn == nil {
		return
	}
	select {
	case turn <- struct{}{}:
		ns.meter.drop()
		<-turn
	default:
	}
}

// recordFresh is how long a node's record counts: but for its plan, what is used of it stays the same in a
// server's life.
const recordFresh = time.Minute

// record is the node's record; nil when there is none.
func (m *nodeMeter) record(d *Driver, ns *nodeState, p *process.Process) *state.Node {
	now := d.o.Now()
	if m.rec != nil && m.of == p && m.rec.Bootstrapped && now.Sub(m.recAt) < recordFresh {
		return m.rec
	}
	rec, err := state.ReadNode(d.layout.node(ns.id, ns.ordinal))
	if err != nil {
		rec = nil
	}
	m.rec, m.recAt = rec, now
	m.certificate = time.Time{}
	if content, err := os.ReadFile(filepath.Join(d.layout.node(ns.id, ns.ordinal), "tls", engine.TLSCert)); err == nil {
		if cert, err := pki.ParseCertificate(content); err == nil {
			m.certificate = cert.NotAfter
		}
	}
	return rec
}

// drop ends the connection.
func (m *nodeMeter) drop() {
	if m.opened != nil {
		m.opened.Close()
	}
	m.opened, m.of, m.told = nil, nil, nil
}

// ensure connects, unless there is a connection to the process, as what it is in its cluster.
func (m *nodeMeter) ensure(ctx context.Context, d *Driver, p *process.Process, rec *state.Node, top state.Topology) error {
	if m.opened != nil && m.of == p && m.size == top.Size && m.role == top.Role(rec.Ordinal) {
		return nil
	}
	m.drop()
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil {
		return err
	}
	if m.opened, err = eng.OpenMeter(ctx, node); err != nil {
		m.opened = nil
		return err
	}
	m.of, m.size, m.role = p, top.Size, top.Role(rec.Ordinal)
	return nil
}

// measureNode reads a node: from the kernel what it knows, and the rest from the server.
func (d *Driver) measureNode(ctx context.Context, cs *clusterState, top state.Topology, ordinal int) (platform.NodeReading, engine.LogPosition) {
	ns := cs.node(ordinal)
	out := platform.NodeReading{Ordinal: ordinal, Role: top.Role(ordinal), Reading: measure.NewReading(d.o.Now())}
	unknown := engine.LogPosition{Written: math.NaN(), Applied: math.NaN()}
	out.Set(measure.Up, 0)
	p := ns.process()
	if p == nil || !p.Running() {
		return out, unknown
	}
	m, err := ns.acquireMeter(ctx)
	if err != nil {
		return out, unknown
	}
	defer ns.releaseMeter(m)
	rec := m.record(d, ns, p)
	if rec == nil || rec.Applied == nil {
		return out, unknown
	}
	out.Life, out.Crashes = strconv.Itoa(p.Pid())+"-"+strconv.FormatUint(p.Start, 10), float64(ns.crashCount())
	if m.usageOf != p {
		m.usage, m.usageOf, m.network = process.Usage{}, p, nil
	}
	if !m.certificate.IsZero() {
		out.Set(measure.CertificateLeft, max(0, m.certificate.Sub(out.At).Seconds()))
	}
	written := d.measureProcess(&out.Reading, ns, rec, p, m)
	d.measureDisk(&out.Reading, ns, rec, m, written)
	if d.o.Continuous && rec.Engine == cluster.MySQL && out.Role == cluster.Primary {
		out.Set(measure.ArchiveLag, cs.archiveLag(out.At).Seconds())
	}
	if ns.isHung() || !rec.Bootstrapped {
		return out, unknown
	}
	m.measured = out.At
	if !m.stands(out.At, p, top) {
		if err := m.ask(ctx, d, ns, p, rec, top); err != nil {
			d.log.Debug("a server isn't measured", "cluster_id", cs.id, "node", ordinal, "error", err)
			return out, unknown
		}
	} else if p.Stopped() { // it would answer nothing, and has used nothing
		return out, unknown
	}
	m.told.add(&out.Reading)
	return out, m.told.position
}

// traffic is what has come in to a node's network and gone out of it, in bytes.
type traffic struct{ in, out uint64 }

// measureProcess reads what the kernel counts for a server. It returns the bytes written so far.
func (d *Driver) measureProcess(r *measure.Reading, ns *nodeState, rec *state.Node, p *process.Process, m *nodeMeter) (written int64) {
	usage, err := p.Usage(d.groups.Find(nodeName(rec.Cluster, rec.Ordinal)), m.usage)
	if err == nil {
		m.usage = usage
		r.CPUSeconds, r.CPUs = usage.CPU.Seconds(), float64(max(1, rec.Applied.Plan.VCPUs))
		r.SetShare(float64(usage.Memory), float64(rec.Applied.Plan.MemoryMB)*(1<<20), measure.MemoryUsed, measure.MemoryUsage, measure.AvailableMemory)
		r.Set(measure.ReadOps, float64(usage.ReadOps))
		r.Set(measure.WriteOps, float64(usage.WriteOps))
		r.Set(measure.ReadBytes, float64(usage.ReadBytes))
		r.Set(measure.WriteBytes, float64(usage.WriteBytes))
	}
	if d.o.Networks != nil && rec.Launch.Networked() {
		if m.network == nil || !usage.Idle {
			m.network = nil
			if in, out, err := d.o.Networks.Counters(d.o.Networks.Number(rec.Port, ns.ordinal)); err == nil {
				m.network = &traffic{in, out}
			}
		}
		if m.network != nil {
			r.Set(measure.NetworkIn, float64(m.network.in))
			r.Set(measure.NetworkOut, float64(m.network.out))
		}
	}
	return usage.Written
}

// How long a measurement of the disk counts: of a server that writes nothing, that writes a little, and how much is more
// than that, in bytes.
const (
	diskFresh        = 10 * time.Minute
	diskFreshWritten = time.Minute
	muchWritten      = 1 << 20
)

// measureDisk adds the node's use of its disk. To look through all of its files costs more than all else that
// is measured, and what hasn't been written to has the size it had.
func (d *Driver) measureDisk(r *measure.Reading, ns *nodeState, rec *state.Node, m *nodeMeter, written int64) {
	age := r.At.Sub(m.diskAt)
	due := m.diskAt.IsZero() || age >= diskFresh || written >= m.written+muchWritten && age >= usageFresh || written != m.written && age >= diskFreshWritten
	if used, at := ns.lastUsed(); r.At.Sub(at) < usageFresh && at.After(m.diskAt) { // somebody has just looked
		m.disk, m.diskAt, m.written = float64(used), at, written
	} else if due {
		m.disk, m.diskAt, m.written = float64(d.used(ns, rec, false)), r.At, written
	}
	r.SetShare(m.disk, float64(rec.Applied.Plan.DiskBytes()), measure.DiskUsed, measure.DiskUsage, measure.AvailableDisk)
	if d.o.Continuous && rec.Engine == cluster.PostgreSQL {
		d.measureArchive(r, d.layout.archiveDir(rec.Cluster, rec.Ordinal))
	}
}

// measureArchive adds what waits in a folder to be archived.
func (d *Driver) measureArchive(r *measure.Reading, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	oldest, waiting := r.At, 0
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			continue // uploaded meanwhile, or a mark
		}
		waiting++
		if info.ModTime().Before(oldest) {
			oldest = info.ModTime()
		}
	}
	r.Set(measure.ArchiveWaiting, float64(waiting))
	r.Set(measure.ArchiveLag, r.At.Sub(oldest).Seconds())
}

// Families implements platform.Measurer.
func (d *Driver) Families(ctx context.Context, id cluster.ID) ([]platform.NodeFamilies, error) {
	cs, top, err := d.measurable(id)
	if err != nil {
		return nil, err
	}
	ordinals := append([]int{top.Primary}, top.Replicas()...)
	all := make([]platform.NodeFamilies, len(ordinals))
	var nodes sync.WaitGroup
	for i, ordinal := range ordinals {
		nodes.Go(func() {
			all[i] = platform.NodeFamilies{Ordinal: ordinal, Role: top.Role(ordinal), Families: d.familiesOf(ctx, cs, top, ordinal)}
		})
	}
	nodes.Wait()
	return all, nil
}

// familiesOf are those of a node; of one that doesn't answer, that it doesn't.
func (d *Driver) familiesOf(ctx context.Context, cs *clusterState, top state.Topology, ordinal int) []measure.Family {
	ns := cs.node(ordinal)
	rec, err := state.ReadNode(d.layout.node(cs.id, ordinal))
	p := ns.process()
	if err != nil || rec == nil {
		return nil
	}
	down := []measure.Family{{Name: measure.UpFamily(rec.Engine), Help: "Whether the server answers.", Kind: measure.KindGauge, Samples: []measure.Sample{{Value: 0}}}}
	if p == nil || !p.Running() || !rec.Bootstrapped || ns.isHung() {
		return down
	}
	m, err := ns.acquireMeter(ctx)
	if err != nil {
		return down
	}
	defer ns.releaseMeter(m)
	var families []measure.Family
	err = m.use(ctx, d, p, rec, top, func(opened engine.Meter) (err error) {
		families, err = opened.Families(ctx)
		return err
	})
	if err != nil {
		d.log.Debug("a server isn't shown", "cluster_id", cs.id, "node", ordinal, "error", err)
		return down
	}
	return append(families, d.processFamilies(rec, p)...)
}

// processFamilies are those that exporters show of their own process; here they are the server's.
func (d *Driver) processFamilies(rec *state.Node, p *process.Process) []measure.Family {
	usage, err := p.Usage(d.groups.Find(nodeName(rec.Cluster, rec.Ordinal)), process.Usage{})
	if err != nil {
		return nil
	}
	one := func(name, help string, kind measure.Kind, v float64) measure.Family {
		return measure.Family{Name: name, Help: help, Kind: kind, Samples: []measure.Sample{{Value: v}}}
	}
	return []measure.Family{
		one("process_cpu_seconds_total", "Processor time that all of the server's processes have used.", measure.KindCounter, usage.CPU.Seconds()),
		one("process_resident_memory_bytes", "Memory that all of the server's processes use.", measure.KindGauge, float64(usage.Memory)),
		one("process_start_time_seconds", "When the server was started, in seconds since 1970.", measure.KindGauge, float64(p.Started().Unix())),
	}
}

// Tables implements platform.Measurer.
func (d *Driver) Tables(ctx context.Context, id cluster.ID, most int) ([]measure.Table, error) {
	cs, top, err := d.measurable(id)
	if err != nil {
		return nil, err
	}
	rec, err := state.ReadNode(d.layout.node(id, top.Primary))
	if err != nil || rec == nil || !rec.Bootstrapped || !cs.node(top.Primary).running() {
		return nil, platform.ErrNotRunning
	}
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil {
		return nil, fmt.Errorf("tables of cluster %d: %w", id, err)
	}
	tables, err := eng.Tables(ctx, node, most)
	if err != nil {
		return nil, fmt.Errorf("tables of cluster %d: %w", id, err)
	}
	return tables, nil
}

// dropMeters ends the connections to a cluster's servers.
func (cs *clusterState) dropMeters() {
	for _, ordinal := range cs.ordinals() {
		cs.node(ordinal).dropMeter()
	}
}
