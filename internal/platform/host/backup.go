package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/durable"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/platform"
	"steward/internal/platform/host/build"
	"steward/internal/platform/host/files"
	"steward/internal/platform/host/plan"
	"steward/internal/platform/host/state"
)

// Backup implements platform.Archiver. It doesn't lock the cluster, which goes on
// as usual meanwhile.
func (d *Driver) Backup(ctx context.Context, want platform.Wanted, from cluster.Role, w io.Writer) (platform.Copy, error) {
	cs := d.clusterState(want.ID)
	done, err := d.use(ctx, cs, wokenForBackup)
	if err != nil {
		return platform.Copy{}, err
	}
	defer done()
	top, err := d.topology(want.ID)
	if err != nil {
		return platform.Copy{}, err
	}
	ordinal := top.Primary
	if from == cluster.Replica {
		for _, replica := range top.Replicas() {
			if cs.node(replica).readable() {
				ordinal = replica
				break
			}
		}
	}
	nr, err := d.newNodeReconciler(ctx, d.keychain(cs), want, top, ordinal)
	if err != nil {
		return platform.Copy{}, fmt.Errorf("back up cluster %d: %w", want.ID, err)
	}
	if nr.rec == nil || !nr.ns.running() {
		return platform.Copy{}, fmt.Errorf("back up cluster %d: node %d: %w", want.ID, ordinal, errNoServer)
	}
	inst := d.installation(nr.rec.Installation)
	nr.node.Installation = inst
	failpoint.Here("host: before backup")
	keyring, err := nr.writeKeyring(w)
	if err == nil {
		err = customerError(nr.eng.Backup(ctx, nr.node, w, d.tools.Pipe))
	}
	if errors.Is(err, engine.ErrBlocked) {
		err = fmt.Errorf("%w: %w", platform.ErrBlocked, err)
	}
	if err != nil {
		return platform.Copy{}, fmt.Errorf("back up cluster %d from node %d: %w", want.ID, ordinal, err)
	}
	failpoint.Here("host: after backup")
	return platform.Copy{Installation: inst.ID(), ServerVersion: inst.Version, KeyringBytes: keyring}, nil
}

// writeKeyring puts the keyring before encrypted data: nodes change theirs when
// they are rebuilt, and what is in the archive must be readable then.
func (nr *nodeReconciler) writeKeyring(w io.Writer) (int, error) {
	if !nr.want.Encrypted {
		return 0, nil
	}
	content, err := nr.eng.KeyringContent(nr.node)
	if err != nil {
		return 0, fmt.Errorf("read keyring: %w", err)
	}
	return w.Write(content)
}

// readKeyring takes the keyring off a copy's beginning.
func readKeyring(c platform.Copy, r io.Reader) ([]byte, error) {
	const most = 1 << 20
	if c.KeyringBytes < 0 || c.KeyringBytes > most {
		return nil, fmt.Errorf("a keyring of %d bytes", c.KeyringBytes)
	}
	if c.KeyringBytes == 0 {
		return nil, nil
	}
	content := make([]byte, c.KeyringBytes)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, fmt.Errorf("read the keyring: %w", err)
	}
	return content, nil
}

// takeKeyring makes a keyring the node's, in place of the one it has.
func (nr *nodeReconciler) takeKeyring(ctx context.Context, content []byte) error {
	if content == nil {
		return nil
	}
	if err := os.RemoveAll(nr.node.Keys); err != nil {
		return fmt.Errorf("remove keys: %w", err)
	}
	if err := nr.keys.save(ctx, keyringName(nr.ns.ordinal), content); err != nil {
		return fmt.Errorf("seal keyring: %w", err)
	}
	nr.node.Keyring = content
	return nil
}

// setAside is the directory for the data that a restore replaces.
func (l layout) setAside(id cluster.ID) string { return filepath.Join(l.cluster(id), "before") }

// restored is where a copy is unpacked: beside the nodes, so that what ends
// their processes doesn't end this.
func (l layout) restored(id cluster.ID) string { return filepath.Join(l.cluster(id), "restored") }

// Restore implements platform.Archiver. Up to the moment when the copy lies
// complete beside the data in use, nothing of that is touched.
func (d *Driver) Restore(ctx context.Context, want platform.Wanted, from platform.Source, r io.Reader, progress func(int64)) (reached time.Time, err error) {
	from.AdminPassword = "" // its own
	if reached, err = d.restore(ctx, want, from, &counter{r: r, progress: progress}); err != nil {
		return reached, fmt.Errorf("restore cluster %d: %w", want.ID, err)
	}
	return reached, nil
}

