package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/cluster"
	"steward/internal/durable"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/host/build"
	"steward/internal/platform/host/files"
	"steward/internal/platform/host/plan"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// upgradeDir is where a copy of the data is moved to another series: beside the nodes, so that what ends their processes doesn't end this.
func (l layout) upgradeDir(id cluster.ID) string { return filepath.Join(l.cluster(id), "upgrade") }

// wokenForUpgrade is what a cluster is woken for.
const wokenForUpgrade = "an upgrade"

// dataUpgrade moves a copy of a node's data to another installation. Who uses it holds what keeps others from using dir.
type dataUpgrade struct {
	d *Driver
	// before is the node with the installation that the data is of, after with the one that it is moved to.
	before, after engine.Node
	eng           engine.Driver
	// dir holds all that it makes, user is the user of the servers.
	dir  string
	user int
	mark string
}

// The folders in dataUpgrade.dir: the copy, what becomes of it, and where programs work.
func (m *dataUpgrade) old() string   { return filepath.Join(m.dir, "old") }
func (m *dataUpgrade) moved() string { return filepath.Join(m.dir, "new") }
func (m *dataUpgrade) work() string  { return filepath.Join(m.dir, "work") }

// begin ends what a crash left, and makes the folders anew, but for the copy.
func (m *dataUpgrade) begin(ctx context.Context) error {
	if err := process.KillAll(ctx, process.Identity{Mark: m.mark, Dir: m.dir}, nil); err != nil {
		return err
	}
	if err := files.MakeFolder(m.dir, 0o711, 0, 0); err != nil {
		return err
	}
	for _, dir := range []string{m.moved(), m.work()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what an earlier upgrade made: %w", err)
		}
	}
	for _, dir := range []string{m.old(), m.moved(), m.work()} {
		if err := files.MakeFolder(dir, 0o700, m.user, m.user); err != nil {
			return err
		}
	}
	accounts := fmt.Appendf(nil, "database:x:%[1]d:%[1]d::/nowhere:/bin/false\n", m.user)
	if err := os.WriteFile(m.accounts(), accounts, 0o644); err != nil {
		return fmt.Errorf("write the name of the servers' user: %w", err)
	}
	return m.eng.PrepareUpgrade(ctx, m.after.Installation, m.moved(), m.run)
}

// accounts is the file with the servers' user: initdb and pg_upgrade ask for the name of theirs.
func (m *dataUpgrade) accounts() string { return filepath.Join(m.dir, "passwd") }

// run is an engine.Runner inside the sandbox of the cluster's servers.
func (m *dataUpgrade) run(ctx context.Context, dir string, p engine.Process, stdin []byte) ([]byte, error) {
	before, after := sandboxView(m.before), sandboxView(m.after)
	v := process.View{Read: append(before.Read, after.Read...), Write: []string{m.dir, m.after.Run}} // one folder: files are linked within it
	if m.after.Keys != "" {
		v.Read = append(v.Read, m.after.Keys)
	}
	slices.Sort(v.Read)
	v.Read = slices.Compact(v.Read)
	p.Argv = m.d.sandbox.WrapTool(p.Argv, v, dir, m.accounts())
	tools := m.d.tools
	tools.Mark = m.mark
	return tools.Run(ctx, dir, p, stdin)
}

// copy brings the copy up to date with the data in a folder.
func (m *dataUpgrade) copy(ctx context.Context, from string, live bool) error {
	return engine.RefreshTree(ctx, from, m.old(), m.eng.TracksChanges, live)
}

// move makes the copy the new series' data, complete and on the disk.
func (m *dataUpgrade) move(ctx context.Context) error {
	failpoint.Here("host: before moving data to another series")
	err := m.eng.Upgrade(ctx, engine.Upgrade{
		From: m.before.Installation, To: m.after.Installation, Old: m.old(), New: m.moved(), Run: m.after.Run, Work: m.work(),
		Before: m.before, After: m.after,
	}, m.run)
	if err != nil {
		return err
	}
	failpoint.Here("host: data moved to another series")
	return durable.SyncFileSystem(m.moved())
}

// upgrade is the move of a cluster to another series.
type upgrade struct {
	*dataUpgrade
	cs *clusterState
	// nr is the primary, to be started with the new installation.
	nr *nodeReconciler
	// source is where the customer's data lies: set aside, when a crash came after that.
	source string
}

