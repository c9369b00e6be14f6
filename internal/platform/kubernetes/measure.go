package kubernetes

import (
	"context"
	"fmt"
	"math"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/measure"
	"steward/internal/pki"
	"steward/internal/platform"
)

// nodeMeter is the connection over which a server is measured; it is of one life of it.
type nodeMeter struct {
	mu     sync.Mutex
	opened engine.Meter
	life   string
	role   cluster.Role
}

func (m *nodeMeter) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end()
}

func (m *nodeMeter) end() {
	if m.opened != nil {
		m.opened.Close()
	}
	m.opened = nil
}

// measurable is a cluster of which servers should run.
func (d *Driver) measurable(ctx context.Context, id cluster.ID) (view, map[string]probe, error) {
	v, err := d.look(ctx, d.seen, id)
	if err != nil {
		return v, nil, fmt.Errorf("cluster %d: %w", id, err)
	}
	if v.object == nil || v.hibernates() {
		return v, nil, platform.ErrNotRunning
	}
	return v, d.ask(ctx, v), nil
}

// inOrder are the nodes, the primary first.
func (v view) inOrder(asked map[string]probe) []platform.Node {
	primary, nodes := v.nodes(asked)
	if primary != nil {
		nodes = append([]platform.Node{*primary}, nodes...)
	}
	return nodes
}

// measured are the nodes, the primary first.
func (d *Driver) measured(ctx context.Context, id cluster.ID) (view, []platform.Node, error) {
	v, asked, err := d.measurable(ctx, id)
	if err != nil {
		return v, nil, err
	}
	return v, v.inOrder(asked), nil
}

// Measure implements platform.Measurer. Operations of disks and networks are told by nobody.
func (d *Driver) Measure(ctx context.Context, id cluster.ID) ([]platform.NodeReading, error) {
	v, asked, err := d.measurable(ctx, id)
	if err != nil {
		return nil, err
	}
	nodes := v.inOrder(asked)
	readings := make([]platform.NodeReading, len(nodes))
	positions := make([]engine.LogPosition, len(nodes))
	var replicas sync.WaitGroup
	for i, n := range nodes {
		read := func() { readings[i], positions[i] = d.measureNode(ctx, v, n, asked[v.podOf(n.Ordinal)]) }
		if i == 0 { // the primary: what a replica has applied by then it isn't behind with
			read()
			continue
		}
		replicas.Go(read)
	}
	replicas.Wait()
	platform.NoteLag(readings, positions)
	return readings, nil
}

// measureNode reads a node: what Kubernetes knows of its Pod, and the rest from its server.
func (d *Driver) measureNode(ctx context.Context, v view, n platform.Node, said probe) (platform.NodeReading, engine.LogPosition) {
	out := platform.NodeReading{Ordinal: n.Ordinal, Role: n.Role, Reading: measure.NewReading(d.o.Now())}
	at := engine.LogPosition{Written: math.NaN(), Applied: math.NaN()}
	r, p := &out.Reading, &v.pods[n.Ordinal]
	r.Set(measure.Up, 0)
	r.Life, r.Place, r.Crashes = life(p), string(p.UID), float64(crashes(p))
	r.CPUs = float64(max(1, planOf(v.object).VCPUs))
	d.measureUsage(r, v, p)
	if text, err := d.knownCertificate(ctx, v); err == nil && text != nil {
		if cert, err := pki.ParseCertificate(text); err == nil {
			r.Set(measure.CertificateLeft, max(0, cert.NotAfter.Sub(r.At).Seconds()))
		}
	}
	if said.used > 0 {
		r.SetShare(float64(said.used), float64(planOf(v.object).DiskBytes()), measure.DiskUsed, measure.DiskUsage, measure.AvailableDisk)
	}
	err := d.meter(ctx, v, p, n.Role, func(ctx context.Context, _ engine.Node, m engine.Meter) (err error) {
		at, err = m.Measure(ctx, r)
		return err
	})
	if err != nil {
		d.o.Logger.Debug("a server isn't measured", "cluster_id", v.id, "node", n.Ordinal, "error", err)
	}
	return out, at
}

// meter uses the connection to a server, and ends it if that fails.
func (d *Driver) meter(ctx context.Context, v view, p *corev1.Pod, role cluster.Role, use func(ctx context.Context, n engine.Node, m engine.Meter) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	node, err := d.node(ctx, v, p)
	if err != nil {
		return err
	}
	node.Role = role
	all := d.memory(v.id)
	all.mu.Lock()
	m := all.meters[p.Name]
	if m == nil {
		m = &nodeMeter{}
		all.meters[p.Name] = m
	}
	all.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opened == nil || m.life != life(p) || m.role != role {
		m.end()
		if m.opened, err = v.op.driver().OpenMeter(ctx, node); err != nil {
			m.opened = nil
			return err
		}
		m.life, m.role = life(p), role
	}
	if err := use(ctx, node, m.opened); err != nil {
		m.end()
		return err
	}
	return nil
}

// Families implements platform.Measurer.
func (d *Driver) Families(ctx context.Context, id cluster.ID) ([]platform.NodeFamilies, error) {
	v, nodes, err := d.measured(ctx, id)
	if err != nil {
		return nil, err
	}
	all := make([]platform.NodeFamilies, len(nodes))
	for i, n := range nodes {
		all[i] = platform.NodeFamilies{Ordinal: n.Ordinal, Role: n.Role}
		err := d.meter(ctx, v, &v.pods[n.Ordinal], n.Role, func(ctx context.Context, _ engine.Node, m engine.Meter) (err error) {
			all[i].Families, err = m.Families(ctx)
			return err
		})
		if err != nil {
			d.o.Logger.Debug("a server isn't measured", "cluster_id", id, "node", n.Ordinal, "error", err)
		}
	}
	return all, nil
}

// Tables implements platform.Measurer.
func (d *Driver) Tables(ctx context.Context, id cluster.ID, most int) (found []measure.Table, err error) {
	sleeping, err := d.onPrimary(ctx, id, func(ctx context.Context, eng engine.Driver, n engine.Node) (err error) {
		found, err = eng.Tables(ctx, n, most)
		return err
	})
	if sleeping {
		return nil, platform.ErrNotRunning
	}
	return found, err
}