// Fork implements platform.Archiver: a restore in the place of nothing.
func (d *Driver) Fork(ctx context.Context, want platform.Wanted, from platform.Source, r io.Reader, progress func(int64)) (reached time.Time, err error) {
	err = d.beginFork(want)
	if err == nil {
		reached, err = d.restore(ctx, want, from, &counter{r: r, progress: progress})
	}
	if err != nil {
		return reached, fmt.Errorf("fork into cluster %d: %w", want.ID, err)
	}
	return reached, nil
}

// beginFork puts on record what the cluster is to be, and that nothing may be
// made of it before the copy is in its place.
func (d *Driver) beginFork(want platform.Wanted) error {
	top, err := d.topology(want.ID)
	if err != nil {
		return err
	}
	top.Size, top.Restoring = max(1, want.Size), true
	if top.Size > 1 {
		top.Replication = want.Replication
	}
	return d.saveTopology(want.ID, top)
}

// restore makes a copy the cluster's data, which is another cluster's when it
// comes with an AdminPassword.
func (d *Driver) restore(ctx context.Context, want platform.Wanted, c platform.Source, r io.Reader) (reached time.Time, err error) {
	cs := d.clusterState(want.ID)
	top, err := d.wantedTopology(want)
	if err != nil {
		return reached, err
	}
	want.Installation = c.Installation
	nr, err := d.newNodeReconciler(ctx, d.keychain(cs), want, top, top.Primary)
	if err != nil {
		return reached, err
	}
	if err := nr.runWith(c.Installation); err != nil {
		return reached, err
	}
	nr.foreign = c.AdminPassword
	keyring, err := readKeyring(c.Copy, r)
	if err != nil {
		return reached, err
	}
	unpacked := d.layout.restored(want.ID)
	if reached, keyring, err = nr.prepareRestore(ctx, c, keyring, r, unpacked); err != nil {
		return reached, err
	}
	failpoint.Here("host: copy unpacked")
	if err := cs.lock(ctx); err != nil {
		return reached, err
	}
	defer cs.unlock()
	return reached, nr.installRestored(ctx, unpacked, keyring, c.Token)
}

// prepareRestore makes the data to be installed in dir, and returns the keyring that it
// is encrypted with.
func (nr *nodeReconciler) prepareRestore(ctx context.Context, c platform.Source, keyring []byte, r io.Reader, dir string) (time.Time, []byte, error) {
	if c.Recovery == nil {
		return time.Time{}, keyring, nr.unpackWith(ctx, keyring, dir, r)
	}
	if err := nr.makeFolders(); err != nil {
		return time.Time{}, nil, err
	}
	return nr.d.recoverCopy(ctx, nr.want, c, keyring, r, dir)
}

// installRestored replaces all data by what was unpacked. The caller holds the lock.
func (nr *nodeReconciler) installRestored(ctx context.Context, unpacked string, keyring []byte, token string) error {
	now, err := nr.d.wantedTopology(nr.want)
	if err != nil {
		return err
	}
	if now.Primary != nr.top.Primary {
		return fmt.Errorf("node %d isn't the primary any more", nr.top.Primary)
	}
	if err := nr.d.stopServers(ctx, nr.cs, nr.want, now); err != nil {
		return err
	}
	if err := nr.swapData(now, unpacked, token); err != nil {
		return err
	}
	if err := nr.takeKeyring(ctx, keyring); err != nil {
		return err
	}
	return nr.startRestored(ctx)
}

// wantedTopology is that of the cluster, or of what it is to be when nothing of
// it is on this machine.
func (d *Driver) wantedTopology(want platform.Wanted) (state.Topology, error) {
	top, err := d.topology(want.ID)
	if err == nil && want.Size > 1 && !exists(d.layout.topology(want.ID)) {
		top.Size, top.Replication = want.Size, want.Replication
	}
	return top, err
}