// Upgrade implements platform.Upgrader.
func (d *Driver) Upgrade(ctx context.Context, want platform.Wanted, pausing func() error) error {
	if err := d.upgrade(ctx, want, pausing); err != nil {
		return fmt.Errorf("move cluster %d to series %s: %w", want.ID, want.Series, err)
	}
	return nil
}

func (d *Driver) upgrade(ctx context.Context, want platform.Wanted, pausing func() error) error {
	cs := d.clusterState(want.ID)
	if err := d.cacheSecrets(ctx, cs, want.Encrypted, max(1, want.Size)); err != nil {
		return err
	}
	done, err := d.use(ctx, cs, wokenForUpgrade)
	if err != nil {
		return err
	}
	defer done()
	u, err := d.newUpgrade(ctx, cs, want)
	if err != nil || u == nil {
		return err
	}
	if err := u.room(); err != nil {
		return err
	}
	if u.nr.ns.running() { // nothing is copied in vain
		if err := u.obstacles(ctx); err != nil {
			return err
		}
	}
	if err := u.begin(ctx); err != nil {
		return uncopied(err)
	}
	failpoint.Here("host: before copying for an upgrade")
	if err := u.copy(ctx, u.source, true); err != nil {
		return uncopied(err)
	}
	if err := durable.SyncFileSystem(u.old()); err != nil { // in the pause little is left to be synced
		return err
	}
	return u.inPlace(ctx, pausing)
}

// newUpgrade is nil when the data is of the series wanted, and serves.
func (d *Driver) newUpgrade(ctx context.Context, cs *clusterState, want platform.Wanted) (*upgrade, error) {
	top, err := d.topology(want.ID)
	if err != nil {
		return nil, err
	}
	aside := d.layout.setAside(want.ID)
	source, recorded := d.layout.dataOf(want.ID, top.Primary), d.layout.node(want.ID, top.Primary)
	if top.Restoring && exists(filepath.Join(aside, "data")) {
		source, recorded = filepath.Join(aside, "data"), aside
	}
	rec, err := state.ReadNode(recorded)
	if err != nil {
		return nil, err
	}
	if rec == nil || !rec.Bootstrapped || !d.hasData(source) {
		return nil, errors.New("there is no data to move")
	}
	from := d.installation(rec.Installation)
	if from.Series == want.Series && !top.Restoring {
		return nil, os.RemoveAll(d.layout.upgradeDir(want.ID))
	}
	nr, err := d.upgradedNode(ctx, cs, want, top, from)
	if err != nil {
		return nil, err
	}
	before := nr.node
	before.Installation = from
	return &upgrade{cs: cs, nr: nr, source: source, dataUpgrade: &dataUpgrade{
		d: d, before: before, after: nr.node, eng: nr.eng, dir: d.layout.upgradeDir(want.ID), user: d.user(want.Port), mark: d.scope + "/" + nodeName(want.ID, top.Primary) + "-upgrade",
	}}, nil
}

// upgradedNode is the primary as it is to be: it waits for no replica until these have the new data.
func (d *Driver) upgradedNode(ctx context.Context, cs *clusterState, want platform.Wanted, top state.Topology, from engine.Installation) (*nodeReconciler, error) {
	to, err := d.upgradeTarget(want, from)
	if err != nil {
		return nil, err
	}
	if top.Size > 1 {
		top.Growing, top.Replication = true, cluster.Asynch
		want.Replication, want.Commit = cluster.Asynch, localCommit(want.Commit)
	}
	nr, err := d.newNodeReconciler(ctx, d.keychain(cs), want, top, top.Primary)
	if err != nil {
		return nil, err
	}
	nr.inst, nr.node.Installation = to, to
	return nr, nr.render()
}

// upgradeTarget is the build that data is moved to.
func (d *Driver) upgradeTarget(want platform.Wanted, from engine.Installation) (engine.Installation, error) {
	eng, err := d.engine(want.Engine)
	if err != nil {
		return engine.Installation{}, err
	}
	to, ok := build.Newest(d.Installations(), want.Engine, want.Series)
	if !ok {
		return to, &platform.NoUpgradeError{Reasons: []string{"The version isn't installed on this server any more."}}
	}
	if from.Series == "" {
		return to, &platform.NoUpgradeError{Reasons: []string{"The build that the data is of isn't installed any more."}, Cause: errors.New(from.ID())}
	}
	missing := eng.UpgradeMissing(from, to)
	if missing == "" {
		missing = d.upgradesMissing()
	}
	if missing == "" && want.Encrypted {
		missing = eng.EncryptionMissing(to)
	}
	if missing != "" {
		return to, &platform.NoUpgradeError{Reasons: []string{missing}}
	}
	return to, nil
}

