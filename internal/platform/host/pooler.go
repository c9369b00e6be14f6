package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/pgbouncer"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/netns"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
	"steward/internal/process"
	"steward/internal/wait"
)

// A cluster with connection pools has one more process, its pooler. It has a port of its own, from which all else follows as
// it does for nodes: its address in a network of its own, and a user who can neither read a file of the servers' nor signal them.
// pooler.json says what is wanted of it; it is written before anything is done.

// poolerState is what this process knows of a cluster's pooler.
type poolerState struct {
	// mu is held while files, process or console are used.
	mu sync.Mutex
	// users are the verifiers that were last written, nil for none yet.
	users map[string]string
	// files is what the process that runs has read.
	files string

	known sync.Mutex // guards the rest
	rec   *state.Pooler
	read  bool
	proc  *process.Process
	// leave ends the supervision.
	leave context.CancelFunc
}

func (ps *poolerState) process() *process.Process {
	ps.known.Lock()
	defer ps.known.Unlock()
	return ps.proc
}

func (ps *poolerState) setProcess(p *process.Process) {
	ps.known.Lock()
	defer ps.known.Unlock()
	ps.proc = p
}

// forget ends the supervision, and returns the process.
func (ps *poolerState) forget() *process.Process {
	ps.known.Lock()
	defer ps.known.Unlock()
	if ps.leave != nil {
		ps.leave()
	}
	p := ps.proc
	ps.leave, ps.proc = nil, nil
	return p
}

func (ps *poolerState) running() bool {
	p := ps.process()
	return p != nil && p.Running()
}

// pools returns the record of a cluster's pools; nil when it has none.
func (d *Driver) pools(id cluster.ID) (*state.Pooler, error) {
	ps := &d.clusterState(id).pooler
	ps.known.Lock()
	defer ps.known.Unlock()
	if !ps.read {
		rec, found, err := state.Read[state.Pooler](d.layout.poolerRecord(id))
		if err != nil {
			return nil, err
		}
		if ps.read = true; found {
			ps.rec = &rec
		}
	}
	if ps.rec == nil {
		return nil, nil
	}
	copied := *ps.rec
	return &copied, nil
}

// savePools returns when the record is on the disk.
func (d *Driver) savePools(id cluster.ID, rec state.Pooler) error {
	if err := state.Write(d.layout.poolerRecord(id), rec); err != nil {
		return err
	}
	ps := &d.clusterState(id).pooler
	ps.known.Lock()
	defer ps.known.Unlock()
	ps.rec, ps.read = &rec, true
	return nil
}

// clientsPerConnection is how many clients may share a connection that customers have to a server.
const clientsPerConnection = 20

// wantedPools is the record of what is wanted.
func (d *Driver) wantedPools(eng engine.Driver, want platform.Wanted) state.Pooler {
	return state.Pooler{
		Port: want.PoolPort, ClusterPort: want.Port, Pools: want.Pools, TLSOnly: want.SSLConnection,
		Clients: clientsPerConnection * eng.Connections(engine.Node{Plan: want.Plan}),
	}
}

// recordPools puts on record what is wanted, before nodes are looked at: whom they let in follows from it.
func (cr *clusterReconciler) recordPools() error {
	had, err := cr.d.pools(cr.want.ID)
	if err != nil {
		return &permanentError{err.Error()}
	}
	if len(cr.want.Pools) == 0 && had == nil || cr.want.Suspended {
		return nil
	}
	now := cr.d.wantedPools(cr.eng, cr.want)
	if had != nil {
		if now.Launch = had.Launch; now.SameAs(*had) {
			return nil
		}
		now.Port, now.ClusterPort = had.Port, had.ClusterPort // they are for good
	}
	failpoint.Here("host: before recording pools")
	if !exists(cr.d.layout.cluster(cr.want.ID)) {
		return nil // there is no cluster to pool connections of yet
	}
	return cr.d.savePools(cr.want.ID, now)
}

// pool brings the pooler in line with the record.
func (cr *clusterReconciler) pool(ctx context.Context) error {
	rec, err := cr.d.pools(cr.want.ID)
	switch {
	case err != nil || rec == nil:
		return err
	case len(rec.Pools) == 0:
		return cr.d.removePooler(ctx, cr.cs)
	}
	if err := cr.d.ensurePooler(ctx, cr.cs, cr.want.Patch); err != nil {
		return fmt.Errorf("connection pools: %w", err)
	}
	failpoint.Here("host: pooler runs")
	return cr.d.setPoolRoute(ctx, cr.want, *rec)
}

