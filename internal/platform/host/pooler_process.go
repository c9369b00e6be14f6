package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine/pgbouncer"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/netns"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

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
	// poolerWeight is its share of busy processors. With that of its one processor it waits for its own server, which waits for it then: it passed on 0.79
	// of what a PgBouncer by hand did, which is in no group, and 0.90 with this (BenchmarkPool).
	poolerWeight = 8
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
		Limits:  process.GroupLimits{MemoryBytes: poolerMemory + int64(l.rec.Clients)*poolerMemoryPerClient, CPUs: 1, Weight: poolerWeight, Processes: 64},
		Rlimits: process.Rlimits{OpenFiles: 65536},
	}
}

func (d *Driver) forkPooler(rec state.Pooler, id cluster.ID) (p *process.Process, err error) {
	group, err := d.groups.Make(poolerName(id), rec.Launch.Limits)
	if err != nil {
		return nil, err
	}
	start := spec(rec.Launch, d.poolerIdentity(id, rec.Port), d.layout.pooler(id), group)
	if d.o.Networks == nil {
		return process.Start(start)
	}
	err = netns.Do(d.o.Networks.Path(d.o.Networks.Number(rec.Port, 0)), func() (err error) {
		p, err = process.Start(start)
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
	err := p.Await(ctx, 5*time.Millisecond, func(ctx context.Context) (bool, error) {
		err := console.Ping(ctx)
		return err == nil, err
	})
	switch {
	case errors.Is(err, process.ErrEnded):
		return fmt.Errorf("the pooler ended while it started: %s", lastPoolerWords(d.layout.pooler(id)))
	case err != nil:
		return fmt.Errorf("the pooler doesn't answer: %w", err)
	}
	return nil
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
		if err := l.endOthers(ctx); err != nil {
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
		return p.Stop(ctx, process.Request{Signal: syscall.SIGTERM, Patience: 5 * time.Second}, group)
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
		p, err := process.Adopt(pidFile(d.layout.pooler(id)), d.poolerIdentity(id, rec.Port))
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
