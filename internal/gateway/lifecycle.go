package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"steward/internal/failpoint"
	"steward/internal/process"
)

// config is what a generation with these ports is rendered from.
func (g *Gateway) config(socket string, ports []int) config {
	return config{
		Primary: g.o.PrimaryAddr, Secondary: g.o.SecondaryAddr, Socket: socket, MaxConn: g.maxConn,
		User: g.uid, Group: g.gid, Ports: ports, Routes: g.routes,
	}
}

func (g *Gateway) addresses() []netip.Addr { return []netip.Addr{g.o.PrimaryAddr, g.o.SecondaryAddr} }

// living are the generations that run, the current one first.
func (g *Gateway) living() []*instance {
	var list []*instance
	if g.current != nil && g.current.process.Running() {
		list = append(list, g.current)
	}
	for _, i := range g.older {
		if i.process.Running() {
			list = append(list, i)
		}
	}
	return list
}

// adopt finds the generations that an earlier steward left running. The newest
// is the current one if it listens on all its ports and is what this steward
// would start; else it is drained with the rest, and ready starts another.
func (g *Gateway) adopt(ctx context.Context) error {
	generations, err := g.generations()
	if err != nil {
		return err
	}
	for _, n := range generations {
		g.newest = max(g.newest, n)
		p, err := process.Adopt(g.pidFile(n), g.identity(n))
		if err != nil {
			return fmt.Errorf("adopt HAProxy: %w", err)
		}
		if p == nil {
			if err := g.clear(n); err != nil {
				return err
			}
			continue
		}
		i := &instance{generation: n, process: p, socket: g.socket(n)}
		current, err := g.examine(ctx, i)
		if err != nil {
			g.log.Warn("HAProxy of an earlier steward is no use and is ended", "pid", p.Pid(), "error", err)
			if err := g.end(i); err != nil {
				return err
			}
			continue
		}
		if current && g.current == nil {
			g.serve(i, g.slotsOf(i))
		} else {
			g.older = append(g.older, i)
		}
	}
	return nil
}

// examine reads a generation's ports and reports whether it can be the current one.
func (g *Gateway) examine(ctx context.Context, i *instance) (bool, error) {
	if err := g.awaitAnswer(ctx, i); err != nil {
		return false, err
	}
	info, err := g.inspect(ctx, i)
	if err != nil {
		return false, err
	}
	r, err := dial(ctx, i.socket)
	if err != nil {
		return false, err
	}
	defer r.close()
	fronts, err := frontends(r)
	if err != nil {
		return false, err
	}
	allOpen := true
	for name, f := range fronts {
		port, _ := portOf(name)
		i.ports = append(i.ports, port)
		allOpen = allOpen && f.open
	}
	slices.Sort(i.ports)
	i.ports = slices.Compact(i.ports)
	same := info["description"] == g.config("", nil).fingerprint() && info["Version"] == g.version
	return allOpen && same, nil
}

// slotsOf is how many leading ports of the range a generation was made for.
func (g *Gateway) slotsOf(i *instance) int {
	for k := len(i.ports) - 1; k >= 0; k-- {
		if p := i.ports[k]; p >= g.o.Ports[0] && p <= g.o.Ports[1] {
			blocks := (p - g.o.Ports[0] + blockSize) / blockSize
			return min(blocks*blockSize, g.total())
		}
	}
	return 0
}

func (g *Gateway) total() int { return g.o.Ports[1] - g.o.Ports[0] + 1 }

// ready makes sure that there is a current generation, that older ones don't
// listen, and that all routes are in force as far as they can be.
func (g *Gateway) ready(ctx context.Context) error {
	if g.current != nil && !g.current.process.Running() {
		g.log.Warn("HAProxy died", "pid", g.current.process.Pid())
		if err := g.clear(g.current.generation); err != nil {
			return err
		}
		g.serve(nil, g.slots)
		g.lost = true
	}
	if g.current == nil {
		if err := g.start(ctx, g.listening()); err != nil {
			return err
		}
	}
	if g.lost {
		g.lost = false
		select {
		case g.changes <- struct{}{}:
		default:
		}
	}
	if err := g.drainOlder(ctx); err != nil {
		return err
	}
	for _, port := range slices.Sorted(maps.Keys(g.routes)) {
		if g.settled[port] {
			continue
		}
		// One port's trouble is not the others'.
		if err := g.settle(ctx, port); err != nil && ctx.Err() == nil {
			g.log.Warn("route is not in force", "port", port, "error", err)
		}
	}
	return nil
}

// listening is an older generation that still does: one that an earlier steward
// left and this one wouldn't have started.
func (g *Gateway) listening() *instance {
	for _, i := range g.older {
		if i.process.Running() && !i.drained {
			return i
		}
	}
	return nil
}

// serve makes a generation, or none, the current one.
func (g *Gateway) serve(i *instance, slots int) {
	g.current, g.slots = i, slots
	g.serving.Store(i)
}