// setPoolRoute lets those in who may connect.
func (d *Driver) setPoolRoute(ctx context.Context, want platform.Wanted, rec state.Pooler) error {
	err := d.o.Gateway.Set(ctx, d.poolRoute(want, rec))
	if taken, ok := errors.AsType[*gateway.PortError](err); ok {
		return &permanentError{taken.Error()}
	}
	failpoint.Here("host: pools are led to")
	return err
}

// poolRoute leads both ends to the pooler.
func (d *Driver) poolRoute(want platform.Wanted, rec state.Pooler) gateway.Route {
	at := d.listenAddress(0, rec.Port)
	r := gateway.Route{
		Cluster: want.ID, Engine: want.Engine, Port: rec.Port, Allow: want.AllowList.Prefixes(),
		Primary: at, Reads: []netip.AddrPort{at}, Connections: rec.Clients,
	}
	if want.LockedOut {
		r.Allow = nil
	}
	return r
}

// ensurePooler has the pooler run, with the files that it should have, and lead to the primary.
func (d *Driver) ensurePooler(ctx context.Context, cs *clusterState, patch bool) error {
	ps := &cs.pooler
	ps.mu.Lock()
	defer ps.mu.Unlock()
	l, err := d.newPoolerLook(ctx, cs)
	if err != nil {
		return err
	}
	program, errProgram := d.poolerProgram()
	if errProgram == nil && patch && ps.running() && l.rec.Launch != nil && l.rec.Launch.Installation != program.Version() {
		if err := d.endPooler(ctx, cs, l.rec); err != nil {
			return err
		}
	}
	if !ps.running() {
		return d.startPooler(ctx, cs, l)
	}
	return d.refreshPooler(ctx, cs, l)
}

// poolerLook is what is known of a pooler and of the primary that it leads to.
type poolerLook struct {
	rec     state.Pooler
	conf    pgbouncer.Config
	primary engine.Node
	eng     engine.Pooled
	console pgbouncer.Console
	secret  string
}

// newPoolerLook asks no server and no store.
func (d *Driver) newPoolerLook(ctx context.Context, cs *clusterState) (*poolerLook, error) {
	rec, err := d.pools(cs.id)
	if err != nil || rec == nil {
		return nil, errors.Join(err, errors.New("there are no pools"))
	}
	top, err := d.topology(cs.id)
	if err != nil {
		return nil, err
	}
	node, err := state.ReadNode(d.layout.node(cs.id, top.Primary))
	if err != nil || node == nil {
		return nil, errors.Join(err, errors.New("the primary isn't set up"))
	}
	eng, primary, err := d.recordedNode(ctx, node)
	if err != nil {
		return nil, err
	}
	pooled, ok := eng.(engine.Pooled)
	if !ok {
		return nil, fmt.Errorf("no connections to %s are pooled", node.Engine)
	}
	secret := consolePassword(primary.AdminPassword)
	return &poolerLook{
		rec: *rec, conf: d.poolerConf(cs.id, *rec, primary), primary: primary, eng: pooled, secret: secret,
		console: pgbouncer.Console{Run: d.layout.runPooler(cs.id), Port: rec.Port, Password: secret},
	}, nil
}

func (d *Driver) poolerConf(id cluster.ID, rec state.Pooler, primary engine.Node) pgbouncer.Config {
	dir := d.layout.pooler(id)
	program, _ := d.poolerProgram() // one that runs goes on when it is uninstalled
	return pgbouncer.Config{
		Program: program, Listen: d.listenAddress(0, rec.Port), Run: d.layout.runPooler(id),
		Conf: filepath.Join(dir, "conf"), Keys: d.layout.keysPooler(id), TLS: filepath.Join(dir, "tls"),
		Server: primary.Listen, TLSToServer: d.o.Networks == nil, TLSOnly: rec.TLSOnly, Clients: rec.Clients, Pools: rec.Pools,
	}
}