// Runs is nil when data that the installation of the id wrote can be run here.
func (d *Driver) Runs(family cluster.Engine, series, id string) error {
	if _, problem := build.Choose(d.Installations(), family, series, id, false); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// runWith selects the build that wrote a copy, or a newer one of its kind.
func (nr *nodeReconciler) runWith(id string) error {
	inst, problem := build.Choose(nr.d.Installations(), nr.want.Engine, nr.want.Series, id, false)
	if problem != "" {
		return errors.New(problem)
	}
	nr.inst, nr.node.Installation = inst, inst
	return nr.render()
}

// unpackWith unpacks with the keyring of the copy, in a folder of its own: the one
// in use may be another, or none.
func (nr *nodeReconciler) unpackWith(ctx context.Context, keyring []byte, dir string, r io.Reader) error {
	if keyring == nil {
		return nr.unpack(ctx, dir, r)
	}
	own := *nr
	own.node.Keyring, own.node.Keys = keyring, nr.node.Keys+"-restored"
	if err := os.RemoveAll(own.node.Keys); err != nil {
		return fmt.Errorf("remove keys: %w", err)
	}
	return errors.Join(own.unpack(ctx, dir, r), os.RemoveAll(own.node.Keys))
}

// unpack makes a data folder of a copy, complete and on the disk.
func (nr *nodeReconciler) unpack(ctx context.Context, dir string, r io.Reader) error {
	return nr.unpackBy(dir, r, func(dir string) error { return nr.eng.Unpack(ctx, nr.node, r, dir, nr.d.tools.Pipe) })
}

func (nr *nodeReconciler) unpackBy(dir string, r io.Reader, by func(dir string) error) error {
	if err := nr.makeFolders(); err != nil {
		return err
	}
	// Programs that prepare a copy read the configuration. What lies in the data
	// folder is of the data in use.
	outside := func(f engine.File) bool { return !strings.HasPrefix(f.Path, nr.node.Data+"/") }
	if err := nr.writeThose(outside); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove an older copy: %w", err)
	}
	user := nr.d.user(nr.want.Port)
	if err := files.MakeFolder(dir, 0o700, user, user); err != nil {
		return err
	}
	failpoint.Here("host: before unpack")
	if err := by(dir); err != nil {
		return errors.Join(fmt.Errorf("unpack: %w", err), os.RemoveAll(dir))
	}
	// Whatever follows the copy belongs to its checksum.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return errors.Join(fmt.Errorf("read to the end: %w", err), os.RemoveAll(dir))
	}
	return durable.SyncFileSystem(dir)
}

