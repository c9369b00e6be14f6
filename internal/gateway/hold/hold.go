package hold

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"steward/internal/gateway"
)

// Options are what a Holder is made of.
type Options struct {
	// PrimaryAddr and SecondaryAddr are the gateway's.
	PrimaryAddr, SecondaryAddr netip.Addr
	// Limit is how long a connection is held; 0 for 20 seconds.
	Limit time.Duration
	// Most is how many are held at once; 0 for 4096. Others are told at once.
	Most int
	// Waiting is told of each connection that begins to be held, and how many of its
	// port are by then. It must not block. May be nil.
	Waiting func(port, held int)
	// Own reports whether a connection is one of this process's own, that nobody is to be
	// told of. May be nil.
	Own    func(from, to netip.AddrPort) bool
	Logger *slog.Logger
}

// Holder holds and joins connections. It is safe for concurrent use.
type Holder struct {
	o       Options
	log     *slog.Logger
	running sync.WaitGroup

	mu    sync.Mutex
	ports map[int]*port
	held  int
}

// port is what is held for one database.
type port struct {
	listeners [2]*net.TCPListener
	route     gateway.Route
	// failed is what those are told that would be held; empty while there is hope.
	failed string
	// changed is closed when anything of this changes.
	changed  chan struct{}
	sessions map[*session]struct{}
	held     int
}

// The ends of a port, as the listeners are numbered.
const (
	primary = iota
	reads
)

// New makes a Holder without ports. Close must follow.
func New(o Options) *Holder {
	o.Limit, o.Most = cmp.Or(o.Limit, 20*time.Second), cmp.Or(o.Most, 4096)
	if o.Waiting == nil {
		o.Waiting = func(int, int) {}
	}
	if o.Own == nil {
		o.Own = func(netip.AddrPort, netip.AddrPort) bool { return false }
	}
	return &Holder{o: o, log: o.Logger, ports: map[int]*port{}}
}

// Listen makes sure that there is a listener for the port, which lets nobody in
// until there is a route. The error is a *gateway.PortError.
func (h *Holder) Listen(number int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ports[number] != nil {
		return nil
	}
	p := &port{changed: make(chan struct{}), sessions: map[*session]struct{}{}}
	for end, address := range []netip.Addr{h.o.PrimaryAddr, h.o.SecondaryAddr} {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, uint16(number))))
		if err != nil {
			p.closeListeners()
			return &gateway.PortError{Port: number, Err: err}
		}
		p.listeners[end] = l
	}
	h.ports[number] = p
	for end, l := range p.listeners {
		h.running.Go(func() { h.accept(p, end, l) })
	}
	return nil
}

func (p *port) closeListeners() {
	for _, l := range p.listeners {
		if l != nil {
			l.Close()
		}
	}
}

// Set makes the route that of its port, which must be listened on: who is held and finds a
// server now is joined to it, and who is held and may no longer connect is turned away. Those
// who are joined are left until Cut, so that their servers can tell them.
func (h *Holder) Set(r gateway.Route) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.ports[r.Port]
	if p == nil {
		return
	}
	p.route, p.failed = r.Clone(), ""
	p.wake()
	p.cut(func(s *session) bool { return !s.target.IsValid() })
}

// Cut ends the sessions of a port whose source may no longer connect, or whose server is no longer
// the route's.
func (h *Holder) Cut(number int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.ports[number]; p != nil {
		p.cut(func(*session) bool { return true })
	}
}

// cut ends those sessions of which the route doesn't allow; the Holder's mutex is held.
func (p *port) cut(of func(*session) bool) {
	for s := range p.sessions {
		misfit := !p.route.Allows(s.source) || s.target.IsValid() && !slices.Contains(p.targets(s.end), s.target)
		if misfit && of(s) {
			s.cut()
		}
	}
}

// Joined is a connection that was led to a server.
type Joined struct {
	// From is where it comes from, To the gateway's end that it came to.
	From, To netip.AddrPort
}

// Joined are the connections that were joined to a server, by what it sees of them.
func (h *Holder) Joined(server netip.AddrPort) map[netip.AddrPort]Joined {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := map[netip.AddrPort]Joined{}
	for _, p := range h.ports {
		for s := range p.sessions {
			if s.target == server {
				list[addressOf(s.server.LocalAddr())] = Joined{From: s.from, To: s.to}
			}
		}
	}
	return list
}

// Rest takes the servers off a port's route unless anybody else is held or joined there: who
// comes from now on is held. It reports whether it did.
func (h *Holder) Rest(number int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.ports[number]
	if p == nil {
		return false
	}
	for s := range p.sessions {
		if !s.own {
			return false
		}
	}
	p.route.Primary, p.route.Reads = netip.AddrPort{}, nil
	return true
}

// Fail tells all who are held at the port, and all who would be until the route is
// set again, why they wait in vain.
func (h *Holder) Fail(number int, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.ports[number]; p != nil {
		p.failed = why
		p.wake()
	}
}

func (p *port) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// targets are the servers of an end.
func (p *port) targets(end int) []netip.AddrPort {
	switch {
	case end == reads:
		return p.route.Reads
	case p.route.Primary.IsValid():
		return []netip.AddrPort{p.route.Primary}
	}
	return nil
}

// Remove ends all sessions of a port and stops listening on it.
func (h *Holder) Remove(number int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.ports[number]; p != nil {
		delete(h.ports, number)
		p.closeListeners()
		for s := range p.sessions {
			s.cut()
		}
	}
}

// Serves reports whether the port is listened on.
func (h *Holder) Serves(number int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ports[number] != nil
}

// Held is how many connections wait at a port.
func (h *Holder) Held(number int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.ports[number]; p != nil {
		return p.held
	}
	return 0
}

// Close ends everything.
func (h *Holder) Close() {
	h.mu.Lock()
	numbers := slices.Collect(maps.Keys(h.ports))
	h.mu.Unlock()
	for _, number := range numbers {
		h.Remove(number)
	}
	h.running.Wait()
}

// accept takes connections until the listener is closed.
func (h *Holder) accept(p *port, end int, l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, as a rule
			h.log.Warn("a connection can't be taken", "address", l.Addr(), "error", err)
			time.Sleep(50 * time.Millisecond)
			continue
		}
		h.running.Go(func() { h.serve(p, end, c) })
	}
}

// choose is one of the servers of an end.
func choose(targets []netip.AddrPort) netip.AddrPort { return targets[rand.IntN(len(targets))] }
