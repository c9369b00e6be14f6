package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/pgbouncer"
	"steward/internal/platform"
	"steward/internal/platform/host/files"
	"steward/internal/platform/host/state"
	"steward/internal/platform/host/template"
	"steward/internal/platform/host/tool"
	"steward/internal/process"
)

// Driver runs clusters on this machine.
type Driver struct {
	platform.KeepsNone

	o         Options
	log       *slog.Logger
	layout    layout
	scope     string // begins every mark: processes of other data folders aren't ours
	boot      string
	discovery discovery
	notes     []error
	engines   []catalog.Engine
	groups    *process.Groups
	sandbox   *process.Sandbox
	warnings  []string
	activity  activity
	// poolerProgram finds the program that connection pools take, once somebody asks for it: it is run for its version.
	poolerProgram func() (pgbouncer.Program, error)
	tools         tool.Runner
	templates     *template.Pool
	trash         *files.Trash
	changes       chan cluster.ID
	// verifications are those of backups that are under way.
	verifications verifications

	mu       sync.Mutex
	clusters map[cluster.ID]*clusterState
	// byPort are the clusters that connections which wait at a port wake.
	byPort map[int]*clusterState
	sleeps sleepStats

	// comparing is held while a replica is compared with its primary.
	comparing sync.Mutex

	// active is set by Start: only then crashed servers are restarted.
	active  bool
	quit    context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup
}

var _ platform.Driver = (*Driver)(nil)

// New finds engines, sandbox and limits, and the servers that an earlier process
// left running. It changes nothing that runs; Start begins to supervise it.
func New(ctx context.Context, o Options) (*Driver, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("host platform: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.CompareEvery = cmp.Or(o.CompareEvery, defaultCompareEvery)
	o.Minute = cmp.Or(o.Minute, time.Minute)
	o.LookAtSessions = cmp.Or(o.LookAtSessions, min(lookAtSessions, o.Minute))
	o.DiscoverEvery = cmp.Or(o.DiscoverEvery, 5*time.Minute)
	d := &Driver{
		o: o, log: o.Logger, layout: layout{data: o.DataDir, run: o.RunDir, keys: o.KeysDir},
		scope: scopeOf(o.DataDir), changes: make(chan cluster.ID, 256), clusters: map[cluster.ID]*clusterState{},
		byPort: map[int]*clusterState{},
	}
	d.quit, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := errors.Join(d.layout.make(), checkReach(o.DataDir), checkReach(o.RunDir), checkReach(o.KeysDir)); err != nil {
		return nil, fmt.Errorf("host platform: %w", err)
	}
	boot, err := process.BootID()
	if err != nil {
		return nil, fmt.Errorf("host platform: %w", err)
	}
	d.boot = boot
	d.discovery.found, d.notes = o.Installations, nil
	if o.Installations == nil {
		d.discovery.found, d.notes = Discover(ctx, o.Engines, o.EngineFolders)
		d.discovery.at = time.Now()
	}
	d.findIsolation(ctx)
	d.engines = d.describeEngines()
	d.poolerProgram = sync.OnceValues(func() (pgbouncer.Program, error) { return pgbouncer.Find(context.WithoutCancel(ctx)) })
	d.tools = tool.Runner{Mark: tool.Mark(d.scope)}
	d.trash = files.NewTrash(d.layout.trash(), d.activity.quiet, d.log)
	d.templates = template.New(template.Options{
		Dir: d.layout.templates(), Size: o.PoolSize, User: template.User(), Engine: d.templater, Run: d.tools.Run, Installations: d.Installations,
		Discard: d.trash.Put, Busy: d.activity.busy, Quiet: d.activity.quiet, Log: d.log,
	})
	if err := errors.Join(d.adopt(), d.adoptPoolers()); err != nil {
		d.Close()
		return nil, fmt.Errorf("host platform: %w", err)
	}
	return d, nil
}

// scopeOf is a short name for a data folder.
func scopeOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:6])
}

