package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/gateway"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
)

// pingFresh is how long an answer of a server counts. Its end is noticed at
// once in any case; a ping finds servers that hang.
const pingFresh = 5 * time.Second

// Observe implements platform.Driver.
func (d *Driver) Observe(ctx context.Context, id cluster.ID) (platform.Observed, error) {
	return d.observe(ctx, d.clusterState(id), nil)
}

// observe looks at a cluster; with want it also reports whether that is reached.
func (d *Driver) observe(ctx context.Context, cs *clusterState, want *platform.Wanted) (platform.Observed, error) {
	var seen platform.Observed
	seen.Problem, seen.Permanent = cs.lastProblem()
	top, err := d.topology(cs.id)
	var rec *state.Node
	if err == nil {
		rec, err = state.ReadNode(d.layout.node(cs.id, top.Primary))
	}
	if err != nil {
		seen.Exists, seen.Problem, seen.Permanent = true, err.Error(), true
		return seen, nil
	}
	if rec == nil {
		seen.Exists = exists(d.layout.cluster(cs.id))
		return seen, nil
	}
	routes, err := d.o.Gateway.Routes(ctx)
	if err != nil {
		return seen, fmt.Errorf("observe cluster %d: look at the gateway: %w", cs.id, err)
	}
	l := &observation{d: d, cs: cs, top: top, primary: rec, route: routeOf(routes, cs.id, rec.Port)}
	l.fill(ctx, &seen)
	l.settled(ctx, &seen, want)
	return seen, nil
}

// observation observes a cluster whose primary has a record.
type observation struct {
	d       *Driver
	cs      *clusterState
	top     state.Topology
	primary *state.Node
	route   gateway.Route
}

// routeOf is where the gateway leads; nowhere when there is no such route in force.
func routeOf(routes []gateway.Recorded, id cluster.ID, port int) gateway.Route {
	for _, r := range routes {
		if r.Port == port && r.Cluster == id && r.InForce {
			return r.Route
		}
	}
	return gateway.Route{}
}

// fill fills in what was found.
func (l *observation) fill(ctx context.Context, seen *platform.Observed) {
	ns, rec := l.cs.node(l.top.Primary), l.primary
	node := l.d.observeNode(ctx, ns, rec)
	node.Role = cluster.Primary
	answers := node.Running && !ns.isHung() && l.d.answers(ctx, ns, rec)
	routed := l.route.Primary == l.d.listenAddress(l.top.Primary, rec.Port)
	if seen.Problem == "" {
		seen.Problem = ns.crashProblem(l.d.o.Now())
	}
	if l.top.Size > 1 {
		node.Position = l.position(ctx, ns, rec)
	}
	seen.Exists = true
	seen.Nodes = []platform.Node{node}
	seen.Installation, seen.ServerVersion, seen.ReadOnly = rec.Installation, node.Version, rec.ReadOnly
	seen.WokenFor = l.top.Woken
	seen.Failovers, seen.LastFailover, seen.FailoverReason = l.top.Failovers, l.top.Last, l.top.Reason
	seen.LastChange = l.top.Change
	seen.Serving, seen.Closed = answers && rec.Bootstrapped && routed, len(l.route.Allow) == 0
	if seen.Serving {
		seen.Healthy = 1
	}
	l.addReplicas(ctx, seen)
	if rec.Bootstrapped {
		l.fillBootstrapped(ns, seen)
	}
	if l.top.Sleeps() {
		l.fillAsleep(seen)
	}
	seen.Degraded = seen.Serving && seen.Healthy < l.top.Size && !l.cs.rest().rising
	if !seen.Serving && seen.Problem == "" && !seen.Suspended {
		seen.Problem = problemOf(node.Running, answers, rec.Bootstrapped, routed)
	}
}

// fillAsleep fills in what is so of a cluster that sleeps: whoever may connect is served.
func (l *observation) fillAsleep(seen *platform.Observed) {
	if l.stopped(*seen) {
		seen.SleepingSince = l.top.Asleep
	}
	seen.Serving = l.route.Port == l.primary.Port && !l.route.Primary.IsValid() && seen.Problem == ""
	seen.Healthy = l.top.Size
}

