package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
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
	g.own.forget()
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
			if !known && !g.own.known(f.from, f.to) {
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
		if slices.ContainsFunc(flows, func(f flow) bool { return (f.open || f.opening) && !g.own.known(f.from, f.to) }) {
			return true, nil
		}
	}
	return false, nil
}

// Serves reports whether an address is an end of the gateway's.
func (g *Gateway) Serves(to netip.AddrPort) bool {
	return (to.Addr() == g.o.PrimaryAddr || to.Addr() == g.o.SecondaryAddr) && int(to.Port()) >= g.o.Ports[0] && int(to.Port()) <= g.o.Ports[1]
}

// Own has a connection that this process is about to make to an end of the gateway's
// not count as anybody's, until over is called: it keeps no database awake, and wakes none.
func (g *Gateway) Own(from, to netip.AddrPort) (over func()) { return g.own.add(from, to) }

// ownConnections are this process's own. Those that are over are known for a while longer, as they are to the kernel.
type ownConnections struct {
	mu sync.Mutex
	// until is when one that is over can be forgotten; zero while it isn't.
	until map[[2]netip.AddrPort]time.Time
}

// ownKnown is for how long: until Used has seen that they are over.
const ownKnown = 6 * LookEvery

func (o *ownConnections) add(from, to netip.AddrPort) (over func()) {
	key := [2]netip.AddrPort{from, to}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.until == nil {
		o.until = map[[2]netip.AddrPort]time.Time{}
	}
	o.until[key] = time.Time{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.until[key] = time.Now().Add(ownKnown)
	}
}

// active reports whether one isn't over.
func (o *ownConnections) active(from, to netip.AddrPort) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	until, known := o.until[[2]netip.AddrPort{from, to}]
	return known && until.IsZero()
}

func (o *ownConnections) known(from, to netip.AddrPort) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.until[[2]netip.AddrPort{from, to}]
	return known
}

// forget drops those that have been over for long.
func (o *ownConnections) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for key, until := range o.until {
		if !until.IsZero() && now.After(until) {
			delete(o.until, key)
		}
	}
}