// findIsolation finds out which sandbox and limits are available; Warnings lists what
// is missing.
func (d *Driver) findIsolation(ctx context.Context) {
	root := os.Geteuid() == 0
	if !root {
		d.warnings = append(d.warnings, "not started as root: all database servers run as the same user as steward, who can read and signal all of them")
	}
	var err error
	if d.o.Isolation.Cgroups == "off" {
		d.warnings = append(d.warnings, "control groups are switched off: memory and processor use of databases isn't limited")
	} else if d.groups, err = process.FindGroups("steward-" + d.scope); err != nil {
		d.warnings = append(d.warnings, "memory and processor use of databases isn't limited: "+err.Error())
	} else {
		d.warnings = append(d.warnings, d.groups.Lacks()...)
	}
	uid := 0
	if root {
		uid = d.user(d.o.Ports[0])
	}
	if d.o.Isolation.Bubblewrap == "off" {
		d.warnings = append(d.warnings, "bubblewrap is switched off: database servers see the machine's files as any user does")
	} else if d.sandbox, err = process.FindSandbox(ctx, uid, d.o.RunDir); err != nil {
		d.warnings = append(d.warnings, "database servers see the machine's files as any user does: "+err.Error())
	} else if !d.sandbox.Filters() {
		d.warnings = append(d.warnings, "the kernel, or bubblewrap, doesn't filter system calls: database servers may make them all")
	}
}

// Pools says why clusters can't have connection pools here, nil when they can, and whether their clients can use prepared statements
// while connections are shared.
func (d *Driver) Pools() (prepares bool, missing error) {
	program, missing := d.poolerProgram()
	return program.Prepares(), missing
}

// Warnings returns what protects databases less than it could, for operators.
func (d *Driver) Warnings() []string { return d.warnings }

// Notes are the problems met while looking for installations at the start.
func (d *Driver) Notes() []error { return d.notes }

// Start begins to supervise the servers: crashed ones are restarted, templates
// and clones are made ahead, new builds are found, logs are rotated, trash is emptied.
func (d *Driver) Start() {
	d.adoptNetworks()
	d.withholdAbsent()
	d.noteTopologies()
	d.mu.Lock()
	d.active = true
	all := slices.Collect(maps.Values(d.clusters))
	d.mu.Unlock()
	for _, cs := range all {
		if top, err := d.topology(cs.id); err == nil && top.Size > 1 {
			d.startHealthMonitor(cs)
		}
		for _, ordinal := range cs.ordinals() {
			ns := cs.node(ordinal)
			if p := ns.process(); p != nil {
				d.spawn(func() { d.watch(cs, ns, p) })
			}
		}
	}
	d.spawn(func() { d.templates.KeepReady(d.quit) })
	d.spawn(func() { d.trash.KeepEmpty(d.quit) })
	if g := d.suspendingGateway(); g != nil {
		d.spawn(func() { d.keepSleeping(g) })
	}
	d.superviseAdopted()
	d.spawn(d.endOrphans)
	d.spawn(d.keepUsers)
	d.spawn(d.keepLogsSmall)
	d.spawn(d.keepDiscovering)
}

// endOrphans ends what is left of programs of an earlier process.
func (d *Driver) endOrphans() {
	if err := tool.EndOrphans(d.quit, d.scope); err != nil {
		d.log.Warn("end what an earlier process left", "error", err)
	}
}

// Close ends what New and Start began. All servers run on.
func (d *Driver) Close() {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.workers.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cs := range d.clusters {
		cs.dropMeters()
		if p := cs.pooler.process(); p != nil {
			p.Leave()
		}
		for _, ordinal := range cs.ordinals() {
			if p := cs.node(ordinal).process(); p != nil {
				p.Leave()
			}
		}
	}
}

// Changes implements platform.Driver.
func (d *Driver) Changes() <-chan cluster.ID { return d.changes }

// notifyChange reports that a cluster should be reconciled. The hint may get lost when
// nobody listens.
func (d *Driver) notifyChange(id cluster.ID) {
	select {
	case d.changes <- id:
	default:
	}
}

