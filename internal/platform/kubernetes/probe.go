package kubernetes

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
)

// probeTime bounds a look into one server, and probeFresh is how long what it said counts for who only looks; its size
// counts for usedFresh. Each question is a connection, which costs the server a process. One whose volume fills is asked more often: nothing
// but who makes it read-only in time keeps the volume from being full, and then the server ends.
const (
	probeTime   = 4 * time.Second
	admitTime   = 20 * time.Second
	probeFresh  = 10 * time.Second
	usedFresh   = time.Minute
	fullFresh   = time.Second
	halfPercent = 50
	fullPercent = 80
)

// fresh is for how long what a server said counts, and its size, by how much of its volume is used.
func fresh(used, disk int64) (said, size time.Duration) {
	switch {
	case disk <= 0 || used < disk/100*halfPercent:
		return probeFresh, usedFresh
	case used < disk/100*fullPercent:
		return probeFresh, probeFresh
	}
	return fullFresh, fullFresh
}

// memory is what is remembered of a cluster between looks; nothing depends on it.
type memory struct {
	mu   sync.Mutex
	keys *keys
	// admitted is of the operator's object whose servers have been seen to be ours.
	admitted types.UID
	// cert is the server's certificate as it was written or read last.
	cert   []byte
	probes map[string]probe
	meters map[string]*nodeMeter
	// applied reports whether this process has applied what is wanted of it.
	applied bool
	// read is of each Pod which life of its server has read which mark.
	read map[string]string
	// reading is full while somebody reads the servers' logs.
	reading chan struct{}
}

// probe is what a server said. Its version is that of its life, and its size changes slowly.
type probe struct {
	life    string
	at      time.Time
	usedAt  time.Time
	status  engine.ReplicationStatus
	version string
	used    int64
	err     error
}

func (d *Driver) memory(id cluster.ID) *memory {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.known[id]
	if m == nil {
		m = &memory{probes: map[string]probe{}, meters: map[string]*nodeMeter{}, read: map[string]string{}, reading: make(chan struct{}, 1)}
		d.known[id] = m
	}
	return m
}

// applied notes that a cluster is applied, and reports whether it was before.
func (d *Driver) applied(id cluster.ID) (before bool) {
	m := d.memory(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	before, m.applied = m.applied, true
	return before
}

// forget ends what is remembered of a cluster that is no more.
func (d *Driver) forget(id cluster.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m := d.known[id]; m != nil {
		m.close()
	}
	delete(d.known, id)
}

func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, meter := range m.meters {
		meter.drop()
	}
	m.meters = map[string]*nodeMeter{}
}

// forgetProbes has the next look ask servers.
func (d *Driver) forgetProbes(id cluster.ID) {
	m := d.memory(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, p := range m.probes {
		p.at = time.Time{}
		m.probes[name] = p
	}
}

// node is a Pod's server as its engine needs to know it; of a Pod that has no address yet there is none.
func (d *Driver) node(ctx context.Context, v view, p *corev1.Pod) (engine.Node, error) {
	k, err := d.keys(ctx, v.id)
	if err != nil {
		return engine.Node{}, err
	}
	at, ok := v.reachable(p)
	if !ok {
		return engine.Node{}, errors.New("its Pod has no address")
	}
	n := engine.Node{
		Cluster: v.id, Installation: v.op.installation(v.object.Image()),
		Listen: at, Remote: &engine.Remote{Address: at, CA: k.ca, Name: v.certified()},
		Role: role(p), ClusterSize: v.object.Members(), Plan: planOf(v.object), AdminPassword: string(k.admin),
	}
	v.op.address(v, &n)
	return n, nil
}

// certified is the name that servers' certificates must have: the address that customers know, as soon as there is one.
func (v view) certified() string {
	if host := address(v.write); host != "" {
		return host
	}
	return v.host()
}

func role(p *corev1.Pod) cluster.Role {
	if p.Labels[cnpg.RoleLabel] == cnpg.PrimaryRole || p.Labels[mariadb.RoleLabel] == mariadb.PrimaryRole {
		return cluster.Primary
	}
	return cluster.Replica
}

// ask asks all servers that should answer how they are, each for so long that one that hangs holds up nobody.
func (d *Driver) ask(ctx context.Context, v view) map[string]probe {
	m := d.memory(v.id)
	found := make([]probe, len(v.pods))
	var disk int64
	if v.object != nil {
		disk = planOf(v.object).DiskBytes()
	}
	var work sync.WaitGroup
	for i := range v.pods {
		p := &v.pods[i]
		m.mu.Lock()
		last, known := m.probes[p.Name]
		m.mu.Unlock()
		said, size := fresh(last.used, disk)
		if known && last.life == life(p) && d.o.Now().Sub(last.at) < said {
			found[i] = last
			continue
		}
		work.Go(func() { found[i] = d.askOne(ctx, v, p, last, size) })
	}
	work.Wait()
	all := make(map[string]probe, len(found))
	for i, p := range found {
		all[v.pods[i].Name] = p
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probes = maps.Clone(all)
	return all
}

func (d *Driver) askOne(ctx context.Context, v view, p *corev1.Pod, last probe, size time.Duration) probe {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out := probe{life: life(p), at: d.o.Now()}
	node, err := d.node(ctx, v, p)
	if err != nil {
		out.err = err
		return out
	}
	if node, out.err = v.op.hosted().Share(ctx, node); out.err != nil {
		return out
	}
	defer node.Remote.Session.Close()
	if out.status, out.err = v.op.driver().ReplicationStatus(ctx, node); out.err != nil {
		return out
	}
	if last.life == out.life && last.err == nil {
		out.version, out.used, out.usedAt = last.version, last.used, last.usedAt
	} else if out.version, out.err = v.op.driver().Version(ctx, node); out.err != nil {
		return out
	}
	if out.at.Sub(out.usedAt) >= size {
		out.used, out.err = v.op.hosted().UsedBytes(ctx, node)
		out.usedAt = out.at
	}
	return out
}
