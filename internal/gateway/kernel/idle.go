package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"steward/internal/gateway"
)

// LookEvery is how often Used must be asked to see every connection: the kernel knows of
// one that was reset for ten seconds, of others for longer.
const LookEvery = 5 * time.Second

// Used are the ports that anybody is connected to, or has been since it was last asked:
// of connections that are over the kernel knows for a while.
func (g *Gateway) Used(context.Context) (map[int]bool, error) {
	g.closedMu.Lock()
	defer g.closedMu.Unlock()
	used, closed := map[int]bool{}, map[string]bool{}
	for _, end := range []netip.Addr{g.o.PrimaryAddr, g.o.SecondaryAddr} {
		flows, err := tracked(end, 0)
		if err != nil {
			return nil, fmt.Errorf("look who is connected: %w", err)
		}
		for _, f := range flows {
			known := false
			if !f.open {
				closed[string(f.raw)] = true
				known = g.closed[string(f.raw)]
			}
			if !known {
				used[int(f.to.Port())] = true
			}
		}
	}
	g.closed = closed
	return used, nil
}

// Rest leads nobody to a port's servers any more, if nobody is connected: who comes from
// now on waits for the next Set. It reports whether it did; no session is ended.
func (g *Gateway) Rest(ctx context.Context, port int) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, there := g.routes[port]
	if !there || !g.settled[port] || !g.holder.Rest(port) {
		return false, nil
	}
	r := before.Clone()
	r.Primary, r.Reads = netip.AddrPort{}, nil
	busy, err := true, g.lead(ctx, r)
	if err == nil {
		busy, err = g.busy(port)
	}
	if err != nil || busy {
		return false, errors.Join(err, g.lead(ctx, before))
	}
	return true, nil
}

// lead brings a route into force and ends no sessions.
func (g *Gateway) lead(ctx context.Context, r gateway.Route) error {
	return g.putAfter(ctx, r, func(context.Context) error { return nil })
}

// busy reports whether anybody is connected to a port, or about to be.
func (g *Gateway) busy(port int) (bool, error) {
	for _, end := range []netip.Addr{g.o.PrimaryAddr, g.o.SecondaryAddr} {
		flows, err := tracked(end, port)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(flows, func(f flow) bool { return f.open || f.opening }) {
			return true, nil
		}
	}
	return false, nil
}