// adopt finds the servers that run already.
func (d *Driver) adopt() error {
	records, err := d.records()
	if err != nil {
		return fmt.Errorf("look for clusters: %w", err)
	}
	for _, rec := range records {
		d.templates.Use(d.installation(rec.Installation))
		p, err := process.Adopt(pidFile(d.layout.node(rec.Cluster, rec.Ordinal)), d.identity(rec))
		if err != nil {
			return fmt.Errorf("adopt cluster %d: %w", rec.Cluster, err)
		}
		ns := d.clusterState(rec.Cluster).node(rec.Ordinal)
		if p != nil {
			ns.setListen(d.launchedAt(rec))
			ns.setProcess(p)
			d.adoptCaughtUp(ns)
			d.log.Debug("adopted a running server", "cluster_id", rec.Cluster, "node", rec.Ordinal, "pid", p.Pid())
		}
	}
	return nil
}

// records are those of all nodes of this machine. Nodes without a readable one
// are left out: Apply and Reconcile deal with them.
func (d *Driver) records() ([]*state.Node, error) {
	dirs, err := filepath.Glob(filepath.Join(d.layout.clusters(), "*", "node-*"))
	if err != nil {
		return nil, err
	}
	var list []*state.Node
	for _, dir := range dirs {
		if rec, err := state.ReadNode(dir); err == nil && rec != nil {
			list = append(list, rec)
		}
	}
	return list, nil
}

// pidFile tells of the process of a node or a pooler, in its folder.
func pidFile(dir string) string { return filepath.Join(dir, "pid") }

// user is the operating system's user of a cluster, 0 for steward's own. A
// port belongs to one cluster of the machine, so the user does too.
func (d *Driver) user(port int) int {
	if os.Geteuid() != 0 {
		return 0
	}
	return d.o.UIDBase + port
}

// identity says which processes are a node's.
func (d *Driver) identity(rec *state.Node) process.Identity {
	return process.Identity{
		Mark: d.scope + "/" + nodeName(rec.Cluster, rec.Ordinal),
		Dir:  d.layout.node(rec.Cluster, rec.Ordinal),
		UID:  d.user(rec.Port),
	}
}

func (d *Driver) engine(family cluster.Engine) (engine.Driver, error) {
	e := d.o.Engines[family]
	if e == nil {
		return nil, fmt.Errorf("there is no driver for %s", family)
	}
	return e, nil
}

func (d *Driver) templater(family cluster.Engine) (engine.Templater, error) { return d.engine(family) }

// clusterState returns what this process knows of a cluster.
func (d *Driver) clusterState(id cluster.ID) *clusterState {
	d.mu.Lock()
	defer d.mu.Unlock()
	cs := d.clusters[id]
	if cs == nil {
		cs = newClusterState(id)
		d.clusters[id] = cs
	}
	return cs
}

// spawn starts work that Close waits for; none after Close.
func (d *Driver) spawn(work func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.quit.Err() == nil {
		d.workers.Go(work)
	}
}

// hasData reports whether a database lies in a data folder: one that was removed
// under its server may hold what the server has made since.
func (d *Driver) hasData(dir string) bool {
	for _, e := range d.o.Engines {
		if exists(filepath.Join(dir, e.ControlFile())) {
			return true
		}
	}
	return false
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// topology returns the topology of a cluster.
func (d *Driver) topology(id cluster.ID) (state.Topology, error) {
	return state.ReadTopology(d.layout.topology(id))
}

// saveTopology returns when it is on the disk.
func (d *Driver) saveTopology(id cluster.ID, t state.Topology) error {
	if err := files.MakeFolder(d.layout.cluster(id), 0o711, 0, 0); err != nil {
		return fmt.Errorf("write topology: %w", err)
	}
	if err := state.Write(d.layout.topology(id), t); err != nil {
		return err
	}
	d.noteTopology(d.clusterState(id), t)
	return nil
}