// stopped reports whether all servers of a cluster that sleeps have ended.
func (l *observation) stopped(seen platform.Observed) bool {
	running := func(n platform.Node) bool { return n.Running }
	return !l.cs.rest().falling && !slices.ContainsFunc(seen.Nodes, running)
}

// addReplicas adds the nodes that follow.
func (l *observation) addReplicas(ctx context.Context, seen *platform.Observed) {
	for _, ordinal := range l.top.Replicas() {
		n := l.replica(ctx, ordinal)
		seen.Nodes = append(seen.Nodes, n)
		if n.Streaming {
			seen.Healthy++
		} else if why := l.cs.node(ordinal).rebuildBlocker(); why != "" {
			seen.CustomerProblem = why
		}
	}
}

// fillBootstrapped fills in what is so of a cluster that is the customer's. The addresses
// are for good: they stay while the server is down.
func (l *observation) fillBootstrapped(primary *nodeState, seen *platform.Observed) {
	seen.Hosts = cluster.Hosts{Primary: l.d.o.PrimaryAddress.String(), Secondary: l.d.o.SecondaryAddress.String()}
	seen.Members = map[string]string{l.d.listenAddress(l.top.Primary, l.primary.Port).Addr().String(): string(cluster.Primary)}
	for _, ordinal := range l.top.Replicas() {
		seen.Members[l.d.listenAddress(ordinal, l.primary.Port).Addr().String()] = "failover"
	}
	used := l.d.used(primary, l.primary, l.top.Sleeps())
	seen.UsedBytes = &used
	running := func(n platform.Node) bool { return n.Running }
	seen.Suspended = l.top.Suspended && !slices.ContainsFunc(seen.Nodes, running)
}

// replica looks at a node that follows.
func (l *observation) replica(ctx context.Context, ordinal int) platform.Node {
	ns := l.cs.node(ordinal)
	rec, err := state.ReadNode(l.d.layout.node(l.cs.id, ordinal))
	if err != nil || rec == nil {
		n := platform.Node{
			Ordinal: ordinal, Role: cluster.Replica, Address: l.d.listenAddress(ordinal, l.primary.Port).String(), Problem: "it isn't set up yet",
		}
		if why := ns.rebuildBlocker(); why != "" {
			n.Problem = notCopied + why
		}
		return n
	}
	n := l.d.observeNode(ctx, ns, rec)
	n.Role = cluster.Replica
	if n.Running && rec.Bootstrapped {
		n.Position = l.position(ctx, ns, rec)
	}
	s, _ := ns.replicationStatus()
	n.Streaming, n.Lag, n.Problem = n.Running && s.Streaming, s.Lag, s.Problem
	if n.Running && rec.Engine == cluster.PostgreSQL {
		n.LagBytes = l.lagBytes(s)
	}
	if l.top.Replication == cluster.SemiSynch && !ns.hasCaughtUp() {
		n.Streaming = false // it doesn't stand in for the primary yet
	}
	switch {
	case ns.isRebuilding():
		n.Streaming, n.Problem = false, "it is given a new copy of the data"
		if why := ns.lastDifference(); why != "" {
			n.Problem += ": " + why
		}
	case !n.Streaming && ns.rebuildBlocker() != "":
		n.Problem = notCopied + ns.rebuildBlocker()
	case !n.Running && l.top.Sleeps():
		n.Problem = ""
	case !n.Running && !l.top.Suspended:
		n.Problem = "its server isn't running"
	}
	return n
}

// lagBytes is how many bytes of WAL a replica lacks by its own and its primary's last words;
// nil when either hasn't spoken.
func (l *observation) lagBytes(replica engine.ReplicationStatus) *int64 {
	primary, _ := l.cs.node(l.top.Primary).replicationStatus()
	if primary.Received == 0 || replica.Received == 0 {
		return nil
	}
	return new(int64(max(primary.Received, replica.Applied) - replica.Applied))
}

// notCopied begins to say why a replica that needs a new copy of the data gets none.
const notCopied = "it can't be given a new copy of the data: "

