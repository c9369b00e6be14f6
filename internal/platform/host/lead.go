package host

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"steward/internal/engine"
	"steward/internal/gateway"
	"steward/internal/gateway/kernel"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
)

// withholder is a gateway that refuses connections to a server that has stopped, unless
// it is told: HAProxy tries again by itself.
type withholder interface {
	Withhold(ctx context.Context, port int, server netip.AddrPort, grace time.Duration) error
	Retire(ctx context.Context, port int, server netip.AddrPort, grace time.Duration) error
}

// stopGrace is how long sessions may go on with what they are at when their server is to be stopped. New
// connections wait for as long at most, and no longer than there are such sessions.
const stopGrace = 150 * time.Millisecond

// withhold has new connections wait that would go to a node's server, which is
// about to stop, so that its sessions have a moment, or has. The next route leads there again.
func (d *Driver) withhold(ctx context.Context, ordinal, port int, grace time.Duration) {
	d.leadAway(ctx, ordinal, port, grace, withholder.Withhold)
}

// retire is withhold for a server that stops next and tells those sessions so that are left.
func (d *Driver) retire(ctx context.Context, ordinal, port int) {
	d.leadAway(ctx, ordinal, port, stopGrace, withholder.Retire)
}

func (d *Driver) leadAway(ctx context.Context, ordinal, port int, grace time.Duration,
	lead func(withholder, context.Context, int, netip.AddrPort, time.Duration) error,
) {
	g, ok := d.o.Gateway.(withholder)
	if !ok || d.o.Networks == nil {
		return
	}
	if err := lead(g, ctx, port, d.listenAddress(ordinal, port), grace); err != nil {
		d.log.Warn("connections to a server that stops are refused, not held", "port", port, "node", ordinal, "error", err)
	}
}

// withholdAbsent has new connections wait for servers that don't run, as after a reboot.
func (d *Driver) withholdAbsent() {
	if d.o.Networks == nil {
		return
	}
	records, err := d.records()
	if err != nil {
		d.log.Warn("look for servers that don't run", "error", err)
	}
	for _, rec := range records {
		if !d.clusterState(rec.Cluster).node(rec.Ordinal).running() {
			d.withhold(d.quit, rec.Ordinal, rec.Port, 0)
		}
	}
}

// leadBack has the gateway lead to a cluster's servers again after withhold. The caller holds the
// cluster's lock.
func (d *Driver) leadBack(ctx context.Context, cs *clusterState, port int) error {
	if d.o.Networks == nil {
		return nil
	}
	routes, err := d.o.Gateway.Routes(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(routes, func(r gateway.Recorded) bool { return r.Port == port && r.Cluster == cs.id })
	if i < 0 {
		return nil
	}
	top, err := d.topology(cs.id)
	if err != nil || top.Restoring { // who puts other data in place lets people in
		return err
	}
	r := routes[i].Route
	r.Reads = d.readers(cs, port, top)
	if primary := d.listenAddress(top.Primary, port); cs.node(top.Primary).running() {
		r.Primary = primary
	} else {
		r.Reads = slices.DeleteFunc(r.Reads, func(s netip.AddrPort) bool { return s == primary })
	}
	return d.o.Gateway.Set(ctx, r)
}

// narrow takes addresses off a cluster's routes that may no longer connect, before anything else is done: servers
// that repeat the allow list are told of it first otherwise.
func (d *Driver) narrow(ctx context.Context, want platform.Wanted) error {
	if d.o.Networks == nil {
		return nil
	}
	routes, err := d.o.Gateway.Routes(ctx)
	if err != nil {
		return fmt.Errorf("look at the gateway: %w", err)
	}
	allowed := map[netip.Prefix]bool{}
	if !want.LockedOut {
		for _, p := range want.AllowList.Prefixes() {
			allowed[p] = true
		}
	}
	for _, recorded := range routes { // that of its pools, too
		if recorded.Cluster != want.ID {
			continue
		}
		r := recorded.Route
		before := len(r.Allow)
		r.Allow = slices.DeleteFunc(r.Allow, func(p netip.Prefix) bool { return !allowed[p] })
		if len(r.Allow) == before {
			continue
		}
		if err := d.o.Gateway.Set(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// endSessionsWithin bounds the servers' own words where the gateway doesn't: what isn't said by then is cut.
const endSessionsWithin = 80 * time.Millisecond

// EndSessions has servers end sessions of customers, for the gateway, in the server's own words.
func (d *Driver) EndSessions(ctx context.Context, sessions []kernel.Session) {
	d.eachServerOf(ctx, sessions, engine.Driver.EndSessions)
}

// RetireSessions has servers end those sessions that have done nothing for so long.
func (d *Driver) RetireSessions(ctx context.Context, sessions []kernel.Session, idle time.Duration) {
	d.eachServerOf(ctx, sessions, func(eng engine.Driver, ctx context.Context, n engine.Node, clients []netip.AddrPort) error {
		return eng.RetireSessions(ctx, n, clients, idle)
	})
}

type endSessions func(eng engine.Driver, ctx context.Context, n engine.Node, clients []netip.AddrPort) error

func (d *Driver) eachServerOf(ctx context.Context, sessions []kernel.Session, end endSessions) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, endSessionsWithin)
		defer cancel()
	}
	byServer := map[netip.AddrPort][]netip.AddrPort{}
	for _, s := range sessions {
		byServer[s.Server] = append(byServer[s.Server], s.Seen)
	}
	var work sync.WaitGroup
	for server, clients := range byServer {
		work.Go(func() {
			if err := d.endSessionsAt(ctx, server, clients, end); err != nil && ctx.Err() == nil {
				d.log.Warn("sessions are cut without the server's words", "server", server, "error", err)
			}
		})
	}
	work.Wait()
}

func (d *Driver) endSessionsAt(ctx context.Context, server netip.AddrPort, clients []netip.AddrPort, end endSessions) error {
	ns := d.serverAt(server)
	if ns == nil || ns.isHung() {
		return nil
	}
	rec, err := state.ReadNode(d.layout.node(ns.id, ns.ordinal))
	if err != nil || rec == nil || !rec.Bootstrapped {
		return err
	}
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil {
		return err
	}
	return end(eng, ctx, node, clients)
}

// serverAt finds the node whose server listens at an address and runs.
func (d *Driver) serverAt(server netip.AddrPort) *nodeState {
	d.mu.Lock()
	all := make([]*clusterState, 0, len(d.clusters))
	for _, cs := range d.clusters {
		all = append(all, cs)
	}
	d.mu.Unlock()
	for _, cs := range all {
		for _, ordinal := range cs.ordinals() {
			if ns := cs.node(ordinal); ns.listensAt() == server && ns.running() {
				return ns
			}
		}
	}
	return nil
}
