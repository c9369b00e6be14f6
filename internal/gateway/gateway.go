package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"steward/internal/failpoint"
)

// Options are what a Gateway is made of.
type Options struct {
	// Dir holds routes and HAProxy's files, RunDir its runtime sockets (a short path).
	Dir, RunDir string
	// Binary is HAProxy; looked for when empty.
	Binary string
	// PrimaryAddr and SecondaryAddr are addresses of this machine.
	PrimaryAddr, SecondaryAddr netip.Addr
	// Ports are the first and the last port of databases.
	Ports [2]int
	// MaxConn is how many connections there can be in all; 0 for as many as the
	// limit of open files allows, up to 16000.
	MaxConn int
	Logger  *slog.Logger
}

// Gateway is a running HAProxy and the routes it has. It is safe for concurrent use.
type Gateway struct {
	o       Options
	log     *slog.Logger
	version string
	maxConn int
	// uid and gid are whom HAProxy becomes when steward is root.
	uid, gid int
	changes  chan struct{}
	// nudge wakes the supervisor.
	nudge   chan struct{}
	closing context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// current listens; nil while there is none. older keep sessions.
	current *instance
	// serving is current, for those who can't wait until mu is free.
	serving atomic.Pointer[instance]
	older   []*instance
	newest  int
	// lost reports whether HAProxy died and wasn't restarted yet.
	lost bool
	// slots is how many leading ports of the range were given frontends, as far as possible.
	slots  int
	routes map[int]Route
	// settled are the ports whose route is in force, the ending of sessions included.
	settled map[int]bool
	// leftOut are the ports that were last told to be another program's.
	leftOut []int
}

// Open adopts the HAProxy that an earlier steward left, or starts one, and
// brings it in line with the routes on disk. Close or Stop must follow.
func Open(ctx context.Context, o Options) (*Gateway, error) {
	g, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.routes, err = g.files().Load(); err != nil {
		return nil, err
	}
	if err := g.adopt(ctx); err != nil {
		g.leave()
		return nil, err
	}
	if err := g.ready(ctx); err != nil {
		g.leave()
		return nil, err
	}
	supervising, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.closing = cancel
	g.running.Go(func() { g.supervisor().Run(supervising) })
	g.running.Go(func() { g.upkeep(supervising) })
	return g, nil
}

// prepare checks the options and makes the folders.
func prepare(ctx context.Context, o Options) (*Gateway, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	for _, dir := range []string{o.Dir, o.RunDir, filepath.Join(o.Dir, aclDir), filepath.Join(o.Dir, routeDir), filepath.Join(o.Dir, jailDir)} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	if err := os.Chmod(o.Dir, 0o700); err != nil { // the routes name customers' addresses
		return nil, fmt.Errorf("gateway: %w", err)
	}
	version, err := binaryVersion(ctx, o.Binary)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	most, err := maxConn(cmp.Or(o.MaxConn, 16000), o.Ports[1]-o.Ports[0]+1)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	uid, gid, err := ownUser()
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	return &Gateway{
		o: o, log: o.Logger, version: version, maxConn: most, uid: uid, gid: gid,
		changes: make(chan struct{}, 1), nudge: make(chan struct{}, 1), settled: map[int]bool{},
	}, nil
}

// complete fills in what was left out, and returns all that is wrong at once.
func (o *Options) complete() error {
	o.PrimaryAddr, o.SecondaryAddr = o.PrimaryAddr.Unmap(), o.SecondaryAddr.Unmap()
	errs := []error{checkAddress(o.PrimaryAddr), checkAddress(o.SecondaryAddr)}
	// HAProxy binds the socket under a longer name first; 107 bytes is the system's limit.
	longest := filepath.Join(o.RunDir, "gateway-1000000.sock.4194304.tmp")
	for _, rule := range []struct {
		ok      bool
		problem error
	}{
		{o.PrimaryAddr != o.SecondaryAddr, errors.New("primary and secondary address must differ")},
		{1 <= o.Ports[0] && o.Ports[0] <= o.Ports[1] && o.Ports[1] <= 65535, fmt.Errorf("ports %d-%d are no range", o.Ports[0], o.Ports[1])},
		{filepath.IsAbs(o.Dir) && filepath.IsAbs(o.RunDir), errors.New("folders must be absolute paths")},
		{len(longest) <= 107, fmt.Errorf("run folder %s: path is too long for sockets", o.RunDir)},
		{strings.IndexFunc(o.RunDir, unsafeInConfig) < 0, fmt.Errorf("run folder %q: only letters, digits and ./_+=@:~- can be in its path", o.RunDir)},
	} {
		if !rule.ok {
			errs = append(errs, rule.problem)
		}
	}
	if o.Binary == "" {
		path, err := FindBinary()
		o.Binary, errs = path, append(errs, err)
	}
	return errors.Join(errs...)
}

// checkAddress returns an error unless a is an address of this machine to listen on.
func checkAddress(a netip.Addr) error {
	if !a.IsValid() || a.IsUnspecified() || a.Zone() != "" {
		return fmt.Errorf("address %s can't be listened on", a)
	}
	if err := Probe([]netip.Addr{a}, 0); err != nil {
		return fmt.Errorf("address %s is not one of this machine: %w", a, errors.Unwrap(err))
	}
	return nil
}

// ownUser is whom HAProxy becomes when steward is root: the user that its package
// made for it.
func ownUser() (uid, gid int, err error) {
	if os.Geteuid() != 0 {
		return 0, 0, nil
	}
	u, err := user.Lookup("haproxy")
	if err != nil {
		return 0, 0, fmt.Errorf("the user haproxy is missing, install the package haproxy: %w", err)
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, fmt.Errorf("user haproxy: %w", err)
	}
	if gid, err = strconv.Atoi(u.Gid); err != nil {
		return 0, 0, fmt.Errorf("user haproxy: %w", err)
	}
	return uid, gid, nil
}

