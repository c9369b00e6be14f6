package kernel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/gateway/hold"
	"steward/internal/nft"
	"steward/internal/wait"
)

// Options are what a Gateway is made of.
type Options struct {
	// Dir holds the routes; the table's name follows from it.
	Dir string
	// PrimaryAddr and SecondaryAddr are addresses of this machine.
	PrimaryAddr, SecondaryAddr netip.Addr
	// Ports are the first and the last port of databases.
	Ports [2]int
	// HoldLimit is how long new connections wait for a server; 0 for 20 seconds.
	HoldLimit time.Duration
	// Waiting is told that somebody waits at a port; see hold.Options. May be nil.
	Waiting func(port, held int)
	// Rate is how many new connections a source may make to a database in a second; 0 for 1000.
	Rate uint32
	// End is asked to end sessions with the server's own words, within the context's deadline if it has one, and need not end all:
	// what it leaves is cut when it returns. It must not change the gateway. May be nil.
	End func(ctx context.Context, sessions []Session)
	// Retire is asked to end those of sessions that have done nothing for so long, before others are given a moment
	// to end by themselves; see Withhold. May be nil.
	Retire func(ctx context.Context, sessions []Session, idle time.Duration)
	// Namespace is the path of the network namespace whose sockets a server has; empty for this
	// process's own. May be nil.
	Namespace func(server netip.AddrPort) string
	Logger    *slog.Logger
}

// Gateway is the table in the kernel and the routes it has. It is safe for concurrent use.
type Gateway struct {
	o       Options
	log     *slog.Logger
	plan    plan
	files   gateway.Files
	table   *nft.Table
	holder  *hold.Holder
	changes chan struct{}
	closing context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	routes map[int]gateway.Route
	// parts are what the table has of each port.
	parts map[int]nft.Ruleset
	// settled are the ports whose route is in force, the ending of sessions included.
	settled map[int]bool
	// generation is the kernel's when the table was last as it should be.
	generation uint32
	// looked is when the table was last read as a whole, and took how long that was.
	looked time.Time
	took   time.Duration

	// closed are the connections that were closed when Used was last asked.
	closedMu sync.Mutex
	closed   map[string]bool
	own      ownConnections
}

const (
	// sweepEvery is how often it is looked whether somebody changed the table.
	sweepEvery = time.Second
	// restFactor keeps whole looks at a large table, which others' changes to
	// their tables cause too, below a part of the time. A table that was emptied doesn't wait for that.
	restFactor = 50
)