// stopServers closes the gateway and ends all servers, without reporting a failure.
func (d *Driver) stopServers(ctx context.Context, cs *clusterState, want platform.Wanted, top state.Topology) error {
	if err := d.stopPooler(ctx, cs); err != nil {
		return err
	}
	if err := d.o.Gateway.Set(ctx, gateway.Route{Cluster: want.ID, Port: want.Port}); err != nil {
		return err
	}
	for ordinal := range top.Size {
		nr := &nodeReconciler{d: d, cs: cs, ns: cs.node(ordinal), want: want, top: top}
		if err := nr.killAll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// swapData sets the data in use aside and puts the copy in its place. What an
// earlier attempt put there isn't the customer's, not even if it serves: who asked may
// have died before it was noted, and asks again by the same token. Then what was set aside
// stays. A fork has no customer's data to set aside.
func (nr *nodeReconciler) swapData(top state.Topology, unpacked, token string) error {
	before := nr.d.layout.setAside(nr.want.ID)
	again := top.Restoring || token != "" && top.Restored == token
	if !again {
		if err := nr.d.trash.Put(before); err != nil {
			return err
		}
		if err := files.MakeFolder(before, 0o711, 0, 0); err != nil {
			return err
		}
	}
	top.Restoring, top.Restored, top.Undone, top.Asleep = true, token, false, time.Time{}
	if err := nr.d.saveTopology(nr.want.ID, top); err != nil {
		return err
	}
	failpoint.Here("host: before setting data aside")
	if aside := filepath.Join(before, "data"); nr.foreign != "" || exists(aside) {
		if err := nr.d.trash.Put(nr.node.Data); err != nil {
			return err
		}
	} else if err := nr.setAside(aside); err != nil {
		return err
	}
	failpoint.Here("host: data set aside")
	if err := os.Rename(unpacked, nr.node.Data); err != nil {
		return fmt.Errorf("put the copy in place: %w", err)
	}
	settings := nr.settings()
	nr.rec = &state.Node{
		Cluster: nr.want.ID, Ordinal: nr.ns.ordinal, Engine: nr.want.Engine, Port: nr.want.Port, Boot: nr.d.boot,
		Installation: nr.inst.ID(), Encrypted: nr.want.Encrypted, Bootstrapped: nr.foreign == "", Applied: &settings,
	}
	nr.top = top
	return nr.save(true)
}

// setAside moves the data in use, and its record, away; there may be none.
func (nr *nodeReconciler) setAside(aside string) error {
	if !exists(nr.node.Data) {
		return nil
	}
	if nr.rec != nil {
		if err := nr.rec.Write(filepath.Dir(aside), true); err != nil {
			return err
		}
	}
	if err := os.Rename(nr.node.Data, aside); err != nil {
		return fmt.Errorf("set the data aside: %w", err)
	}
	return durable.Sync(filepath.Dir(aside))
}

// startRestored starts the primary on its new data; replicas follow with copies of it.
func (nr *nodeReconciler) startRestored(ctx context.Context) error {
	if err := errors.Join(nr.discardReplicas(), nr.clearArchiveDirs()); err != nil {
		return err
	}
	steps := []plan.Step{plan.Files, plan.Start, plan.Ready}
	if nr.foreign != "" {
		nr.node.TemplatePassword = nr.foreign
		steps = append(steps, plan.ResetRoot, plan.Bootstrap)
	}
	if nr.top.Size > 1 {
		steps = append(steps, plan.Role)
	}
	if err := nr.runWithCertificate(ctx, steps...); err != nil {
		return err
	}
	if err := nr.endRestoring(); err != nil {
		return err
	}
	failpoint.Here("host: restored data serves")
	return nil
}

// endRestoring puts on record that the data that was put in place serves.
func (nr *nodeReconciler) endRestoring() error {
	nr.top.Restoring, nr.top.Asleep = false, time.Time{}
	return nr.d.saveTopology(nr.want.ID, nr.top)
}

// discardReplicas throws the replicas' data away: it is of another timeline.
func (nr *nodeReconciler) discardReplicas() error {
	for _, ordinal := range nr.top.Replicas() {
		dir := nr.d.layout.node(nr.want.ID, ordinal)
		if err := nr.d.trash.Put(filepath.Join(dir, "data")); err != nil {
			return err
		}
		if err := os.Remove(state.NodeFile(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forget node %d: %w", ordinal, err)
		}
	}
	return nil
}

// Undo implements platform.Archiver.
func (d *Driver) Undo(ctx context.Context, want platform.Wanted) error {
	if err := d.undo(ctx, want); err != nil {
		return fmt.Errorf("undo the restore of cluster %d: %w", want.ID, err)
	}
	return nil
}

func (d *Driver) undo(ctx context.Context, want platform.Wanted) error {
	cs := d.clusterState(want.ID)
	if err := cs.lock(ctx); err != nil {
		return err
	}
	defer cs.unlock()
	top, err := d.topology(want.ID)
	if err != nil {
		return err
	}
	before := d.layout.setAside(want.ID)
	rec, err := state.ReadNode(before)
	if err != nil {
		return err
	}
	if rec == nil && top.Undone {
		return nil // an earlier run has come to its end
	}
	if rec == nil {
		return platform.ErrNothingAside
	}
	want.Installation = rec.Installation
	nr, err := d.newNodeReconciler(ctx, d.keychain(cs), want, top, top.Primary)
	if err != nil {
		return err
	}
	if err := nr.runWith(rec.Installation); err != nil {
		return err
	}
	aside := filepath.Join(before, "data")
	if !exists(aside) && !exists(nr.node.Data) {
		return platform.ErrNothingAside
	}
	if err := d.stopServers(ctx, cs, want, top); err != nil {
		return err
	}
	rec.Ordinal = top.Primary
	nr.rec = rec
	if exists(aside) { // else a crash came after that: its record is there, and the data is in its place
		if err := nr.bringBack(aside); err != nil {
			return err
		}
	}
	nr.top.Undone = true
	if err := nr.startRestored(ctx); err != nil {
		return err
	}
	if err := d.trash.Put(before); err != nil {
		return err
	}
	failpoint.Here("host: restore undone")
	return nil
}

// bringBack puts data that was set aside in the place of that in use, with its record.
func (nr *nodeReconciler) bringBack(aside string) error {
	if err := nr.d.trash.Put(nr.node.Data); err != nil {
		return err
	}
	failpoint.Here("host: before bringing data back")
	if err := nr.save(true); err != nil {
		return err
	}
	if err := os.Rename(aside, nr.node.Data); err != nil {
		return fmt.Errorf("bring the data back: %w", err)
	}
	return durable.Sync(filepath.Dir(nr.node.Data))
}

// dropSetAside throws away what restores set aside more than backup.SetAside ago.
func (d *Driver) dropSetAside() error {
	dirs, err := filepath.Glob(filepath.Join(d.layout.clusters(), "*", "before"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || d.o.Now().Sub(info.ModTime()) < backup.SetAside {
			continue
		}
		errs = append(errs, d.trash.Put(dir))
	}
	return errors.Join(errs...)
}

// counter reports how much was read.
type counter struct {
	r        io.Reader
	n        int64
	progress func(int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.progress != nil {
		c.progress(c.n)
	}
	return n, err
}
