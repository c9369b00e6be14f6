package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// Observe implements platform.Applier.
func (d *Driver) Observe(ctx context.Context, id cluster.ID) (platform.Observed, error) {
	v, err := d.look(ctx, d.seen, id)
	if err != nil {
		return platform.Observed{}, fmt.Errorf("cluster %d: %w", id, err)
	}
	if v.object == nil {
		return platform.Observed{}, nil
	}
	return d.judge(ctx, v), nil
}

// judge asks the servers and says what all that there is means. Whoever wrote down when something was may have a clock that is ahead: nothing is told that
// has yet to happen.
func (d *Driver) judge(ctx context.Context, v view) platform.Observed {
	seen := v.judge(d.ask(ctx, v))
	now := d.o.Now()
	seen.LastFailover = earlier(seen.LastFailover, now)
	for i := range seen.Nodes {
		seen.Nodes[i].Started = earlier(seen.Nodes[i].Started, now)
	}
	return seen
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// settle looks at what the API server has now, and at whether every server has read what was last written.
func (d *Driver) settle(ctx context.Context, want platform.Wanted, v view) (platform.Observed, error) {
	if v.object == nil {
		return platform.Observed{}, nil
	}
	seen := d.judge(ctx, v)
	if !seen.Settled || seen.Suspended {
		return seen, nil
	}
	if v.op.switchoverDue(want, v, seen) {
		seen.Settled, seen.Problem = false, fmt.Sprintf("node %d has yet to hand over", *want.Switchover)
		return seen, nil
	}
	for i := range v.pods {
		short, cancel := context.WithTimeout(ctx, 4*probeTime)
		err := d.settled(short, want, v, &v.pods[i])
		cancel()
		if err != nil {
			seen.Settled, seen.Problem = false, fmt.Sprintf("node %d: %v", i, err)
			return seen, nil
		}
	}
	return seen, nil
}

// settled is nil when a server has read its settings and rules, and nobody is in it whom they would refuse.
func (d *Driver) settled(ctx context.Context, want platform.Wanted, v view, p *corev1.Pod) error {
	m, mark := d.memory(v.id), life(p)+" "+v.object.GetAnnotations()[markAnnotation]
	m.mu.Lock()
	known := m.read[p.Name] == mark
	m.mu.Unlock()
	if known {
		return nil
	}
	node, err := d.node(ctx, v, p)
	if err != nil {
		return err
	}
	if node, err = v.op.hosted().Share(ctx, node); err != nil {
		return err
	}
	defer node.Remote.Session.Close()
	if err := v.op.took(ctx, want, v, node); err != nil {
		return err
	}
	node.Config = want.Config
	if err := v.op.driver().Fence(ctx, node); err != nil {
		return err
	}
	made := desired{want: want}
	if err := v.op.hosted().KeepSessions(ctx, node, append(made.clients(), d.o.Networks...)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read[p.Name] = mark
	return nil
}

// judge says what the objects and the servers together mean.
func (v view) judge(asked map[string]probe) platform.Observed {
	c := v.object
	seen := platform.Observed{
		Exists: true, Closed: v.closed(), Hosts: v.hosts(), Members: map[string]string{}, Installation: c.Image(),
		ReadOnly: c.ReadOnly(),
	}
	primary, replicas := v.nodes(asked)
	seen.Nodes = replicas
	if primary != nil {
		seen.Nodes = append([]platform.Node{*primary}, replicas...)
	}
	for _, n := range seen.Nodes {
		if n.Running && n.Problem == "" {
			seen.Healthy++
		}
		host := n.Address
		if n.Role == cluster.Primary {
			seen.Members[host] = string(cluster.Primary)
		} else {
			seen.Members[host] = "failover"
		}
	}
	if v.hibernates() {
		seen.Suspended = len(v.pods) == 0
		seen.Settled, seen.Healthy, seen.Nodes = seen.Suspended, 0, resting(seen.Nodes)
		return seen
	}
	seen.Serving = primary != nil && primary.Running && primary.Problem == "" && seen.Hosts.Primary != ""
	seen.Degraded = seen.Serving && seen.Healthy < c.Members()
	seen.Settled = seen.Serving && seen.Healthy == c.Members() && len(seen.Nodes) == c.Members()
	if primary != nil {
		seen.ServerVersion = primary.Version
		if p := asked[v.podOf(primary.Ordinal)]; p.err == nil && p.used > 0 {
			seen.UsedBytes = &p.used
		}
	}
	v.op.addFailovers(v, &seen)
	if !seen.Settled {
		seen.Problem = v.problem(seen)
	}
	return seen
}

func resting(nodes []platform.Node) []platform.Node {
	for i := range nodes {
		nodes[i].Running, nodes[i].Problem = false, ""
	}
	return nodes
}

// nodes are the Pods as nodes. Who the primary is the servers say: one that an operator still takes for it may be none.
func (v view) nodes(asked map[string]probe) (primary *platform.Node, replicas []platform.Node) {
	writer := v.writer(asked)
	for i := range v.pods {
		p := &v.pods[i]
		n := v.node(i, asked[p.Name])
		if p.Name == writer {
			n.Role, n.Streaming = cluster.Primary, false
			primary = &n
			continue
		}
		if n.Problem == "" && !n.Streaming {
			n.Problem = "it doesn't receive from the primary"
		}
		if w, known := asked[writer]; known && w.err == nil && n.Running && n.Problem == "" {
			n.LagBytes = new(int64(max(w.status.Received, asked[p.Name].status.Applied) - asked[p.Name].status.Applied))
		}
		replicas = append(replicas, n)
	}
	return primary, replicas
}

// writer is the name of the Pod that takes writes, or of the one that should; "" while that isn't known. Where two say that they
// take writes, it is the one that customers are led to.
func (v view) writer(asked map[string]probe) string {
	writer := ""
	for i := range v.pods {
		p := &v.pods[i]
		if a := asked[p.Name]; a.err == nil && a.status.Writable && (writer == "" || role(p) == cluster.Primary) {
			writer = p.Name
		}
	}
	if writer != "" {
		return writer
	}
	for i := range v.pods {
		if role(&v.pods[i]) == cluster.Primary {
			return v.pods[i].Name
		}
	}
	return v.object.Leader()
}

// node is a Pod's server as a replica.
func (v view) node(ordinal int, said probe) platform.Node {
	p := &v.pods[ordinal]
	n := platform.Node{Ordinal: ordinal, Role: cluster.Replica, Address: p.Status.PodIP, Version: said.version, Problem: v.outdated(p)}
	if s := state(p); s != nil {
		n.Restarts = crashes(p)
		if s.State.Running != nil {
			n.Running, n.Started = true, s.State.Running.StartedAt.Time
		}
	}
	n.Streaming, n.Lag, n.Position = said.status.Streaming, said.status.Lag, said.status.Position
	if n.Problem != "" {
		return n
	}
	switch {
	case said.err != nil:
		n.Problem = "its server doesn't answer: " + said.err.Error()
	case !n.Running:
		n.Problem = "its server isn't running"
	default:
		n.Problem = said.status.Problem
	}
	return n
}

func (v view) podOf(ordinal int) string { return v.pods[ordinal].Name }

// problem is why a cluster isn't settled, for operators. What the operator says comes last: it says that all is well before it is.
func (v view) problem(seen platform.Observed) string {
	for _, n := range seen.Nodes {
		if n.Problem != "" {
			return fmt.Sprintf("node %d: %s", n.Ordinal, n.Problem)
		}
	}
	if seen.Hosts.Primary == "" && len(v.pods) > 0 {
		return "the load balancer hasn't given an address yet"
	}
	return fmt.Sprintf("%d of %d instances run; the operator says: %s", seen.Healthy, v.object.Members(), cmp.Or(v.object.Says(), "nothing; does it run?"))
}

// planOf is the plan that an object has the resources of.
func planOf(c object) catalog.Plan {
	cpu, memory := c.Limits()[corev1.ResourceCPU], c.Limits()[corev1.ResourceMemory]
	disk, err := resource.ParseQuantity(c.Disk())
	if err != nil {
		disk = resource.Quantity{}
	}
	return catalog.Plan{
		ID: "resources-" + strconv.FormatInt(memory.Value(), 10), VCPUs: int(cpu.Value()),
		MemoryMB: int(memory.Value() >> 20), DiskMB: int(disk.Value() >> 20),
	}
}
