package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"steward/internal/gateway"
)

// Session is an open connection of a customer that the kernel leads to a server.
type Session struct {
	Port  int
	Reads bool
	// Client is where it comes from.
	Client netip.AddrPort
	// Server is where it was led to, and Seen whom the server sees there: the client,
	// or the gateway for clients from loopback.
	Server, Seen netip.AddrPort
}

// Sessions counts the open sessions of a port, those that wait for a server included.
func (g *Gateway) Sessions(ctx context.Context, port int) (gateway.Count, error) {
	counts, err := g.AllSessions(ctx)
	return counts[port], err
}

// AllSessions counts the open sessions of all ports that have any.
func (g *Gateway) AllSessions(context.Context) (map[int]gateway.Count, error) {
	counts := map[int]gateway.Count{}
	for _, end := range []netip.Addr{g.o.PrimaryAddr, g.o.SecondaryAddr} {
		flows, err := tracked(end, 0)
		if err != nil {
			return nil, fmt.Errorf("count sessions: %w", err)
		}
		for _, f := range flows {
			port := int(f.to.Port())
			if !f.open || port < g.o.Ports[0] || port > g.o.Ports[1] {
				continue
			}
			c := counts[port]
			if end == g.o.PrimaryAddr {
				c.Primary++
			} else {
				c.Reads++
			}
			counts[port] = c
		}
	}
	return counts, nil
}

// misfit finds the sessions that routes don't allow.
func (g *Gateway) misfit(routes ...gateway.Route) func(flow) bool {
	byPort := map[int]gateway.Route{}
	for _, r := range routes {
		byPort[r.Port] = r
	}
	return func(f flow) bool {
		r, mine := byPort[int(f.to.Port())]
		if !mine {
			return false
		}
		targets := r.Reads
		if f.to.Addr() == g.o.PrimaryAddr {
			targets = []netip.AddrPort{r.Primary}
		}
		return !r.Allows(f.from.Addr()) || !slices.Contains(targets, f.server)
	}
}

// endMisfits ends the sessions that a route doesn't allow after another that was in
// force; of those whose servers have been asked before, what is left.
func (g *Gateway) endMisfits(ctx context.Context, before, now gateway.Route, asked map[Session]bool) error {
	if widens(before, now) {
		return nil
	}
	defer g.holder.Cut(now.Port)
	servers := serversOf(before, now)
	// Who was connecting just then is found in a later round.
	for range 3 {
		flows, err := g.misfits(servers, now)
		if err != nil || len(flows) == 0 {
			return err
		}
		if err := g.end(ctx, flows, asked); err != nil {
			return err
		}
	}
	return nil
}

// serversOf are those that any of routes leads to.
func serversOf(routes ...gateway.Route) (servers []netip.AddrPort) {
	for _, r := range routes {
		servers = append(servers, r.Reads...)
		if r.Primary.IsValid() {
			servers = append(servers, r.Primary)
		}
	}
	slices.SortFunc(servers, netip.AddrPort.Compare)
	return slices.Compact(servers)
}

// misfits are the connections to servers that a route doesn't allow. It asks the servers' sockets: the kernel's table of connections is as
// large as the machine's memory has it, and only found whole.
func (g *Gateway) misfits(servers []netip.AddrPort, now gateway.Route) ([]flow, error) {
	var flows []flow
	for _, server := range servers {
		if !leadsTo(server) {
			continue // the holder's
		}
		found, err := g.flowsOf(server)
		if err != nil {
			return nil, err
		}
		flows = append(flows, found...)
	}
	misfit := g.misfit(now)
	return slices.DeleteFunc(flows, func(f flow) bool { return !misfit(f) }), nil
}

// widens reports whether all that the one route let in, the other does too.
func widens(before, now gateway.Route) bool {
	listed := make(map[netip.Prefix]bool, len(now.Allow))
	for _, p := range now.Allow {
		listed[p] = true
	}
	for _, p := range before.Allow {
		if !listed[p] {
			return false
		}
	}
	for _, server := range before.Reads {
		if !slices.Contains(now.Reads, server) {
			return false
		}
	}
	return before.Primary == now.Primary || !before.Primary.IsValid()
}

// narrows reports whether a route leads where another does, and not all are let in any more.
func narrows(before, now gateway.Route) bool {
	return before.Cluster == now.Cluster && before.Primary == now.Primary && slices.Equal(before.Reads, now.Reads) && !widens(before, now)
}