// start makes a new current generation, with as many spare ports as there should be.
func (g *Gateway) start(ctx context.Context, from *instance) error {
	slots, ports := g.choosePorts(from)
	i, err := g.launch(ctx, ports, from)
	if err != nil {
		// Another program may have been quicker to take a port.
		slots, again := g.choosePorts(from)
		if ctx.Err() != nil || slices.Equal(again, ports) {
			return err
		}
		if i, err = g.launch(ctx, again, from); err != nil {
			return err
		}
		g.serve(i, slots)
		return nil
	}
	g.serve(i, slots)
	return nil
}

// choosePorts are the ports that get frontends, those of other programs left out,
// and how many leading ones of the range were looked at.
func (g *Gateway) choosePorts(from *instance) (slots int, ports []int) {
	usable := map[int]bool{}
	taken := func(port int) bool {
		if _, looked := usable[port]; !looked {
			usable[port] = from != nil && from.serves(port) || Probe(g.addresses(), port) == nil
		}
		return !usable[port]
	}
	slots = growSlots(g.o.Ports[0], g.total(), g.slots, func(port int) bool { return g.routed(port) || taken(port) })
	var leftOut []int
	for _, port := range wantPorts(g.o.Ports[0], slots, g.routes) {
		if taken(port) {
			leftOut = append(leftOut, port)
		} else {
			ports = append(ports, port)
		}
	}
	g.tellLeftOut(leftOut)
	return slots, ports
}

func (g *Gateway) routed(port int) bool {
	_, found := g.routes[port]
	return found
}

// tellLeftOut says, once for each change, which ports no database can have.
func (g *Gateway) tellLeftOut(ports []int) {
	if slices.Equal(ports, g.leftOut) {
		return
	}
	g.leftOut = ports
	if len(ports) == 0 {
		g.log.Info("no port is left out any more")
		return
	}
	g.log.Warn("ports are left out: other programs listen on them, or they can't be listened on", "ports", spans(ports))
}

// listen makes sure that the current generation has frontends for a port.
func (g *Gateway) listen(ctx context.Context, port int) error {
	if g.current.serves(port) {
		return nil
	}
	if err := Probe(g.addresses(), port); err != nil {
		return err
	}
	// A route holds the port's place while the new generation is made: blocked.
	if _, had := g.routes[port]; !had {
		g.routes[port] = Route{Port: port}
		defer delete(g.routes, port)
	}
	if err := g.replace(ctx); err != nil {
		return err
	}
	if !g.current.serves(port) {
		return &PortError{Port: port, Err: syscall.EADDRINUSE}
	}
	return nil
}

// replace puts a new generation in the current one's place, without refusing a
// connection or losing a session.
func (g *Gateway) replace(ctx context.Context) error {
	old := g.current
	if err := g.start(ctx, old); err != nil {
		return err
	}
	g.older = append([]*instance{old}, g.older...)
	failpoint.Here("gateway: before draining the old HAProxy")
	return g.drainOlder(ctx)
}

// drainOlder shuts the frontends of older generations and forgets those that have ended.
func (g *Gateway) drainOlder(ctx context.Context) error {
	var errs []error
	g.older = slices.DeleteFunc(g.older, func(i *instance) bool {
		if i.process.Running() {
			return false
		}
		errs = append(errs, g.clear(i.generation))
		return true
	})
	for _, i := range g.older {
		err := g.drain(ctx, i)
		if err != nil && ctx.Err() == nil && i.process.Running() {
			g.log.Warn("old HAProxy can't be drained and is ended", "pid", i.process.Pid(), "error", err)
			err = g.end(i) // it would go on letting sources in
		}
		if err != nil && i.process.Running() {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// settle brings a port's route into force in all generations. An older one that
// doesn't take it is ended with all its sessions: that some source may not
// connect any more counts for more than that others stay connected.
func (g *Gateway) settle(ctx context.Context, port int) error {
	for _, i := range g.living() {
		if !i.serves(port) {
			continue
		}
		err := g.apply(ctx, i, g.routes[port])
		if err != nil && i != g.current && ctx.Err() == nil {
			g.log.Warn("old HAProxy doesn't take a route and is ended", "pid", i.process.Pid(), "port", port, "error", err)
			err = g.end(i)
		}
		if err != nil && i.process.Running() {
			return fmt.Errorf("set route: %w", err)
		}
	}
	if g.current == nil || !g.current.process.Running() {
		return errors.New("set route: HAProxy died; it is restarted with the route")
	}
	if g.current.serves(port) {
		g.settled[port] = true
	}
	return nil
}

func (g *Gateway) apply(ctx context.Context, i *instance, r Route) error {
	conn, err := dial(ctx, i.socket)
	if err != nil {
		return err
	}
	defer conn.close()
	a := applier{runtime: conn, families: g.config("", nil).families(), listening: i == g.current}
	return a.apply(ctx, r)
}

// End ends every HAProxy that was started with these folders, and returns when
// they are gone. No Gateway may be open on them.
func End(ctx context.Context, dir, runDir string) error {
	g := &Gateway{o: Options{Dir: dir, RunDir: runDir}}
	generations, err := g.generations()
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range generations {
		p, err := process.Adopt(g.pidFile(n), g.identity(n))
		if err == nil && p != nil {
			err = p.Stop(ctx, process.Request{Signal: syscall.SIGTERM, Patience: time.Second}, nil)
		}
		if err == nil {
			err = g.clear(n)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end HAProxy: %w", err)
	}
	return nil
}