// upgradesMissing is why no data can be moved here, for customers; "" when it can. Programs that move it run as the servers' users, which
// have no name outside of the sandbox.
func (d *Driver) upgradesMissing() string {
	if d.sandbox == nil && os.Geteuid() == 0 {
		return "New versions need bubblewrap on the server; ask the operator to install it."
	}
	return ""
}

// room is nil when a copy of the data has room on the disk.
func (u *upgrade) room() error {
	var disk unix.Statfs_t
	if err := unix.Statfs(u.d.layout.cluster(u.nr.want.ID), &disk); err != nil {
		return fmt.Errorf("look for room for a copy: %w", err)
	}
	free := int64(disk.Bavail) * disk.Bsize
	need := files.Size(u.source) - files.Size(u.old())
	const spare = 256 << 20
	if free < need+spare {
		return &platform.NoUpgradeError{
			Reasons: []string{noRoom},
			Cause:   fmt.Errorf("%d MB are free, %d MB are needed", free>>20, (need+spare)>>20),
		}
	}
	return nil
}

// inPlace stops the servers, moves the copy and puts it in the place of the data.
func (u *upgrade) inPlace(ctx context.Context, pausing func() error) error {
	ctx, unlock, err := u.cs.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	defer u.d.activity.begin()()
	now, err := u.d.topology(u.nr.want.ID)
	if err != nil {
		return err
	}
	if now.Primary != u.nr.top.Primary || now.Size != u.nr.top.Size {
		return fmt.Errorf("node %d isn't the primary any more", u.nr.top.Primary)
	}
	if !now.Restoring {
		if err := errors.Join(u.serve(ctx), u.obstacles(ctx)); err != nil {
			return err
		}
	}
	if err := pausing(); err != nil {
		return err
	}
	began := time.Now()
	if err := u.stop(ctx, now); err != nil {
		return err
	}
	if err := u.copy(ctx, u.source, false); err != nil {
		return uncopied(err)
	}
	copied := time.Since(began)
	if err := u.writeKeys(); err != nil {
		return err
	}
	if err := u.move(ctx); err != nil {
		return notMoved(err)
	}
	moved := time.Since(began)
	if err := u.replace(ctx, now); err != nil {
		return err
	}
	u.d.log.Info("the cluster is of another series", "cluster_id", u.nr.want.ID, "from", u.before.Installation.ID(), "to", u.after.Installation.ID(),
		"stopped_ms", milliseconds(copied), "moved_ms", milliseconds(moved), "ms", milliseconds(time.Since(began)))
	return u.d.trash.Put(u.dir)
}

// What customers are told of a move that failed for want of room, and of one that failed for a reason that nobody thought of.
const (
	noRoom    = "The server has no room for the copy of the data that an upgrade is made on; the operator has to make some."
	noUpgrade = "The data couldn't be moved to the new version; the operator's log tells why."
)

// writeKeys writes the at-rest keys, which went when the server was stopped, for those that run on the copy.
func (u *upgrade) writeKeys() error {
	dir := u.nr.node.Keys
	if dir == "" {
		return nil
	}
	return u.nr.writeThose(func(f engine.File) bool { return strings.HasPrefix(f.Path, dir+"/") })
}

// notMoved says why the data couldn't be moved.
func notMoved(err error) error {
	refused := &platform.NoUpgradeError{Reasons: []string{noUpgrade}, Cause: err}
	if isFull(err) {
		refused.Reasons = []string{noRoom}
	} else if immovable, ok := errors.AsType[*engine.ImmovableError](err); ok {
		refused.Reasons = immovable.Reasons
	}
	return refused
}

// uncopied says why there is no copy of the data: for want of room nothing comes of another try.
func uncopied(err error) error {
	if isFull(err) {
		return &platform.NoUpgradeError{Reasons: []string{noRoom}, Cause: err}
	}
	return err
}

// isFull reports whether a disk had no room, or a quota was used up: programs that move data say so in words, PostgreSQL
// in others for a page that was written in part (mdextend in its md.c).
func isFull(err error) bool {
	said := strings.ToLower(err.Error())
	return strings.Contains(said, "check free disk space") || slices.ContainsFunc([]syscall.Errno{unix.ENOSPC, unix.EDQUOT}, func(full syscall.Errno) bool {
		return errors.Is(err, full) || strings.Contains(said, full.Error())
	})
}