// startPooler starts the process and waits until it answers.
func (d *Driver) startPooler(ctx context.Context, cs *clusterState, l *poolerLook) error {
	program, err := d.poolerProgram()
	if err != nil {
		return err
	}
	// What a dead one left still holds its address.
	if err := process.KillAll(ctx, d.poolerIdentity(cs.id, l.rec.Port), d.groups.Find(poolerName(cs.id))); err != nil {
		return err
	}
	if err := d.ensurePoolerNetwork(ctx, l.rec); err != nil {
		return err
	}
	digest, err := d.writePooler(cs.id, l)
	if err != nil {
		return err
	}
	if err := d.writeUsers(ctx, cs, l); err != nil {
		return err
	}
	l.rec.Launch = d.poolerLaunch(l, program)
	if err := d.savePools(cs.id, l.rec); err != nil {
		return err
	}
	failpoint.Here("host: before forking a pooler")
	p, err := d.forkPooler(l.rec, cs.id)
	if err != nil {
		return err
	}
	failpoint.Here("host: after forking a pooler")
	d.keepPooler(cs, p)
	cs.pooler.files = digest
	return d.awaitPooler(ctx, cs.id, l.console, p)
}

// ensurePoolerNetwork makes the pooler's network, which reaches the nodes of its cluster and nothing else.
func (d *Driver) ensurePoolerNetwork(ctx context.Context, rec state.Pooler) error {
	if d.o.Networks == nil {
		return nil
	}
	n := netns.Node{Number: d.o.Networks.Number(rec.Port, 0), Port: rec.ClusterPort}
	for ordinal := range state.MaxNodes {
		n.Peers = append(n.Peers, d.o.Networks.Number(rec.ClusterPort, ordinal))
	}
	return d.o.Networks.Ensure(ctx, n)
}

// poolerMemory bounds what a pooler takes beside its cluster's plan: so much for itself, and for each client, TLS included.
const (
	poolerMemory          = 64 << 20
	poolerMemoryPerClient = 100 << 10
)

func (d *Driver) poolerLaunch(l *poolerLook, program pgbouncer.Program) *state.Launch {
	c := l.conf
	c.Program = program
	view := process.View{Read: []string{c.Conf, c.TLS, c.Keys}, Write: []string{c.Run}}
	if dir := filepath.Dir(program.Path); len(dir) < 5 || dir[:5] != "/usr/" && dir != "/bin" && dir != "/sbin" {
		view.Read = append(view.Read, dir)
	}
	return &state.Launch{
		Installation: program.Version(), Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}, WorkDir: c.Run, User: d.user(l.rec.Port),
		Argv: d.sandbox.Wrap(c.Argv(), view, c.Run), Sandboxed: d.sandbox != nil, Listen: c.Listen,
		Limits:  process.GroupLimits{MemoryBytes: poolerMemory + int64(l.rec.Clients)*poolerMemoryPerClient, CPUs: 1, Processes: 64},
		Rlimits: process.Rlimits{OpenFiles: 65536},
	}
}

func (d *Driver) forkPooler(rec state.Pooler, id cluster.ID) (p *process.Process, err error) {
	group, err := d.groups.Make(poolerName(id), rec.Launch.Limits)
	if err != nil {
		return nil, err
	}
	spec := process.Spec{
		Identity: d.poolerIdentity(id, rec.Port),
		Argv:     rec.Launch.Argv, Env: rec.Launch.Env, WorkDir: rec.Launch.WorkDir, User: rec.Launch.User, Group: rec.Launch.User,
		Output: outputFile(d.layout.pooler(id)), PidFile: filepath.Join(d.layout.pooler(id), "pid"),
		Limits: rec.Launch.Rlimits, OOMScore: -900, Cgroup: group, Sandboxed: rec.Launch.Sandboxed,
	}
	if d.o.Networks == nil {
		return process.Start(spec)
	}
	err = netns.Do(d.o.Networks.Path(d.o.Networks.Number(rec.Port, 0)), func() (err error) {
		p, err = process.Start(spec)
		return err
	})
	return p, err
}

func (d *Driver) poolerIdentity(id cluster.ID, port int) process.Identity {
	uid := 0
	if port != 0 {
		uid = d.user(port)
	}
	return process.Identity{Mark: d.scope + "/" + poolerName(id), Dir: d.layout.runPooler(id), UID: uid}
}

// awaitPooler waits until the process answers.
func (d *Driver) awaitPooler(ctx context.Context, id cluster.ID, console pgbouncer.Console, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := console.Ping(ctx)
		if err == nil {
			return nil
		}
		if !p.Running() {
			return fmt.Errorf("the pooler ended while it started: %s", lastPoolerWords(d.layout.pooler(id)))
		}
		if wait.Sleep(ctx, 5*time.Millisecond) != nil {
			return fmt.Errorf("the pooler doesn't answer: %w", err)
		}
	}
}