// Open takes the table over that an earlier steward left, or makes one, and brings it
// in line with the routes on disk. Close or Stop must follow.
func Open(ctx context.Context, o Options) (*Gateway, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g := &Gateway{
		o: o, log: o.Logger, changes: make(chan struct{}, 1),
		plan:  plan{primary: o.PrimaryAddr, secondary: o.SecondaryAddr, rate: o.Rate},
		files: gateway.RouteFiles(o.Dir, o.Logger), parts: map[int]nft.Ruleset{}, settled: map[int]bool{},
	}
	for _, dir := range []string{o.Dir, g.files.Dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	var err error
	if g.routes, err = g.files.Load(); err != nil {
		return nil, err
	}
	if g.table, err = nft.Open(tableName(o.Dir)); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.holder = hold.New(hold.Options{
		PrimaryAddr: o.PrimaryAddr, SecondaryAddr: o.SecondaryAddr, Limit: o.HoldLimit, Waiting: o.Waiting, Own: g.own.active, Logger: o.Logger,
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.adopt(ctx); err != nil {
		g.holder.Close()
		return nil, errors.Join(err, g.table.Close())
	}
	sweeping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.closing = cancel
	g.running.Go(func() { g.sweep(sweeping) })
	return g, nil
}

func (o *Options) complete() error {
	o.fillIn()
	var errs []error
	for _, a := range []netip.Addr{o.PrimaryAddr, o.SecondaryAddr} {
		if !a.IsValid() || a.IsUnspecified() || a.Zone() != "" {
			errs = append(errs, fmt.Errorf("address %s can't be listened on", a))
		} else if err := gateway.Probe([]netip.Addr{a}, 0); err != nil {
			errs = append(errs, fmt.Errorf("address %s is not one of this machine: %w", a, errors.Unwrap(err)))
		}
	}
	if o.PrimaryAddr == o.SecondaryAddr {
		errs = append(errs, errors.New("primary and secondary address must differ"))
	}
	if o.Ports[0] < 1 || o.Ports[1] > 65535 || o.Ports[0] > o.Ports[1] {
		errs = append(errs, fmt.Errorf("ports %d-%d are no range", o.Ports[0], o.Ports[1]))
	}
	if !filepath.IsAbs(o.Dir) {
		errs = append(errs, errors.New("folder must be an absolute path"))
	}
	return errors.Join(errs...)
}

// fillIn sets what was left out.
func (o *Options) fillIn() {
	o.PrimaryAddr, o.SecondaryAddr = o.PrimaryAddr.Unmap(), o.SecondaryAddr.Unmap()
	o.Rate = cmp.Or(o.Rate, 1000)
	if o.End == nil {
		o.End = func(context.Context, []Session) {}
	}
	if o.Retire == nil {
		o.Retire = func(context.Context, []Session, time.Duration) {}
	}
	if o.Namespace == nil {
		o.Namespace = func(netip.AddrPort) string { return "" }
	}
}

// tableName names the table of the gateway with that folder.
func tableName(dir string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(dir)))
	return "steward-gateway-" + hex.EncodeToString(sum[:4])
}

// adopt brings the table in line with the routes, whatever is there.
func (g *Gateway) adopt(ctx context.Context) error {
	for _, port := range slices.Sorted(maps.Keys(g.routes)) {
		g.parts[port] = g.plan.part(g.routes[port])
		if err := g.holder.Listen(port); err != nil {
			g.log.Warn("a route is not in force", "port", port, "error", err)
		}
	}
	if _, err := g.repair(); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	for port, r := range g.routes {
		g.holder.Set(r)
		g.settled[port] = g.holder.Serves(port)
	}
	return g.endAllMisfits(ctx, slices.Collect(maps.Values(g.routes))...)
}

// wanted is the whole table.
func (g *Gateway) wanted() nft.Ruleset {
	all := g.plan.base()
	for _, part := range g.parts {
		all.Add(part)
	}
	return all
}

// repair makes the table what it should be and says what was wrong with it.
func (g *Gateway) repair() (string, error) {
	begun := time.Now()
	defer func() { g.looked, g.took = time.Now(), time.Since(begun) }()
	said, generation, err := g.table.Repair(g.wanted())
	if err == nil {
		g.generation = generation
	}
	return said, err
}

// Set makes a port's route what it should be. When it returns, it is in force:
// packets of sources that may no longer connect are refused, and their sessions, and those
// of servers that are no longer the route's, have ended; all others go on. The error is a
// *gateway.PortError when another program has the port.
func (g *Gateway) Set(ctx context.Context, r gateway.Route) error {
	if err := r.Validate(); err != nil {
		return err
	}
	r = r.Clone()
	g.mu.Lock()
	defer g.mu.Unlock()
	before, had := g.routes[r.Port]
	if had && g.settled[r.Port] && before.Equal(r) {
		return nil
	}
	if had && before.Cluster != r.Cluster {
		// Another database's customers must be gone before this one's server is there.
		if err := g.remove(ctx, r.Port); err != nil {
			return err
		}
	}
	if err := g.holder.Listen(r.Port); err != nil {
		return err
	}
	put := g.put
	if had && g.settled[r.Port] && narrows(before, r) {
		put = g.narrow
	}
	if err := put(ctx, r); err != nil {
		if _, kept := g.routes[r.Port]; !kept {
			g.holder.Remove(r.Port)
		}
		return err
	}
	return nil
}

// put saves a route and brings it into force.
func (g *Gateway) put(ctx context.Context, r gateway.Route) error {
	before := g.routes[r.Port]
	return g.putAfter(ctx, r, func(ctx context.Context) error { return g.endMisfits(ctx, before, r, nil) })
}

// narrow is put for a route that leads where it led before, and lets fewer in. Their servers have wordsWithin to end their sessions, so that
// on a busy machine, too, they hear why: the kernel refuses all that they send by then, and other routes don't wait for it. The caller
// holds mu, which is free meanwhile.
func (g *Gateway) narrow(ctx context.Context, r gateway.Route) error {
	before := g.routes[r.Port]
	if err := g.putAfter(ctx, r, func(context.Context) error { return nil }); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	flows, err := g.misfits(serversOf(before, r), r)
	if err != nil {
		delete(g.settled, r.Port)
		return fmt.Errorf("set route: %w", err)
	}
	asked := map[Session]bool{}
	if sessions := g.sessionsOf(flows); len(sessions) > 0 {
		g.mu.Unlock()
		patient, cancel := context.WithTimeout(ctx, wordsWithin)
		g.o.End(patient, sessions)
		cancel()
		g.mu.Lock()
		for _, s := range sessions {
			asked[s] = true
		}
	}
	now, there := g.routes[r.Port]
	if !there || now.Cluster != r.Cluster {
		return nil // who took it away has ended all sessions
	}
	if err := g.endMisfits(ctx, before, now, asked); err != nil {
		delete(g.settled, r.Port)
		return fmt.Errorf("set route: %w", err)
	}
	return nil
}

// putAfter is put with another way of ending the sessions that the route doesn't allow, while the route before was in force.
func (g *Gateway) putAfter(ctx context.Context, r gateway.Route, end func(context.Context) error) error {
	if _, had := g.routes[r.Port]; had && !g.settled[r.Port] {
		end = func(ctx context.Context) error { return g.endAllMisfits(ctx, r) }
	}
	delete(g.settled, r.Port)
	if err := g.files.Save(r); err != nil {
		return err
	}
	g.routes[r.Port] = r
	failpoint.Here("gateway: route saved")
	// Whoever asked may go: a route in force by half would be nobody's work.
	if err := g.settle(context.WithoutCancel(ctx), r.Port, end); err != nil {
		return err
	}
	failpoint.Here("gateway: route in force")
	return nil
}

// settle brings a port's route into force; end ends the sessions that it doesn't allow.
func (g *Gateway) settle(ctx context.Context, port int, end func(context.Context) error) error {
	r := g.routes[port]
	if err := g.change(port, g.plan.part(r)); err != nil {
		return fmt.Errorf("set route: %w", err)
	}
	g.holder.Set(r)
	failpoint.Here("gateway: before ending sessions")
	if err := end(ctx); err != nil {
		return fmt.Errorf("set route: %w", err)
	}
	g.settled[port] = true
	return nil
}

// change makes another part of a port's in the table. A table that isn't what it
// was is repaired.
func (g *Gateway) change(port int, part nft.Ruleset) error {
	before := g.parts[port]
	unchanged, err := g.table.Generation()
	if err != nil {
		return err
	}
	g.keep(port, part)
	if _, err = g.table.Change(before, part, sharedSets()); err != nil {
		said, again := g.repair()
		if again != nil {
			g.keep(port, before) // one port's trouble is not the others'
			return again
		}
		g.log.Warn("the gateway's table was not what it should be", "error", err, "repaired", said)
		return nil
	}
	now, err := g.table.Generation()
	if err == nil && unchanged == g.generation && now == unchanged+1 {
		g.generation = now // nobody else changed anything
	}
	return err
}

// keep notes what the table is to have of a port.
func (g *Gateway) keep(port int, part nft.Ruleset) {
	if part.Empty() {
		delete(g.parts, port)
	} else {
		g.parts[port] = part
	}
}

// Remove blocks a port, ends all its sessions and forgets its route.
func (g *Gateway) Remove(ctx context.Context, port int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, there := g.routes[port]; !there {
		return nil
	}
	return g.remove(ctx, port)
}

func (g *Gateway) remove(ctx context.Context, port int) error {
	if err := g.put(ctx, gateway.Route{Cluster: g.routes[port].Cluster, Port: port}); err != nil {
		return err
	}
	if err := g.change(port, nft.NewRuleset()); err != nil {
		return fmt.Errorf("remove route of port %d: %w", port, err)
	}
	if err := g.files.Forget(port); err != nil {
		return err
	}
	g.holder.Remove(port)
	delete(g.routes, port)
	delete(g.settled, port)
	return nil
}

// Fail tells those who wait for a server at the port why they wait in vain, and
// those who come until the route is set again.
func (g *Gateway) Fail(port int, why string) { g.holder.Fail(port, why) }

// Held is how many connections wait for a server at the port.
func (g *Gateway) Held(port int) int { return g.holder.Held(port) }

// Usable is nil when a route can be set on the port. It doesn't wait for changes
// that are being made.
func (g *Gateway) Usable(port int) error {
	if g.holder.Serves(port) {
		return nil
	}
	return gateway.Probe([]netip.Addr{g.o.PrimaryAddr, g.o.SecondaryAddr}, port)
}

// Routes are the routes by port.
func (g *Gateway) Routes(context.Context) ([]gateway.Recorded, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]gateway.Recorded, 0, len(g.routes))
	for _, port := range slices.Sorted(maps.Keys(g.routes)) {
		list = append(list, gateway.Recorded{Route: g.routes[port].Clone(), InForce: g.settled[port]})
	}
	return list, nil
}