// serve has the primary run, which an earlier attempt may have stopped: only what is stopped cleanly can be moved.
func (u *upgrade) serve(ctx context.Context) error {
	if u.nr.ns.running() {
		return nil
	}
	cr, err := u.d.newClusterReconciler(u.cs, u.nr.want)
	if err != nil {
		return err
	}
	return cr.run(ctx)
}

// obstacles is nil when nothing of the customer's is known to stand in the way.
func (u *upgrade) obstacles(ctx context.Context) error {
	if !u.nr.ns.running() {
		return errNoServer
	}
	if err := u.nr.checkStoppable(); err != nil {
		return err
	}
	found, err := u.eng.Obstacles(ctx, u.before, u.after.Installation)
	if err == nil && len(found) > 0 {
		err = &platform.NoUpgradeError{Reasons: found}
	}
	return err
}

// stop stops the primary cleanly, and all replicas. Who connects waits, and so do clients of pools.
func (u *upgrade) stop(ctx context.Context, top state.Topology) error {
	if err := u.nr.runStep(ctx, plan.Stop); err != nil {
		return err
	}
	for ordinal := range top.Size {
		other := &nodeReconciler{d: u.d, cs: u.cs, ns: u.cs.node(ordinal), want: u.nr.want, top: top}
		if err := other.killAll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// replace sets the data aside and starts the primary on what became of its copy.
func (u *upgrade) replace(ctx context.Context, now state.Topology) error {
	nr := u.nr
	now.Growing, now.Replication = nr.top.Growing, nr.top.Replication
	if err := nr.swapData(now, u.moved(), ""); err != nil {
		return err
	}
	if err := errors.Join(nr.discardReplicas(), nr.clearArchiveDirs()); err != nil {
		return err
	}
	nr.rec.Upgrading = true
	if err := nr.runWithCertificate(ctx, plan.Files, plan.Start); err != nil {
		return err
	}
	if err := nr.await(ctx, nr.ns.process()); err != nil {
		return err
	}
	if err := nr.eng.AdoptSeries(ctx, nr.node); err != nil {
		return err
	}
	steps := []plan.Step{plan.Ready, plan.Upgrade}
	if nr.top.Size > 1 {
		steps = append(steps, plan.Role)
	}
	if err := nr.runSteps(ctx, steps...); err != nil {
		return err
	}
	if err := nr.endRestoring(); err != nil {
		return err
	}
	failpoint.Here("host: upgraded data serves")
	if err := nr.setRoute(ctx); err != nil {
		return err
	}
	u.d.reconnectPools(ctx, u.cs)
	u.d.leadPools(ctx, u.cs)
	return nil
}

// Abandon implements platform.Upgrader.
func (d *Driver) Abandon(ctx context.Context, want platform.Wanted) error {
	top, err := d.topology(want.ID)
	if err != nil {
		return err
	}
	if top.Restoring && exists(filepath.Join(d.layout.setAside(want.ID), "data")) {
		err = d.Undo(ctx, want)
	} else if top.Restoring { // nothing was touched yet
		top.Restoring = false
		err = d.saveTopology(want.ID, top)
	}
	if err != nil {
		return err
	}
	return d.trash.Put(d.layout.upgradeDir(want.ID))
}

// FinishUpgrade implements platform.Upgrader.
func (d *Driver) FinishUpgrade(ctx context.Context, want platform.Wanted) (string, error) {
	cs := d.clusterState(want.ID)
	done, err := d.use(ctx, cs, wokenForUpgrade)
	if err != nil {
		return "", err
	}
	defer done()
	top, err := d.topology(want.ID)
	if err != nil {
		return "", err
	}
	nr, err := d.newNodeReconciler(ctx, d.keychain(cs), want, top, top.Primary)
	if err != nil {
		return "", err
	}
	if nr.rec == nil || !nr.ns.running() {
		return "", fmt.Errorf("finish the upgrade of cluster %d: %w", want.ID, errNoServer)
	}
	if err := nr.learnRootPassword(ctx); err != nil {
		return "", err
	}
	began := time.Now()
	note, err := nr.eng.FinishUpgrade(ctx, nr.node)
	if err == nil {
		d.log.Debug("upgrade finished", "cluster_id", want.ID, "note", note, "ms", milliseconds(time.Since(began)))
	}
	return note, err
}
