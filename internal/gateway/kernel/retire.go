package kernel

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"steward/internal/gateway"
	"steward/internal/wait"
)

// Withhold leads nobody to a server any more that is about to stop, or has: new connections
// wait for the next Set, but for reads that other servers take. Sessions that do nothing end at once, others
// have so much time for what they are at, and those who have just come, for their login, at
// least loginGrace.
func (g *Gateway) Withhold(ctx context.Context, port int, server netip.AddrPort, grace time.Duration) error {
	before, r, err := g.leadAway(ctx, port, server)
	if err != nil || before.Equal(r) {
		return err
	}
	// Others' routes don't wait for these sessions.
	if err := g.retire(ctx, server, r, grace); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.routes[port].Equal(r) {
		return nil // who set it meanwhile has ended what doesn't fit
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), wordsWithin)
	defer cancel()
	return g.endMisfits(patient, before, r, nil)
}

// Retire is Withhold, but that the sessions which are left then are for the server to end.
func (g *Gateway) Retire(ctx context.Context, port int, server netip.AddrPort, grace time.Duration) error {
	before, r, err := g.leadAway(ctx, port, server)
	if err != nil || before.Equal(r) {
		return err
	}
	return g.retire(ctx, server, r, grace)
}

// leadAway brings a port's route into force without a server, and ends no session. The routes are the one
// before and the one now; the same when it didn't lead there.
func (g *Gateway) leadAway(ctx context.Context, port int, server netip.AddrPort) (before, now gateway.Route, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, there := g.routes[port]
	now, serves := without(before, server)
	if !there || !serves {
		return before, before, nil
	}
	return before, now, g.putAfter(ctx, now, func(context.Context) error { return nil })
}

// wordsWithin is how long a server may take for its own words that is about to stop, or some of whose clients may no longer
// connect: on a busy machine they take longer than is given where others wait for it.
const wordsWithin = time.Second

// without is a route without a server; false when the route doesn't lead there.
func without(r gateway.Route, server netip.AddrPort) (gateway.Route, bool) {
	if !server.IsValid() || r.Primary != server && !slices.Contains(r.Reads, server) {
		return r, false
	}
	r = r.Clone()
	r.Reads = slices.DeleteFunc(r.Reads, func(s netip.AddrPort) bool { return s == server })
	if r.Primary == server {
		r.Primary = netip.AddrPort{}
	} else if len(r.Reads) == 0 && r.Primary.IsValid() {
		r.Reads = []netip.AddrPort{r.Primary}
	}
	return r, true
}

// retirePause is between two looks at who is left.
const retirePause = 3 * time.Millisecond

// A login of 30 ms takes a second where the processor is short: who comes just before a
// planned stop would be cut in the middle of it. Those are told from others by how little they
// have sent: a handshake, a name, a password and the first statement.
const (
	loginGrace = time.Second
	loginBytes = 4096
)

// So long has a session been idle that is retired. Who has just logged in may need longer to
// send the first statement.
const (
	idleFor         = 30 * time.Millisecond
	idleForNewcomer = 300 * time.Millisecond
)

// newcomer reports whether a client has sent no more than it takes to log in.
func (f flow) newcomer() bool { return f.sent <= loginBytes }

// retire waits until the sessions that a route doesn't lead to a server any more have ended by themselves.
func (g *Gateway) retire(ctx context.Context, server netip.AddrPort, now gateway.Route, grace time.Duration) error {
	if grace == 0 {
		return nil
	}
	begun := time.Now()
	for end := begun.Add(max(grace, loginGrace)); time.Now().Before(end); {
		flows, err := g.misfits([]netip.AddrPort{server}, now)
		if err != nil {
			return err
		}
		if time.Since(begun) > grace {
			flows = slices.DeleteFunc(flows, func(f flow) bool { return !f.newcomer() })
		}
		if !slices.ContainsFunc(flows, func(f flow) bool { return f.open || f.opening }) {
			return nil
		}
		short, cancel := context.WithDeadline(ctx, end)
		newcomers, others := partition(flows, flow.newcomer)
		for idle, some := range map[time.Duration][]flow{idleForNewcomer: newcomers, idleFor: others} {
			if sessions := g.sessionsOf(some); len(sessions) > 0 {
				g.o.Retire(short, sessions, idle)
			}
		}
		cancel()
		if err := wait.Sleep(ctx, retirePause); err != nil {
			return err
		}
	}
	return nil
}

// partition are those flows that match, and the others.
func partition(flows []flow, match func(flow) bool) (matching, others []flow) {
	for _, f := range flows {
		if match(f) {
			matching = append(matching, f)
		} else {
			others = append(others, f)
		}
	}
	return matching, others
}