// Ensure makes sure that the table is what it should be, and brings routes into force that aren't.
func (g *Gateway) Ensure(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ensure(); err != nil {
		return err
	}
	for _, port := range slices.Sorted(maps.Keys(g.routes)) {
		if g.settled[port] {
			continue
		}
		// One port's trouble is not the others'.
		err := g.holder.Listen(port)
		if err == nil {
			err = g.settle(ctx, port, func(ctx context.Context) error { return g.endAllMisfits(ctx, g.routes[port]) })
		}
		if err != nil && ctx.Err() == nil {
			g.log.Warn("a route is not in force", "port", port, "error", err)
		}
	}
	return nil
}

func (g *Gateway) ensure() error {
	now, err := g.table.Generation()
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if now == g.generation {
		return nil
	}
	said, err := g.repair()
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if said == "" {
		return nil
	}
	g.log.Warn("somebody changed the gateway's table; it is what it should be again", "table", g.table.Name(), "found", said)
	select {
	case g.changes <- struct{}{}:
	default:
	}
	return nil
}

// sweep looks after the table until ctx ends.
func (g *Gateway) sweep(ctx context.Context) {
	wait.Every(ctx, sweepEvery, func() {
		if g.rests() {
			return
		}
		if err := g.Ensure(ctx); err != nil && ctx.Err() == nil {
			g.log.Error("the gateway's table can't be looked after", "error", err)
		}
	})
}