// unsafeInConfig are characters that could mean something in HAProxy's file.
func unsafeInConfig(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("./_+=@:~-", c)
}

// FindBinary looks for HAProxy where distributions put it.
func FindBinary() (string, error) {
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy", "/usr/local/sbin/haproxy"} {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("HAProxy is not installed: `apt-get install haproxy`")
}

var versionLine = regexp.MustCompile(`(?i)^HA-?Proxy version (\S+)`)

// binaryVersion is the version of a HAProxy binary, as `show info` spells it too.
func binaryVersion(ctx context.Context, binary string) (string, error) {
	out, err := exec.CommandContext(ctx, binary, "-v").Output()
	if err != nil {
		return "", fmt.Errorf("run %s: %w", binary, err)
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s is no HAProxy: it says %.100q", binary, out)
	}
	return string(m[1]), nil
}

// Set makes a port's route what it should be. When it returns, it is in force:
// sessions of sources that may no longer connect, and of servers that are no
// longer the route's, have ended; all others go on. The error is a *PortError
// when the port can't be listened on.
func (g *Gateway) Set(ctx context.Context, r Route) error {
	if err := r.Validate(); err != nil {
		return err
	}
	r = r.Clone()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ready(ctx); err != nil {
		return err
	}
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
	if err := g.listen(ctx, r.Port); err != nil {
		return err
	}
	if err := g.put(ctx, r); err != nil {
		return err
	}
	g.wake() // spare ports may run short
	return nil
}

// put saves a route and applies it.
func (g *Gateway) put(ctx context.Context, r Route) error {
	delete(g.settled, r.Port)
	if err := g.files().Save(r); err != nil {
		return err
	}
	g.routes[r.Port] = r
	failpoint.Here("gateway: route saved")
	// Whoever asked may go: a route in force by half would be nobody's work.
	if err := g.settle(context.WithoutCancel(ctx), r.Port); err != nil {
		return err
	}
	failpoint.Here("gateway: route in force")
	return nil
}

// Remove blocks a port, ends all its sessions and forgets its route.
func (g *Gateway) Remove(ctx context.Context, port int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, there := g.routes[port]; !there {
		return nil
	}
	if err := g.ready(ctx); err != nil {
		return err
	}
	return g.remove(ctx, port)
}

func (g *Gateway) remove(ctx context.Context, port int) error {
	if err := g.put(ctx, Route{Cluster: g.routes[port].Cluster, Port: port}); err != nil {
		return err
	}
	if err := g.files().Forget(port); err != nil {
		return err
	}
	delete(g.routes, port)
	delete(g.settled, port)
	return nil
}

// Recorded is a route as it was last set. One that isn't in force in full, because
// HAProxy died or didn't take it, is to be set again.
type Recorded struct {
	Route
	InForce bool
}

// Routes are the routes by port.
func (g *Gateway) Routes(context.Context) ([]Recorded, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]Recorded, 0, len(g.routes))
	for _, port := range slices.Sorted(maps.Keys(g.routes)) {
		list = append(list, Recorded{g.routes[port].Clone(), g.settled[port]})
	}
	return list, nil
}

// Count is how many sessions a port has.
type Count struct{ Primary, Reads int }

// Sessions counts the open sessions of a port, those that wait for a server included.
func (g *Gateway) Sessions(ctx context.Context, port int) (Count, error) {
	counts, err := g.AllSessions(ctx)
	return counts[port], err
}

// AllSessions counts the open sessions of all ports that have any.
func (g *Gateway) AllSessions(ctx context.Context) (map[int]Count, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := map[int]Count{}
	for _, i := range g.living() {
		if err := g.count(ctx, i, counts); err != nil {
			return nil, fmt.Errorf("count sessions: %w", err)
		}
	}
	return counts, nil
}

func (g *Gateway) count(ctx context.Context, i *instance, counts map[int]Count) error {
	r, err := dial(ctx, i.socket)
	if err != nil {
		return err
	}
	defer r.close()
	fronts, err := frontends(r)
	if err != nil {
		return err
	}
	for name, f := range fronts {
		port, _ := portOf(name)
		c := counts[port]
		if name == proxyName(primary, port) {
			c.Primary += f.sessions
		} else {
			c.Reads += f.sessions
		}
		if c != (Count{}) {
			counts[port] = c
		}
	}
	return nil
}

// Ensure makes sure that HAProxy runs and answers.
func (g *Gateway) Ensure(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current != nil && g.current.process.Running() {
		if _, err := g.inspect(ctx, g.current); err != nil && ctx.Err() == nil && g.current.process.Running() {
			g.log.Warn("HAProxy doesn't answer and is replaced", "pid", g.current.process.Pid(), "error", err)
			if err := g.end(g.current); err != nil {
				return err
			}
		}
	}
	return g.ready(ctx)
}

// Changes gets a value when HAProxy was restarted: open sessions were lost. It is a hint.
func (g *Gateway) Changes() <-chan struct{} { return g.changes }

// Close stops looking after HAProxy, which runs on.
func (g *Gateway) Close() {
	g.closing()
	g.running.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave()
}

// leave lets all generations run on unwatched.
func (g *Gateway) leave() {
	for _, i := range g.living() {
		i.process.Leave()
	}
}

// Stop ends HAProxy, and so all sessions. The routes are kept for the next Open.
func (g *Gateway) Stop(ctx context.Context) error {
	g.Close()
	return End(ctx, g.o.Dir, g.o.RunDir)
}