// position returns the node's position in the stream of changes, asking the server
// unless its last answer is fresh and nothing depends on a fresher one.
func (l *observation) position(ctx context.Context, ns *nodeState, rec *state.Node) string {
	s, at := ns.replicationStatus()
	if l.d.o.Now().Sub(at) < replicationStatusFresh && !l.cs.isBehind(l.top) || !ns.running() {
		return s.Position
	}
	eng, node, err := l.d.recordedNode(ctx, rec)
	if err != nil {
		return s.Position
	}
	if now, err := queryReplicationStatus(ctx, l.d, ns, eng, node); err == nil {
		return now.Position
	}
	return s.Position
}

// settled reports whether nothing is left to do; problems of replicas are the
// cluster's when it has no other.
func (l *observation) settled(ctx context.Context, seen *platform.Observed, want *platform.Wanted) {
	if want != nil && want.Suspended || want == nil && l.top.Suspended {
		seen.Settled = seen.Suspended
		return
	}
	if l.top.Sleeps() {
		seen.Settled = seen.Serving && !seen.SleepingSince.IsZero() && (want == nil || l.d.asleepAsWanted(*want, l.top))
		return
	}
	pooled := l.d.poolsSettled(ctx, l.cs, want)
	seen.Settled = l.complete(*seen) && (want == nil || l.asWanted(*want)) && l.readsRouted() && pooled
	if !pooled && seen.Problem == "" {
		seen.Problem = "its connection pools aren't as they should be"
	}
	for _, n := range seen.Nodes {
		if n.Role == cluster.Replica && n.Problem != "" && seen.Problem == "" {
			seen.Problem = fmt.Sprintf("node %d: %s", n.Ordinal, n.Problem)
		}
	}
}

// complete reports whether all nodes serve what was last wanted.
func (l *observation) complete(seen platform.Observed) bool {
	return seen.Serving && !l.primary.Upgrading && l.primary.Applied != nil && !seen.Permanent && seen.Healthy == l.top.Size && !l.top.Growing
}

// asWanted reports whether what was last applied is what is wanted.
func (l *observation) asWanted(want platform.Wanted) bool {
	rec := l.primary
	return rec.Applied.Plan == want.Plan && rec.Applied.Config == want.Config.Text() && rec.ReadOnly == want.ReadOnly && l.top.AutoSuspend == want.AutoSuspend &&
		(!want.Patch || l.d.patched(want)) && (want.Restart == 0 || l.restarted(want.Restart)) && !switchoverDue(want, l.top) && l.top.Size == max(1, want.Size)
}

// restarted reports whether each server was started anew for a request.
func (l *observation) restarted(request int64) bool {
	for ordinal := range l.top.Size {
		rec, err := state.ReadNode(l.d.layout.node(l.primary.Cluster, ordinal))
		if err != nil || rec == nil || rec.Launch == nil || rec.Launch.Restart != request {
			return false
		}
	}
	return true
}

// readsRouted reports whether the gateway leads readers to the replicas that can be read.
func (l *observation) readsRouted() bool {
	return l.top.Size == 1 || slices.Equal(l.route.Reads, l.d.readers(l.cs, l.primary.Port, l.top))
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

func (d *Driver) observeNode(ctx context.Context, ns *nodeState, rec *state.Node) platform.Node {
	n := platform.Node{Ordinal: rec.Ordinal, Role: cluster.Primary, Address: d.launchedAt(rec).String()}
	ns.mu.Lock()
	p := ns.proc
	n.Restarts, n.Version = ns.restarts, ns.version
	ns.mu.Unlock()
	if p == nil || !p.Running() {
		return n
	}
	n.Running, n.Pid, n.Started = true, p.Pid(), p.Started()
	if n.Version != "" {
		return n
	}
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil {
		return n
	}
	if n.Version, err = eng.Version(ctx, node); err != nil {
		n.Version = ""
		return n
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.proc == p {
		ns.version = n.Version
	}
	return n
}

// answers reports whether the running server answers. Asking costs the server a
// new session, so a recent answer will do.
func (d *Driver) answers(ctx context.Context, ns *nodeState, rec *state.Node) bool {
	ns.mu.Lock()
	p, fresh := ns.proc, d.o.Now().Sub(ns.pinged) < pingFresh
	ns.mu.Unlock()
	if fresh || d.answersMeter(ctx, ns, rec, p) {
		return true
	}
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil {
		return false
	}
	if eng.Ping(ctx, node) != nil {
		return false
	}
	if ns.process() == p {
		ns.answered(d.o.Now())
	}
	return true
}
