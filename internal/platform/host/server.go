package host

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/parameter"
	"steward/internal/platform"
	"steward/internal/platform/host/build"
	"steward/internal/platform/host/state"
	"steward/internal/process"
	"steward/internal/wait"
)

// outputFile is where a server's standard output and error go. It is in a
// folder of steward's own: the server can't turn it into a link.
func outputFile(nodeDir string) string { return filepath.Join(nodeDir, "output.log") }

// sandboxView is what a server sees beside the system's programs.
func sandboxView(n engine.Node) process.View {
	v := process.View{
		Read:  []string{n.Conf, n.TLS},
		Write: []string{n.Data, n.Log, n.Tmp, n.Run},
	}
	if n.Keys != "" {
		v.Write = append(v.Write, n.Keys)
	}
	i := n.Installation
	programs := []string{i.Home, i.Share, i.PluginDir}
	for _, path := range i.Bin {
		programs = append(programs, filepath.Dir(path))
	}
	if len(i.Loader) > 0 {
		programs = append(programs, filepath.Dir(i.Loader[0]))
	}
	slices.Sort(programs)
	for _, path := range slices.Compact(programs) {
		if path != "" && path != "/usr" && !strings.HasPrefix(path, "/usr/") {
			v.Read = append(v.Read, path)
		}
	}
	return v
}

// spec is how a launch is started. Its output and its pid file are in a folder of steward's own.
func spec(l *state.Launch, id process.Identity, dir string, group process.Group) process.Spec {
	return process.Spec{
		Identity: id, Argv: l.Argv, Env: l.Env, WorkDir: l.WorkDir, User: l.User, Group: l.User,
		Output: outputFile(dir), PidFile: pidFile(dir), Limits: l.Rlimits, Cgroup: group, Sandboxed: l.Sandboxed,
		OOMScore: lastKilled,
	}
}

// lastKilled has the first process of a server be the last to be killed when memory is short: without it all sessions end.
const lastKilled = -900

// startServer starts a node's server as its record says and watches it. The caller
// holds the cluster's lock.
func (d *Driver) startServer(ctx context.Context, cs *clusterState, ns *nodeState, rec *state.Node) error {
	name, dir := nodeName(rec.Cluster, rec.Ordinal), d.layout.node(rec.Cluster, rec.Ordinal)
	group, err := d.groups.Make(name, rec.Launch.Limits)
	if err != nil {
		return err
	}
	failpoint.Here("host: before fork")
	var p *process.Process
	err = d.inNetwork(ctx, rec.Ordinal, rec.Port, func() (err error) {
		p, err = process.Start(spec(rec.Launch, d.identity(rec), dir, group))
		return err
	})
	if err != nil {
		return err
	}
	failpoint.Here("host: after fork")
	ns.setListen(d.launchedAt(rec))
	ns.setProcess(p)
	d.mu.Lock()
	active := d.active
	d.mu.Unlock()
	if active {
		d.spawn(func() { d.watch(cs, ns, p) })
	}
	return nil
}