// endAllMisfits ends all sessions that routes don't allow, wherever they were led to.
func (g *Gateway) endAllMisfits(ctx context.Context, routes ...gateway.Route) error {
	for _, r := range routes {
		g.holder.Cut(r.Port)
	}
	return g.endAll(ctx, g.misfit(routes...))
}

// endAll ends all sessions that the kernel leads and that match.
func (g *Gateway) endAll(ctx context.Context, match func(flow) bool) error {
	var gone []flow
	for _, end := range []netip.Addr{g.o.PrimaryAddr, g.o.SecondaryAddr} {
		flows, err := tracked(end, 0)
		if err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		for _, f := range flows {
			if g.ours(f) && match(f) {
				gone = append(gone, f)
			}
		}
	}
	return g.end(ctx, gone, nil)
}

// ours reports whether a connection came in at one of the gateway's ends and was led on.
func (g *Gateway) ours(f flow) bool {
	port := int(f.to.Port())
	return (f.to.Addr() == g.o.PrimaryAddr || f.to.Addr() == g.o.SecondaryAddr) &&
		port >= g.o.Ports[0] && port <= g.o.Ports[1] && f.server != f.to
}

// end ends sessions: the servers are asked first, unless they have been, then their sockets are destroyed, which
// resets both sides, then what the kernel knows of them is forgotten, so that nothing more finds its way.
func (g *Gateway) end(ctx context.Context, flows []flow, asked map[Session]bool) error {
	if len(flows) == 0 {
		return nil
	}
	sessions := g.sessionsOf(flows)
	unasked := slices.DeleteFunc(slices.Clone(sessions), func(s Session) bool { return asked[s] })
	if len(unasked) > 0 {
		g.o.End(ctx, unasked)
	}
	byPlace := map[string][]Session{}
	for _, s := range sessions {
		place := g.o.Namespace(s.Server)
		byPlace[place] = append(byPlace[place], s)
	}
	var errs []error
	for place, list := range byPlace {
		if err := destroy(place, list); err != nil {
			errs = append(errs, fmt.Errorf("end %d sessions: %w", len(list), err))
		}
	}
	unheard, err := g.unclosed(flows)
	return errors.Join(append(errs, err, forget(unheard))...)
}

// unclosed are those flows that their servers haven't closed by themselves. What clients answer to
// that, as late as they please, would be reset if the kernel had forgotten the connection, and a
// client that is reset before it reads doesn't see the server's last words.
func (g *Gateway) unclosed(flows []flow) ([]flow, error) {
	closed := map[[2]netip.AddrPort]bool{}
	asked := map[netip.AddrPort]bool{}
	for _, f := range flows {
		if asked[f.server] {
			continue
		}
		asked[f.server] = true
		there, err := sockets(g.o.Namespace(f.server), f.server)
		if err != nil {
			return flows, err
		}
		for _, s := range there {
			closed[[2]netip.AddrPort{f.server, s.remote}] = s.closed()
		}
	}
	return slices.DeleteFunc(slices.Clone(flows), func(f flow) bool { return closed[[2]netip.AddrPort{f.server, f.seen}] }), nil
}

// sessionsOf are the open ones of connections.
func (g *Gateway) sessionsOf(flows []flow) (sessions []Session) {
	for _, f := range flows {
		if f.open {
			sessions = append(sessions, Session{
				Port: int(f.to.Port()), Reads: f.to.Addr() == g.o.SecondaryAddr, Client: f.from, Server: f.server, Seen: f.seen,
			})
		}
	}
	return sessions
}

// flowsOf are the connections to a server that came in at the gateway.
func (g *Gateway) flowsOf(server netip.AddrPort) ([]flow, error) {
	seen, err := sockets(g.o.Namespace(server), server)
	if err != nil {
		return nil, fmt.Errorf("end sessions: %w", err)
	}
	if len(seen) == 0 {
		return nil, nil
	}
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("end sessions: %w", err)
	}
	defer c.Close()
	joined := g.holder.Joined(server)
	var flows []flow
	for _, s := range seen {
		if j, there := joined[s.remote]; there {
			flows = append(flows, flow{from: j.From, to: j.To, server: server, seen: s.remote, open: s.state == stateEstablished, sent: s.received})
			continue
		}
		f, there, err := find(c, server, s.remote)
		if err != nil {
			return nil, fmt.Errorf("end sessions: %w", err)
		}
		if there && g.ours(f) {
			f.sent = s.received
			flows = append(flows, f)
		}
	}
	return flows, nil
}