// refreshPooler has a pooler that runs read what changed, and go on if it was paused.
func (d *Driver) refreshPooler(ctx context.Context, cs *clusterState, l *poolerLook) error {
	if err := d.ensurePoolerNetwork(ctx, l.rec); err != nil {
		return err
	}
	digest, err := d.writePooler(cs.id, l)
	if err != nil {
		return err
	}
	if digest != cs.pooler.files {
		failpoint.Here("host: before reloading a pooler")
		if err := l.console.Reload(ctx); err != nil {
			return err
		}
		cs.pooler.files = digest
	}
	if limits := d.poolerLaunch(l, pgbouncer.Program{}).Limits; l.rec.Launch != nil && l.rec.Launch.Limits != limits {
		if _, err := d.groups.Make(poolerName(cs.id), limits); err != nil {
			return err
		}
		l.rec.Launch.Limits = limits
		if err := d.savePools(cs.id, l.rec); err != nil {
			return err
		}
	}
	return l.resume(ctx)
}

// keepPooler supervises a process from now on.
func (d *Driver) keepPooler(cs *clusterState, p *process.Process) {
	ps := &cs.pooler
	ps.known.Lock()
	ps.proc = p
	if ps.leave != nil {
		ps.known.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(d.quit)
	ps.leave = cancel
	ps.known.Unlock()
	s := process.Supervisor{
		Name: "pooler " + poolerName(cs.id), Logger: d.log, Output: outputFile(d.layout.pooler(cs.id)),
		OutputMost: logMost, OutputKeep: logFiles, OutputEvery: 5 * time.Second,
		Ended: func() <-chan struct{} {
			if p := ps.process(); p != nil {
				return p.Done()
			}
			return make(chan struct{}) // none is wanted
		},
		Restart: func(ctx context.Context) error {
			defer d.notifyChange(cs.id)
			return d.restartPooler(ctx, cs)
		},
	}
	d.spawn(func() { s.Run(ctx) })
}

// restartPooler starts a pooler that ended by itself.
func (d *Driver) restartPooler(ctx context.Context, cs *clusterState) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	ps := &cs.pooler
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.process(); p == nil || p.Running() {
		return nil // somebody else dealt with it
	}
	l, err := d.newPoolerLook(ctx, cs)
	if err != nil {
		return err
	}
	return d.startPooler(ctx, cs, l)
}

// endPooler ends the process; files stay. The caller holds the pooler.
func (d *Driver) endPooler(ctx context.Context, cs *clusterState, rec state.Pooler) error {
	p := cs.pooler.forget() // its end is no crash
	group := d.groups.Find(poolerName(cs.id))
	if p != nil && p.Running() {
		return p.Stop(ctx, syscall.SIGTERM, 5*time.Second, group)
	}
	return process.KillAll(ctx, d.poolerIdentity(cs.id, rec.Port), group)
}

// stopPooler ends a cluster's pooler and closes its port, until it is wanted again.
func (d *Driver) stopPooler(ctx context.Context, cs *clusterState) error {
	rec, err := d.pools(cs.id)
	if err != nil || rec == nil {
		return err
	}
	if err := d.o.Gateway.Set(ctx, gateway.Route{Cluster: cs.id, Port: rec.Port}); err != nil {
		return err
	}
	cs.pooler.mu.Lock()
	defer cs.pooler.mu.Unlock()
	return d.endPooler(ctx, cs, *rec)
}

