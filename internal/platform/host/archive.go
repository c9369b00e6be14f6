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

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/platform"
)

var _ platform.Archiver = (*Driver)(nil)

// Backup is part of platform.Archiver. It takes no turn: the cluster goes on
// as ever meanwhile.
func (d *Driver) Backup(ctx context.Context, want platform.Wanted, from cluster.Role, w io.Writer) (platform.Copy, error) {
	u := d.unit(want.ID)
	top, err := d.topology(want.ID)
	if err != nil {
		return platform.Copy{}, err
	}
	ordinal := top.Primary
	if from == cluster.Replica {
		for _, replica := range top.replicas() {
			if u.member(replica).readable() {
				ordinal = replica
				break
			}
		}
	}
	j, err := d.newJob(ctx, u, want, top, ordinal)
	if err != nil {
		return platform.Copy{}, fmt.Errorf("back up cluster %d: %w", want.ID, err)
	}
	if j.rec == nil || !j.m.running() {
		return platform.Copy{}, fmt.Errorf("back up cluster %d: node %d: %w", want.ID, ordinal, errNoServer)
	}
	inst := d.installation(j.rec.Installation)
	j.node.Installation = inst
	failpoint.Here("host: before backup")
	keyring, err := j.writeKeyring(w)
	if err == nil {
		err = asHindrance(j.eng.Backup(ctx, j.node, w, d.pipeAsOwner))
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
func (j *job) writeKeyring(w io.Writer) (int, error) {
	if !j.want.Encrypted {
		return 0, nil
	}
	content, err := j.eng.KeyringContent(j.node)
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
func (j *job) takeKeyring(ctx context.Context, content []byte) error {
	if content == nil {
		return nil
	}
	if err := os.RemoveAll(j.node.Keys); err != nil {
		return fmt.Errorf("remove keys: %w", err)
	}
	if err := j.keys.save(ctx, keyringName(j.m.ordinal), content); err != nil {
		return fmt.Errorf("seal keyring: %w", err)
	}
	j.node.Keyring = content
	return nil
}

// before is where the data goes that a restore replaces.
func (l layout) before(id cluster.ID) string { return filepath.Join(l.cluster(id), "before") }

// restored is where a copy is unpacked: beside the nodes, so that what ends
// their processes doesn't end this.
func (l layout) restored(id cluster.ID) string { return filepath.Join(l.cluster(id), "restored") }

// keepBefore is for how long replaced data is kept once the restored one serves.
const keepBefore = 24 * time.Hour

// Restore is part of platform.Archiver. Up to the moment when the copy lies
// complete beside the data in use, nothing of that is touched.
func (d *Driver) Restore(ctx context.Context, want platform.Wanted, c platform.Copy, r io.Reader, progress func(int64)) error {
	if _, err := d.restore(ctx, want, platform.Source{Copy: c}, &counter{r: r, tell: progress}); err != nil {
		return fmt.Errorf("restore cluster %d: %w", want.ID, err)
	}
	return nil
}

// Fork is part of platform.Archiver: a restore in the place of nothing.
func (d *Driver) Fork(ctx context.Context, want platform.Wanted, from platform.Source, r io.Reader, progress func(int64)) (reached time.Time, err error) {
	err = d.beginFork(want)
	if err == nil {
		reached, err = d.restore(ctx, want, from, &counter{r: r, tell: progress})
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
	top.Members, top.Restoring = max(1, want.Size), true
	if top.Members > 1 {
		top.Replication = want.Replication
	}
	return d.saveTopology(want.ID, top)
}

// restore makes a copy the cluster's data, which is another cluster's when it
// comes with an AdminPassword.
func (d *Driver) restore(ctx context.Context, want platform.Wanted, c platform.Source, r io.Reader) (reached time.Time, err error) {
	u := d.unit(want.ID)
	top, err := d.wantedTopology(want)
	if err != nil {
		return reached, err
	}
	want.Installation = c.Installation
	j, err := d.newJob(ctx, u, want, top, top.Primary)
	if err != nil {
		return reached, err
	}
	if err := j.runWith(c.Installation); err != nil {
		return reached, err
	}
	j.foreign = c.AdminPassword
	keyring, err := readKeyring(c.Copy, r)
	if err != nil {
		return reached, err
	}
	unpacked := d.layout.restored(want.ID)
	if reached, keyring, err = j.bring(ctx, c, keyring, r, unpacked); err != nil {
		return reached, err
	}
	failpoint.Here("host: copy unpacked")
	if err := u.take(ctx); err != nil {
		return reached, err
	}
	defer u.give()
	return reached, j.replace(ctx, unpacked, keyring)
}

// bring makes at dir the data that is to be placed, and returns the keyring that it
// is encrypted with.
func (j *job) bring(ctx context.Context, c platform.Source, keyring []byte, r io.Reader, dir string) (time.Time, []byte, error) {
	if c.Recovery == nil {
		return time.Time{}, keyring, j.unpackWith(ctx, keyring, dir, r)
	}
	if err := j.makeFolders(); err != nil {
		return time.Time{}, nil, err
	}
	return j.d.recoverCopy(ctx, j.want, c, keyring, r, dir)
}

// replace puts what was unpacked in the place of all data, while nobody else acts.
func (j *job) replace(ctx context.Context, unpacked string, keyring []byte) error {
	now, err := j.d.wantedTopology(j.want)
	if err != nil {
		return err
	}
	if now.Primary != j.top.Primary {
		return fmt.Errorf("node %d isn't the primary any more", j.top.Primary)
	}
	if err := j.d.halt(ctx, j.u, j.want, now); err != nil {
		return err
	}
	if err := j.exchange(now, unpacked); err != nil {
		return err
	}
	if err := j.takeKeyring(ctx, keyring); err != nil {
		return err
	}
	return j.beginAnew(ctx)
}

// wantedTopology is that of the cluster, or of what it is to be when nothing of
// it is on this machine.
func (d *Driver) wantedTopology(want platform.Wanted) (topology, error) {
	top, err := d.topology(want.ID)
	if err == nil && want.Size > 1 && !exists(d.layout.topology(want.ID)) {
		top.Members, top.Replication = want.Size, want.Replication
	}
	return top, err
}

// Runs is nil when data that the installation of the id wrote can be run here.
func (d *Driver) Runs(family cluster.Engine, series, id string) error {
	if _, problem := choose(d.Installations(), family, series, id, false); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// runWith makes the job one for the build that wrote a copy, or for a newer one
// of its kind.
func (j *job) runWith(id string) error {
	inst, problem := choose(j.d.Installations(), j.want.Engine, j.want.Series, id, false)
	if problem != "" {
		return errors.New(problem)
	}
	j.inst, j.node.Installation = inst, inst
	return j.render()
}

// unpackWith unpacks with the keyring of the copy, in a folder of its own: the one
// in use may be another, or none.
func (j *job) unpackWith(ctx context.Context, keyring []byte, dir string, r io.Reader) error {
	if keyring == nil {
		return j.unpack(ctx, dir, r)
	}
	own := *j
	own.node.Keyring, own.node.Keys = keyring, j.node.Keys+"-restored"
	if err := os.RemoveAll(own.node.Keys); err != nil {
		return fmt.Errorf("remove keys: %w", err)
	}
	return errors.Join(own.unpack(ctx, dir, r), os.RemoveAll(own.node.Keys))
}

// unpack makes a data folder of a copy, complete and on the disk.
func (j *job) unpack(ctx context.Context, dir string, r io.Reader) error {
	return j.unpackBy(dir, r, func(dir string) error { return j.eng.Unpack(ctx, j.node, r, dir, j.d.pipeAsOwner) })
}

func (j *job) unpackBy(dir string, r io.Reader, by func(dir string) error) error {
	if err := j.makeFolders(); err != nil {
		return err
	}
	// Programs that prepare a copy read the configuration. What lies in the data
	// folder is of the data in use.
	outside := func(f engine.File) bool { return !strings.HasPrefix(f.Path, j.node.Data+"/") }
	if err := j.writeThose(outside); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove an older copy: %w", err)
	}
	user := j.d.user(j.want.Port)
	if err := makeFolder(dir, 0o700, user, user); err != nil {
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
	return syncAll(dir)
}

// halt ends all servers and turns customers away, without a word of failure.
func (d *Driver) halt(ctx context.Context, u *unit, want platform.Wanted, top topology) error {
	if err := d.o.Gateway.Set(ctx, gateway.Route{Cluster: want.ID, Port: want.Port}); err != nil {
		return err
	}
	for ordinal := range top.Members {
		j := &job{d: d, u: u, m: u.member(ordinal), want: want, top: top}
		if err := j.killAll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// exchange sets the data in use aside and puts the copy in its place. What an
// earlier try put there is no customer's: then what was set aside stays. Where a
// fork begins there is nothing of a customer's at all.
func (j *job) exchange(top topology, unpacked string) error {
	before := j.d.layout.before(j.want.ID)
	if !top.Restoring {
		if err := j.d.trash.put(before); err != nil {
			return err
		}
		if err := makeFolder(before, 0o711, 0, 0); err != nil {
			return err
		}
		top.Restoring = true
		if err := j.d.saveTopology(j.want.ID, top); err != nil {
			return err
		}
	}
	failpoint.Here("host: before setting data aside")
	if aside := filepath.Join(before, "data"); j.foreign != "" || exists(aside) {
		if err := j.d.trash.put(j.node.Data); err != nil {
			return err
		}
	} else if err := j.setAside(aside); err != nil {
		return err
	}
	failpoint.Here("host: data set aside")
	if err := os.Rename(unpacked, j.node.Data); err != nil {
		return fmt.Errorf("put the copy in place: %w", err)
	}
	settings := j.settings()
	j.rec = &record{
		Cluster: j.want.ID, Ordinal: j.m.ordinal, Engine: j.want.Engine, Port: j.want.Port, Boot: j.d.boot,
		Installation: j.inst.ID(), Encrypted: j.want.Encrypted, Bootstrapped: j.foreign == "", Applied: &settings,
	}
	j.top = top
	return j.save(true)
}

// setAside moves the data in use, and its record, away; there may be none.
func (j *job) setAside(aside string) error {
	if !exists(j.node.Data) {
		return nil
	}
	if j.rec != nil {
		if err := j.rec.write(filepath.Dir(aside), true); err != nil {
			return err
		}
	}
	if err := os.Rename(j.node.Data, aside); err != nil {
		return fmt.Errorf("set the data aside: %w", err)
	}
	return syncFolder(filepath.Dir(aside))
}

// beginAnew starts the primary on its new data; replicas follow with copies of it.
func (j *job) beginAnew(ctx context.Context) error {
	if err := errors.Join(j.forsakeReplicas(), j.clearSpools()); err != nil {
		return err
	}
	steps := []step{stepFiles, stepStart, stepReady}
	due, err := j.certificateDue(ctx)
	if err != nil {
		return err
	}
	if due {
		steps = append([]step{stepCertificate}, steps...)
	}
	if j.foreign != "" {
		j.node.TemplatePassword = j.foreign
		steps = append(steps, stepResetRoot, stepBootstrap)
	}
	if j.top.Members > 1 {
		steps = append(steps, stepRole)
	}
	for _, s := range steps {
		if err := j.take(ctx, s); err != nil {
			return err
		}
	}
	j.top.Restoring = false
	if err := j.d.saveTopology(j.want.ID, j.top); err != nil {
		return err
	}
	failpoint.Here("host: restored data serves")
	return nil
}

// forsakeReplicas throws the replicas' data away: it is that of another history.
func (j *job) forsakeReplicas() error {
	for _, ordinal := range j.top.replicas() {
		dir := j.d.layout.node(j.want.ID, ordinal)
		if err := j.d.trash.put(filepath.Join(dir, "data")); err != nil {
			return err
		}
		if err := os.Remove(recordFile(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forget node %d: %w", ordinal, err)
		}
	}
	return nil
}

// Undo is part of platform.Archiver.
func (d *Driver) Undo(ctx context.Context, want platform.Wanted) error {
	if err := d.undo(ctx, want); err != nil {
		return fmt.Errorf("undo the restore of cluster %d: %w", want.ID, err)
	}
	return nil
}

func (d *Driver) undo(ctx context.Context, want platform.Wanted) error {
	u := d.unit(want.ID)
	if err := u.take(ctx); err != nil {
		return err
	}
	defer u.give()
	top, err := d.topology(want.ID)
	if err != nil {
		return err
	}
	before := d.layout.before(want.ID)
	rec, err := readRecord(before)
	if err != nil {
		return err
	}
	if rec == nil || !exists(filepath.Join(before, "data")) {
		return errors.New("no data was set aside, or it is more than a day old")
	}
	want.Installation = rec.Installation
	j, err := d.newJob(ctx, u, want, top, top.Primary)
	if err != nil {
		return err
	}
	if err := j.runWith(rec.Installation); err != nil {
		return err
	}
	if err := d.halt(ctx, u, want, top); err != nil {
		return err
	}
	if err := d.trash.put(j.node.Data); err != nil {
		return err
	}
	failpoint.Here("host: before bringing data back")
	rec.Ordinal = top.Primary
	j.rec = rec
	if err := j.save(true); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(before, "data"), j.node.Data); err != nil {
		return fmt.Errorf("bring the data back: %w", err)
	}
	if err := j.beginAnew(ctx); err != nil {
		return err
	}
	return d.trash.put(before)
}

// dropBefore throws away what restores have set aside long ago.
func (d *Driver) dropBefore() error {
	dirs, err := filepath.Glob(filepath.Join(d.layout.clusters(), "*", "before"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || d.o.Now().Sub(info.ModTime()) < keepBefore {
			continue
		}
		errs = append(errs, d.trash.put(dir))
	}
	return errors.Join(errs...)
}

// counter tells how much was read.
type counter struct {
	r    io.Reader
	n    int64
	tell func(int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.tell != nil {
		c.tell(c.n)
	}
	return n, err
}