// watch waits for a server's end. One that nobody asked for is followed by a
// restart, or, of a primary with replicas, by whatever keeps the most.
//
// No process.Supervisor does that: whether and when a server of a cluster starts again isn't decided by its end alone. It may be a
// failover's to decide, room on the disk ends the wait, and reconcilers, who hold the cluster's lock, stop, replace and start it besides.
// The pauses between starts and the wait for an answer are the same.
func (d *Driver) watch(cs *clusterState, ns *nodeState, p *process.Process) {
	select {
	case <-p.Done():
	case <-d.quit.Done():
		return
	}
	if ns.process() != p {
		return // stopped on purpose
	}
	full := d.room(ns) < scarce // before anybody hears of its end, and makes room
	rec, err := state.ReadNode(d.layout.node(ns.id, ns.ordinal))
	pause, words := ns.exited(d.o.Now(), p, func() string {
		if err != nil || rec == nil {
			return noWords
		}
		eng, err := d.engine(rec.Engine)
		if err != nil {
			return noWords
		}
		return lastWords(d.layout.node(ns.id, ns.ordinal), eng)
	})
	if err == nil && rec != nil {
		d.withhold(d.quit, ns.ordinal, rec.Port, 0)
	}
	d.notifyChange(cs.id)
	ns.ended()
	if d.isReplicatedPrimary(ns) {
		d.log.Warn("the primary exited", "cluster_id", cs.id, "node", ns.ordinal, "last_words", words)
		d.recover(cs, ns, p)
		return
	}
	d.log.Warn("server exited; it will be restarted", "cluster_id", cs.id, "node", ns.ordinal, "in", pause, "last_words", words)
	for {
		if d.awaitStart(ns, pause, full) != nil {
			return
		}
		err := d.restart(cs, ns, p)
		if err == nil {
			break
		}
		if d.quit.Err() != nil {
			return
		}
		full = d.room(ns) < scarce
		d.log.Warn("server can't be restarted", "cluster_id", cs.id, "node", ns.ordinal, "error", err)
		pause = ns.crashed(d.o.Now(), 0, err.Error())
		ns.startFailed()
	}
	d.notifyChange(cs.id)
}

// scarce is what a disk has left that a server may have ended for: it can't add a segment to its log. Looks at it are lookForRoom apart.
const (
	scarce      = 16 << 20
	lookForRoom = 250 * time.Millisecond
)

// room is what the disk of a server's data has left, in bytes.
func (d *Driver) room(ns *nodeState) uint64 {
	var disk unix.Statfs_t
	if err := unix.Statfs(d.layout.dataOf(ns.id, ns.ordinal), &disk); err != nil {
		return math.MaxUint64 // who starts it sees why
	}
	return disk.Bavail * uint64(disk.Bsize)
}

// awaitStart waits for a pause before a server is started again, and no longer than until its disk has room, if it was full when the server ended.
func (d *Driver) awaitStart(ns *nodeState, pause time.Duration, full bool) error {
	for left := pause; left > 0; left -= lookForRoom {
		if err := wait.Sleep(d.quit, min(left, lookForRoom)); err != nil {
			return err
		}
		if full && d.room(ns) >= 2*scarce {
			d.log.Info("there is room on a server's disk again; it is started", "cluster_id", ns.id, "node", ns.ordinal)
			ns.startsAnew()
			break
		}
	}
	return d.quit.Err()
}

// isReplicatedPrimary reports whether a node is the primary of a cluster with replicas.
func (d *Driver) isReplicatedPrimary(ns *nodeState) bool {
	top, err := d.topology(ns.id)
	return err == nil && top.Size > 1 && top.Primary == ns.ordinal
}

// restart starts a crashed server as it was last started, unless somebody else
// has dealt with it meanwhile.
func (d *Driver) restart(cs *clusterState, ns *nodeState, crashed *process.Process) error {
	limited, done := context.WithTimeout(d.quit, reconcileTimeout)
	defer done()
	ctx, unlock, err := cs.acquire(limited)
	if err != nil {
		return err
	}
	defer unlock()
	if ns.process() != crashed || ns.isRebuilding() {
		return nil
	}
	rec, err := state.ReadNode(d.layout.node(ns.id, ns.ordinal))
	if err != nil {
		return err
	}
	if rec == nil || rec.Launch == nil || !d.hasData(d.layout.dataOf(ns.id, ns.ordinal)) {
		return nil // Apply deals with it
	}
	if err := d.relaunch(ctx, cs, ns, rec); err != nil {
		return err
	}
	if err := d.followAgain(ctx, ns, rec); err != nil {
		d.log.Warn("restarted replica doesn't follow yet", "cluster_id", cs.id, "node", ns.ordinal, "error", err)
	}
	if err := d.leadBack(ctx, cs, rec.Port); err != nil {
		d.log.Warn("customers aren't led to a restarted server yet", "cluster_id", cs.id, "node", ns.ordinal, "error", err)
	}
	return nil
}