// stopPoolers ends all poolers; servers and records stay.
func (d *Driver) stopPoolers(ctx context.Context) error {
	var errs []error
	for _, cs := range d.all() {
		rec, err := d.pools(cs.id)
		if err != nil || rec == nil {
			continue // what isn't on record is an orphan
		}
		cs.pooler.mu.Lock()
		err = d.endPooler(ctx, cs, *rec)
		if group := d.groups.Find(poolerName(cs.id)); err == nil && group != nil {
			err = group.Remove(ctx)
		}
		cs.pooler.mu.Unlock()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removePooler takes everything away of a cluster's pools; the record goes last.
func (d *Driver) removePooler(ctx context.Context, cs *clusterState) error {
	rec, err := d.pools(cs.id)
	if err != nil {
		rec = nil // a torn record: what is left is found by its name
	}
	if rec == nil {
		rec = &state.Pooler{}
	}
	failpoint.Here("host: before removing a pooler")
	if rec.Port != 0 {
		if err := d.o.Gateway.Remove(ctx, rec.Port); err != nil {
			return err
		}
	}
	ps := &cs.pooler
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if err := d.endPooler(ctx, cs, *rec); err != nil {
		return err
	}
	ps.users, ps.files = nil, ""
	if group := d.groups.Find(poolerName(cs.id)); group != nil {
		if err := group.Remove(ctx); err != nil {
			return err
		}
	}
	if rec.Port != 0 {
		if err := d.removeNetworks(ctx, rec.Port, 0); err != nil {
			return err
		}
	}
	failpoint.Here("host: before removing a pooler's files")
	for _, path := range []string{d.layout.keysPooler(cs.id), d.layout.runPooler(cs.id), d.layout.pooler(cs.id), d.layout.poolerRecord(cs.id)} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove a pooler's files: %w", err)
		}
	}
	ps.known.Lock()
	defer ps.known.Unlock()
	ps.rec, ps.read = nil, true
	return nil
}

// adoptPoolers finds the poolers that run already.
func (d *Driver) adoptPoolers() error {
	files, err := filepath.Glob(filepath.Join(d.layout.clusters(), "*", filepath.Base(d.layout.poolerRecord(0))))
	if err != nil {
		return err
	}
	for _, file := range files {
		id, ok := clusterOf(filepath.Base(filepath.Dir(file)) + "-" + poolerSuffix)
		if !ok {
			continue
		}
		rec, err := d.pools(id)
		if err != nil || rec == nil {
			d.log.Warn("a cluster's record of pools can't be read", "cluster_id", id, "error", err)
			continue
		}
		p, err := process.Adopt(filepath.Join(d.layout.pooler(id), "pid"), d.poolerIdentity(id, rec.Port))
		if err != nil {
			return fmt.Errorf("adopt the pooler of cluster %d: %w", id, err)
		}
		if p != nil {
			d.clusterState(id).pooler.setProcess(p)
		}
	}
	return nil
}

// superviseAdopted looks after the poolers that were found, and ends what a pause was for that nobody remembers.
func (d *Driver) superviseAdopted() {
	for _, cs := range d.all() {
		rec, err := d.pools(cs.id)
		p := cs.pooler.process()
		if err != nil || rec == nil || p == nil {
			continue
		}
		d.keepPooler(cs, p)
		d.spawn(func() {
			if err := d.adoptPoolerNetwork(*rec, p.Pid()); err != nil {
				d.log.Warn("a pooler's network isn't what it should be", "cluster_id", cs.id, "error", err)
			}
			if _, unlock, ok := cs.tryAcquire(d.quit); ok { // whoever holds it sees to it
				d.resumePools(d.quit, cs)
				unlock()
			}
		})
	}
}

func (d *Driver) adoptPoolerNetwork(rec state.Pooler, pid int) error {
	if d.o.Networks == nil || !rec.Launch.Networked() {
		return nil
	}
	if err := d.o.Networks.Keep(d.o.Networks.Number(rec.Port, 0), pid); err != nil {
		return err
	}
	return d.ensurePoolerNetwork(d.quit, rec)
}

// poolsSettled reports whether the pooler does what is on record, and that is what is wanted, if that is told.
func (d *Driver) poolsSettled(ctx context.Context, cs *clusterState, want *platform.Wanted) bool {
	rec, err := d.pools(cs.id)
	if err != nil {
		return false
	}
	if rec == nil || len(rec.Pools) == 0 {
		return rec == nil && (want == nil || len(want.Pools) == 0)
	}
	if !cs.pooler.running() {
		return false
	}
	routes, err := d.o.Gateway.Routes(ctx)
	at := d.listenAddress(0, rec.Port)
	led := slices.ContainsFunc(routes, func(r gateway.Recorded) bool {
		return r.Port == rec.Port && r.Cluster == cs.id && r.InForce && r.Primary == at
	})
	if err != nil || !led || want == nil {
		return err == nil && led
	}
	eng, err := d.engine(want.Engine)
	return err == nil && d.wantedPools(eng, *want).SameAs(*rec) && hasRoute(routes, d.poolRoute(*want, *rec))
}
