package host

import (
	"context"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// pingFresh is how long an answer of a server counts. Its end is noticed at
// once in any case; a ping finds servers that hang.
const pingFresh = 5 * time.Second

// Observe is part of platform.Driver.
func (d *Driver) Observe(ctx context.Context, id cluster.ID) (platform.Observed, error) {
	return d.observe(ctx, d.unit(id), nil)
}

// observe looks at a cluster; with want it also tells whether that is reached.
func (d *Driver) observe(ctx context.Context, u *unit, want *platform.Wanted) (platform.Observed, error) {
	var seen platform.Observed
	m := u.member(0)
	seen.Problem, seen.Permanent = u.trouble()
	if seen.Problem == "" {
		seen.Problem = m.trouble(d.o.Now())
	}
	rec, err := readRecord(d.layout.node(u.id, 0))
	if err != nil {
		seen.Exists, seen.Problem, seen.Permanent = true, err.Error(), true
		return seen, nil
	}
	if rec == nil {
		seen.Exists = exists(d.layout.cluster(u.id))
		return seen, nil
	}
	routes, err := d.o.Gateway.Routes(ctx)
	if err != nil {
		return seen, fmt.Errorf("observe cluster %d: look at the gateway: %w", u.id, err)
	}
	routed := false
	for _, r := range routes {
		routed = routed || r.Port == rec.Port && r.Cluster == u.id
	}
	node := d.observeNode(ctx, m, rec)
	answers := node.Running && d.answers(ctx, m, rec)
	seen.Exists = true
	seen.Nodes = []platform.Node{node}
	seen.Installation, seen.ServerVersion, seen.ReadOnly = rec.Installation, node.Version, rec.ReadOnly
	seen.Serving = answers && rec.Bootstrapped && routed
	seen.Settled = seen.Serving && !rec.Upgrading && rec.Applied != nil && !seen.Permanent
	if want != nil {
		seen.Settled = seen.Settled && rec.Applied.Plan == want.Plan && rec.ReadOnly == want.ReadOnly
	}
	if rec.Bootstrapped {
		// The addresses are the customer's for good: they stay while the server is down.
		seen.Hosts = cluster.Hosts{Primary: d.o.PrimaryAddress.String(), Secondary: d.o.SecondaryAddress.String()}
		seen.Members = map[string]string{listenAddress(0, rec.Port).Addr().String(): string(cluster.Primary)}
		used := d.used(m, rec)
		seen.UsedBytes = &used
	}
	if !seen.Serving && seen.Problem == "" {
		seen.Problem = problemOf(node.Running, answers, rec.Bootstrapped, routed)
	}
	return seen, nil
}

func problemOf(running, answers, bootstrapped, routed bool) string {
	switch {
	case !running:
		return "the server isn't running"
	case !answers:
		return "the server runs but doesn't answer"
	case !bootstrapped:
		return "the server isn't set up yet"
	case !routed:
		return "the gateway doesn't lead to the server"
	}
	return ""
}

func (d *Driver) observeNode(ctx context.Context, m *member, rec *record) platform.Node {
	n := platform.Node{Ordinal: rec.Ordinal, Role: cluster.Primary, Address: listenAddress(rec.Ordinal, rec.Port).String()}
	m.mu.Lock()
	p := m.proc
	n.Restarts, n.Version = m.restarts, m.version
	m.mu.Unlock()
	if p == nil || !p.Running() {
		return n
	}
	n.Running, n.Pid, n.Started = true, p.Pid(), p.Started()
	if n.Version != "" {
		return n
	}
	eng, node, err := d.knownNode(ctx, rec)
	if err != nil {
		return n
	}
	if n.Version, err = eng.Version(ctx, node); err != nil {
		n.Version = ""
		return n
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == p {
		m.version = n.Version
	}
	return n
}

// answers tells whether the running server answers. Asking costs the server a
// new session, so a recent answer will do.
func (d *Driver) answers(ctx context.Context, m *member, rec *record) bool {
	m.mu.Lock()
	p, fresh := m.proc, d.o.Now().Sub(m.pinged) < pingFresh
	m.mu.Unlock()
	if fresh {
		return true
	}
	eng, node, err := d.knownNode(ctx, rec)
	if err != nil {
		return false
	}
	if eng.Ping(ctx, node) != nil {
		return false
	}
	if m.process() == p {
		m.answered(d.o.Now())
	}
	return true
}