// relaunch starts a server as it was last started and waits for its answer.
func (d *Driver) relaunch(ctx context.Context, cs *clusterState, ns *nodeState, rec *state.Node) error {
	// The dead server's children hold its memory for a moment longer.
	if err := process.KillAll(ctx, d.identity(rec), d.groups.Find(nodeName(ns.id, ns.ordinal))); err != nil {
		return err
	}
	if err := d.startServer(ctx, cs, ns, rec); err != nil {
		return err
	}
	if rec.RestartDue { // this was one
		rec.RestartDue = false
		if err := rec.Write(d.layout.node(ns.id, ns.ordinal), false); err != nil {
			return err
		}
	}
	d.awaitAnswer(ctx, ns, rec)
	return nil
}

// followAgain has a restarted replica follow the primary. A copy that can't is
// replaced later.
func (d *Driver) followAgain(ctx context.Context, ns *nodeState, rec *state.Node) error {
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil || node.Role != cluster.Replica || !ns.running() {
		return err
	}
	if err := ns.follow(ctx, eng, node); errors.Is(err, engine.ErrDiverged) {
		ns.setDiverged(true)
	} else if err != nil {
		return err
	}
	_, err = queryReplicationStatus(ctx, d, ns, eng, node)
	return err
}

// awaitAnswer waits until a restarted server answers, so that whoever is told
// to look finds it serving. Failing that, the sweep sees it later.
func (d *Driver) awaitAnswer(ctx context.Context, ns *nodeState, rec *state.Node) {
	eng, node, err := d.recordedNode(ctx, rec)
	p := ns.process()
	if err != nil || p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err = p.Await(ctx, 10*time.Millisecond, func(ctx context.Context) (bool, error) {
		err := eng.Ping(ctx, node)
		return err == nil, err
	})
	if err == nil {
		ns.answered(d.o.Now())
	}
}

// recordedNode returns a node by its record, enough to query the server.
func (d *Driver) recordedNode(ctx context.Context, rec *state.Node) (engine.Driver, engine.Node, error) {
	eng, err := d.engine(rec.Engine)
	if err != nil {
		return nil, engine.Node{}, err
	}
	top, err := d.topology(rec.Cluster)
	if err != nil {
		return nil, engine.Node{}, err
	}
	n := d.engineNode(d.recordedWanted(rec), d.installation(rec.Installation), top, rec.Ordinal)
	password, err := d.keychain(d.clusterState(rec.Cluster)).secret(ctx, platform.AdminPassword)
	if err != nil {
		return nil, n, err
	}
	n.AdminPassword = string(password)
	return eng, n, nil
}

// recordedWanted returns what a node's record says of what was wanted.
func (d *Driver) recordedWanted(rec *state.Node) platform.Wanted {
	want := platform.Wanted{}
	want.ID, want.Port, want.Engine, want.Encrypted, want.ReadOnly = rec.Cluster, rec.Port, rec.Engine, rec.Encrypted, rec.ReadOnly
	if rec.Applied != nil {
		want.Plan, want.Commit, want.SSLConnection = rec.Applied.Plan, rec.Applied.Commit, rec.Applied.SSLConnection
		config, err := parameter.FromText(rec.Applied.Config)
		if err != nil {
			d.log.Error("a node's record has settings that can't be read", "cluster_id", rec.Cluster, "node", rec.Ordinal, "error", err)
		}
		want.Config = config
	}
	return want
}

// installation finds a build by id; when it is gone, what its id tells.
func (d *Driver) installation(id string) engine.Installation {
	for _, i := range d.Installations() {
		if i.ID() == id {
			return i
		}
	}
	flavour, version, builder, _ := build.Parse(id)
	return engine.Installation{Flavour: flavour, Version: version, Builder: builder}
}
