// Package memplatform runs clusters that exist in memory only, with faults on
// demand: for tests of what drives a platform. It passes platformtest, as the
// real drivers do.
package memplatform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/platform"
)

// Options are what a Driver is made of. All but Secrets have usable zero values.
type Options struct {
	Secrets platform.Secrets
	// Versions are the installed exact versions by "engine/series"; nil means
	// DefaultVersions.
	Versions map[string][]string
	// Keeps has backups be kept in the world, as a platform does that has an archive of its own.
	Keeps bool
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// DefaultVersions has two minors of one PostgreSQL series, so that a patch has
// somewhere to go, and one of MySQL's family.
func DefaultVersions() map[string][]string {
	return map[string][]string{"postgresql/15": {"15.1", "15.2"}, "mysql/10.11": {"10.11.1"}}
}

// World is what outlives a Driver, as processes and folders outlive steward.
type World struct {
	mu       sync.Mutex
	clusters map[cluster.ID]*Cluster
	// kept are the backups that are kept here, by their references.
	kept map[string]kept
}

// NewWorld is an empty one.
func NewWorld() *World { return &World{clusters: map[cluster.ID]*Cluster{}} }

// Cluster is what there is of a cluster. Tests read copies of it.
type Cluster struct {
	ID           cluster.ID
	Port         int
	Installation string
	// Polished reports whether what follows a move to another series was done.
	Polished      bool
	Version       string
	Plan          catalog.Plan
	SSLConnection bool
	Commit        cluster.Commit
	// Size is the number of nodes; 0 means one.
	Size int
	// Restart is the last request to restart that was carried out.
	Restart int64
	// Running reports whether the server processes are up but for those of Lost
	// nodes, Bootstrapped that they have the cluster's own passwords.
	Running      bool
	Bootstrapped bool
	// Suspended reports whether nothing runs because that was asked for.
	Suspended bool
	// SleepingSince is since when nothing runs because nobody needs it, WokenFor what it
	// was last needed for.
	SleepingSince time.Time
	WokenFor      string
	// Primary is the ordinal of the node that takes the writes.
	Primary int
	Lost    [3]bool
	// Failovers counts the changes of the primary.
	Failovers      int
	LastFailover   time.Time
	FailoverReason string
	LastChange     cluster.PrimaryChange
	// Password is the one dbadmin logs in with.
	Password string
	// Routed reports whether the gateway lets AllowList through.
	Routed    bool
	AllowList cluster.AllowList
	ReadOnly  bool
	UsedBytes int64
	Restarts  int
	Started   time.Time
	// Starts counts how often the server was started: restarts that a change
	// didn't need show here.
	Starts int
	// Data stands for what is in its tables; Aside is what the last restore
	// replaced.
	Data  string
	Aside *Content
	// Undone reports whether the last restore was undone.
	Undone bool
	// Token is that of the last restore.
	Token string
	// Recovered is the moment that the last restore went on to; nil for the backup's own.
	Recovered *time.Time
	// Unarchived are files that wait to be archived, by name; Overflowed reports that some
	// were dropped.
	Unarchived map[string]string
	Overflowed bool
	// Broken is why the server can't be started, "" when it can.
	Broken string
	// Inside is what a look into it finds.
	Inside Inside
	// Tasks wait for a patch, beside a newer version.
	Tasks []cluster.Task
}

// Driver is a platform.Driver over a World.
type Driver struct {
	world   *World
	o       Options
	faults  faults
	changes chan cluster.ID
	// installing guards the versions.
	installing sync.Mutex
}

var _ platform.Driver = (*Driver)(nil)

// New is a driver that finds whatever the world holds.
func New(world *World, o Options) *Driver {
	if o.Versions == nil {
		o.Versions = DefaultVersions()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Driver{world: world, o: o, changes: make(chan cluster.ID, 1024)}
}

// Apply implements platform.Driver.
func (d *Driver) Apply(ctx context.Context, want platform.Wanted) (platform.Observed, error) {
	type work struct {
		step Step
		do   func(context.Context, platform.Wanted) error
	}
	steps := []work{
		{StepFiles, d.files},
		{StepPatch, d.patch},
		{StepConfigure, d.configure},
		{StepStart, d.start},
		{StepBootstrap, d.bootstrap},
		{StepRoute, d.route},
	}
	if want.Suspended {
		steps = []work{{StepStop, d.stop}}
	}
	for _, s := range steps {
		err := d.faults.around(ctx, s.step, want.ID, func() error { return s.do(ctx, want) })
		if p, ok := errors.AsType[*permanent](err); ok {
			seen := d.look(want.ID)
			seen.Problem, seen.Permanent, seen.Settled = p.problem, true, false
			return seen, nil
		}
		if err != nil {
			return d.look(want.ID), fmt.Errorf("%s of cluster %d: %w", s.step, want.ID, err)
		}
	}
	return d.look(want.ID), nil
}

// Observe implements platform.Driver.
func (d *Driver) Observe(ctx context.Context, id cluster.ID) (platform.Observed, error) {
	if err := d.faults.around(ctx, StepObserve, id, func() error { return nil }); err != nil {
		return platform.Observed{}, fmt.Errorf("observe cluster %d: %w", id, err)
	}
	return d.look(id), nil
}

// Pending implements platform.Driver.
func (d *Driver) Pending(_ context.Context, want platform.Wanted) ([]cluster.Task, error) {
	c, ok := d.world.Cluster(want.ID)
	if !ok || !c.Bootstrapped {
		return nil, nil
	}
	tasks := slices.Clone(c.Tasks)
	if _, version, err := d.installation(want, true); err == nil && version != c.Version {
		tasks = append(tasks, cluster.Task{Kind: cluster.TaskUpdate, From: c.Version, To: version})
	}
	return tasks, nil
}

// Install makes a version of a series, such as "postgresql/15", available.
func (d *Driver) Install(series, version string) {
	d.installing.Lock()
	defer d.installing.Unlock()
	versions := maps.Clone(d.o.Versions)
	versions[series] = append(slices.Clone(versions[series]), version)
	d.o.Versions = versions
}

// Remove implements platform.Driver.
func (d *Driver) Remove(ctx context.Context, want cluster.Cluster) error {
	return d.faults.around(ctx, StepRemove, want.ID, func() error {
		d.world.mu.Lock()
		defer d.world.mu.Unlock()
		delete(d.world.clusters, want.ID)
		return nil
	})
}

// SetPassword implements platform.Driver.
func (d *Driver) SetPassword(ctx context.Context, want platform.Wanted) error {
	return d.faults.around(ctx, StepPassword, want.ID, func() error {
		password, err := d.o.Secrets.Secret(ctx, want.ID, platform.RootPassword)
		if err != nil {
			return fmt.Errorf("root password: %w", err)
		}
		return d.running(want.ID, func(c *Cluster) { c.Password = string(password) })
	})
}

// SetReadOnly implements platform.Driver.
func (d *Driver) SetReadOnly(ctx context.Context, want platform.Wanted, on bool) error {
	return d.faults.around(ctx, StepReadOnly, want.ID, func() error {
		return d.running(want.ID, func(c *Cluster) { c.ReadOnly = on })
	})
}

// Changes implements platform.Driver.
func (d *Driver) Changes() <-chan cluster.ID { return d.changes }

// Engines implements platform.Driver.
func (d *Driver) Engines() []catalog.Engine {
	var list []catalog.Engine
	for _, id := range slices.Sorted(maps.Keys(d.o.Versions)) {
		name, series, _ := strings.Cut(id, "/")
		e := catalog.Engine{Engine: cluster.Engine(name), Series: series, Disk: func() (total, used int64) { return 2 << 30, 1 << 30 }}
		if e.Engine == cluster.PostgreSQL {
			e.EncryptionMissing = "no encrypted folder"
		}
		e.Upgrades = d.upgradesTo(e)
		list = append(list, e)
	}
	return list
}

// upgradesTo are the builds of all older series.
func (d *Driver) upgradesTo(to catalog.Engine) map[string]string {
	all := map[string]string{}
	for id, versions := range d.o.Versions {
		name, series, _ := strings.Cut(id, "/")
		for _, v := range versions {
			if name == string(to.Engine) && compareVersions(series, to.Series) < 0 {
				all[name+"-"+v+"-memory"] = ""
			}
		}
	}
	return all
}

// Reconcile implements platform.Reconciler.
func (d *Driver) Reconcile(ctx context.Context, known func(context.Context) ([]cluster.Cluster, error)) error {
	there := d.world.IDs()
	rows, err := known(ctx)
	if err != nil {
		return fmt.Errorf("ask for known clusters: %w", err)
	}
	for _, id := range there {
		if slices.ContainsFunc(rows, func(c cluster.Cluster) bool { return c.ID == id }) {
			continue
		}
		if err := d.Remove(ctx, cluster.Cluster{ID: id}); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) files(_ context.Context, want platform.Wanted) error {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	for _, other := range d.world.clusters {
		if other.ID != want.ID && other.Port == want.Port {
			return &permanent{fmt.Sprintf("port %d is used by cluster %d", want.Port, other.ID)}
		}
	}
	if d.world.clusters[want.ID] != nil {
		return nil
	}
	installation, version, err := d.installation(want, false)
	if err != nil {
		return err
	}
	d.world.clusters[want.ID] = &Cluster{
		ID: want.ID, Port: want.Port, Size: want.Size, Installation: installation, Version: version, UsedBytes: 40 << 20,
	}
	return nil
}

func (d *Driver) patch(_ context.Context, want platform.Wanted) error {
	if !want.Patch {
		return nil
	}
	installation, version, err := d.installation(want, true)
	if err != nil {
		return err
	}
	return d.change(want.ID, func(c *Cluster) {
		c.Tasks = nil
		if c.Installation != installation {
			c.Installation, c.Version, c.Running = installation, version, false
		}
	})
}

func (d *Driver) configure(_ context.Context, want platform.Wanted) error {
	return d.change(want.ID, func(c *Cluster) {
		if c.Plan != want.Plan {
			c.Plan, c.Running = want.Plan, false
		}
		if want.Restart != 0 && c.Restart != want.Restart {
			c.Restart, c.Running = want.Restart, false
		}
		if next, ok := c.replica(); ok && want.Switchover != nil && c.Primary == *want.Switchover {
			c.LastChange = cluster.PrimaryChange{From: c.Primary, To: next, Planned: true, Took: 200 * time.Millisecond}
			c.FailoverReason = fmt.Sprintf("Node %d handed its role over to node %d.", c.Primary, next)
			c.Primary, c.LastFailover = next, d.o.Now()
			c.Failovers++
		}
		c.Size, c.SSLConnection, c.Commit, c.ReadOnly = want.Size, want.SSLConnection, want.Commit, want.ReadOnly
	})
}

func (d *Driver) start(_ context.Context, want platform.Wanted) error {
	broken := ""
	err := d.change(want.ID, func(c *Cluster) {
		c.Suspended = false
		if broken = c.Broken; broken == "" && !c.Running {
			c.Running, c.Started = true, d.o.Now()
			c.Starts++
		}
	})
	if broken != "" {
		return &permanent{broken}
	}
	return err
}

func (d *Driver) stop(_ context.Context, want platform.Wanted) error {
	return d.change(want.ID, func(c *Cluster) { c.Running, c.Suspended = false, true })
}

func (d *Driver) bootstrap(ctx context.Context, want platform.Wanted) error {
	if c, ok := d.world.Cluster(want.ID); ok && c.Bootstrapped {
		return nil
	}
	for _, name := range []platform.SecretName{platform.AdminPassword, platform.CACert, platform.CAKey} {
		if _, err := d.o.Secrets.Secret(ctx, want.ID, name); err != nil {
			return fmt.Errorf("secret %s: %w", name, err)
		}
	}
	password, err := d.o.Secrets.Secret(ctx, want.ID, platform.RootPassword)
	if err != nil {
		return fmt.Errorf("secret %s: %w", platform.RootPassword, err)
	}
	return d.running(want.ID, func(c *Cluster) { c.Bootstrapped, c.Password = true, string(password) })
}

func (d *Driver) route(_ context.Context, want platform.Wanted) error {
	return d.change(want.ID, func(c *Cluster) {
		c.Routed, c.AllowList = true, slices.Clone(want.AllowList)
		if want.LockedOut {
			c.AllowList = nil
		}
	})
}

// installation is the one a cluster has or, when it has none or newest is
// asked for, the newest of its series.
func (d *Driver) installation(want platform.Wanted, newest bool) (id, version string, err error) {
	d.installing.Lock()
	versions := d.o.Versions[want.EngineID()]
	d.installing.Unlock()
	if len(versions) == 0 {
		return "", "", &permanent{"no installation of " + want.EngineID() + " is left on this platform"}
	}
	version = slices.MaxFunc(versions, compareVersions)
	if !newest {
		for _, v := range versions {
			if name(want, v) == want.Installation {
				version = v
			}
		}
	}
	return name(want, version), version, nil
}

func name(want platform.Wanted, version string) string {
	return string(want.Engine) + "-" + version + "-memory"
}

func compareVersions(a, b string) int {
	number := func(s string) []int {
		var parts []int
		for p := range strings.SplitSeq(s, ".") {
			n, _ := strconv.Atoi(p)
			parts = append(parts, n)
		}
		return parts
	}
	return cmp.Or(slices.Compare(number(a), number(b)), cmp.Compare(a, b))
}

func (d *Driver) change(id cluster.ID, f func(*Cluster)) error {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	c := d.world.clusters[id]
	if c == nil {
		return fmt.Errorf("cluster %d: %w", id, fault.NewNotFound())
	}
	f(c)
	return nil
}

// running changes a cluster whose server must answer.
func (d *Driver) running(id cluster.ID, f func(*Cluster)) error {
	down := false
	err := d.change(id, func(c *Cluster) {
		if down = !c.Running; !down {
			f(c)
		}
	})
	if err == nil && down {
		err = fmt.Errorf("cluster %d: server isn't running", id)
	}
	return err
}