// rests reports whether the next whole look can wait: the last one was a moment ago, for what one takes, and what all routes need is there.
// Whoever empties the table or deletes it, as a restart of another firewall does, takes that.
func (g *Gateway) rests() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.looked) >= restFactor*g.took {
		return false
	}
	if now, err := g.table.Generation(); err != nil || now == g.generation {
		return err == nil
	}
	held, err := g.table.HoldsChains(g.plan.base())
	return err == nil && held
}

// Changes gets a value when the table was found changed and was repaired. It is a hint.
func (g *Gateway) Changes() <-chan struct{} { return g.changes }

// Close stops looking after the table, which stays. Connections that were held or
// joined here end; those that the kernel leads go on.
func (g *Gateway) Close() {
	g.closing()
	g.running.Wait()
	g.holder.Close()
	_ = g.table.Close() // of sockets that are read no more
}

// Stop removes the table and ends all sessions. The routes are kept for the next Open.
func (g *Gateway) Stop(ctx context.Context) error {
	g.Close()
	return End(ctx, g.o)
}

// End removes the table of the gateway with these options, and ends its sessions. No Gateway may be open on them.
func End(ctx context.Context, o Options) error {
	o.fillIn()
	table, err := nft.Open(tableName(o.Dir))
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	defer table.Close()
	there, err := table.Exists()
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	g := &Gateway{o: o, log: o.Logger}
	if there {
		// Nobody new is led anywhere, but the resets that end sessions still find their clients:
		// without any such table the kernel translates no address.
		empty := plan{primary: o.PrimaryAddr, secondary: o.SecondaryAddr, rate: o.Rate}.base()
		if err := table.Replace(empty); err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
	}
	err = g.endAll(ctx, func(flow) bool { return true })
	if err := errors.Join(err, table.Delete()); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}
