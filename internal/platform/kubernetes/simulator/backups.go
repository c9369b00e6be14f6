package simulator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gocloud.dev/blob"

	"steward/internal/platform/kubernetes/barman"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/wait"
)

// Faults are what goes wrong with backups and recoveries, from when they are set.
type Faults struct {
	// BackupFails is the reason of backups that fail, BackupStuck leaves them begun for ever, and BackupVanishes takes their objects away.
	BackupFails    string
	BackupStuck    bool
	BackupVanishes bool
	// BackupWaits is how many passes one isn't begun, and says nothing.
	BackupWaits int
	// ArchiveStuck has no WAL come into the bucket. Backups are said to be completed all the same.
	ArchiveStuck bool
	// RecoveryFails has the Pods of recoveries fail.
	RecoveryFails bool
	// RecoveryStuck has recoveries never begin.
	RecoveryStuck bool
}

// Fail sets what goes wrong from now on; the zero value ends it.
func (op *Operator) Fail(f Faults) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.faults = f
}

// taking is a backup that is under way.
type taking struct{ waited int }

// archiverOf is the plugin of a cluster that archives; nil for none.
func archiverOf(c *cnpg.Cluster) *cnpg.Plugin {
	for i := range c.Spec.Plugins {
		if p := &c.Spec.Plugins[i]; p.Name == cnpg.BarmanPlugin && p.IsWALArchiver != nil && *p.IsWALArchiver {
			return p
		}
	}
	return nil
}

// spool is where servers put the WAL that is to be archived under a name.
func (op *Operator) spool(name string) string { return filepath.Join(op.dir, "spool-"+name) }

// archiving are the settings of servers that archive.
func (op *Operator) archiving(c *cnpg.Cluster) map[string]string {
	p := archiverOf(c)
	if p == nil {
		return nil
	}
	to := filepath.Join(op.spool(p.Parameters[cnpg.ServerName]), "%f")
	return map[string]string{"archive_mode": "on", "archive_command": fmt.Sprintf(`cp "%%p" "%s.part" && mv "%s.part" "%s"`, to, to, to)}
}

// archive brings what servers have spooled to the bucket.
func (op *Operator) archive(ctx context.Context, c *cnpg.Cluster) error {
	p := archiverOf(c)
	if p == nil {
		return nil
	}
	spool := op.spool(p.Parameters[cnpg.ServerName])
	if err := os.MkdirAll(spool, 0o711); err != nil {
		return err
	}
	if err := os.Chown(spool, user(), user()); err != nil {
		return err
	}
	entries, err := os.ReadDir(spool)
	if err != nil || op.faults.ArchiveStuck {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".part") })
	if len(entries) == 0 {
		return nil
	}
	store, err := op.store(ctx, p.Parameters[cnpg.BarmanObjectName])
	if err != nil {
		return err
	}
	defer store.Close()
	for _, e := range entries {
		from := filepath.Join(spool, e.Name())
		if err := put(ctx, store, path.Join(p.Parameters[cnpg.ServerName], barman.SegmentKey(e.Name())), from); err != nil {
			return err
		}
		if err := os.Remove(from); err != nil {
			return err
		}
	}
	return nil
}

// store opens the bucket of an ObjectStore.
func (op *Operator) store(ctx context.Context, name string) (*barman.Store, error) {
	said := &cnpg.ObjectStore{}
	if err := op.o.Client.Get(ctx, client.ObjectKey{Namespace: op.o.Namespace, Name: name}, said); err != nil {
		return nil, err
	}
	o := barman.Options{Destination: said.Spec.Configuration.DestinationPath, Endpoint: said.Spec.Configuration.EndpointURL}
	for ref, into := range map[*cnpg.KeyReference]*string{
		said.Spec.Configuration.S3Credentials.AccessKeyID: &o.AccessKey, said.Spec.Configuration.S3Credentials.SecretAccessKey: &o.SecretKey,
	} {
		var s corev1.Secret
		if err := op.o.Client.Get(ctx, client.ObjectKey{Namespace: op.o.Namespace, Name: ref.Name}, &s); err != nil {
			return nil, err
		}
		*into = string(s.Data[ref.Key])
	}
	return barman.Open(ctx, o)
}

func put(ctx context.Context, s *barman.Store, key, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	return s.Bucket.Upload(ctx, s.Prefix+key, in, &blob.WriterOptions{ContentType: "application/octet-stream"})
}

func get(ctx context.Context, s *barman.Store, key, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	return s.Bucket.Download(ctx, s.Prefix+key, out, nil)
}

// backups takes those that are asked for.
func (op *Operator) backups(ctx context.Context) {
	var all cnpg.BackupList
	if err := op.o.Client.List(ctx, &all, client.InNamespace(op.o.Namespace)); err != nil {
		return // the next pass does
	}
	for i := range all.Items {
		b := &all.Items[i]
		if b.Status.Phase == cnpg.PhaseCompleted || b.Status.Phase == cnpg.PhaseFailed {
			continue
		}
		before := b.Status
		if err := op.back(ctx, b); err != nil {
			b.Status.Phase, b.Status.Error = cnpg.PhaseFailed, err.Error()
		}
		if b.Status != before {
			_ = op.o.Client.Status().Update(ctx, b) // the next pass does
		}
	}
}

// back takes a backup a step further.
func (op *Operator) back(ctx context.Context, b *cnpg.Backup) error {
	t := op.taken[b.Name+string(b.UID)]
	if t == nil {
		t = &taking{}
		op.taken[b.Name+string(b.UID)] = t
	}
	if t.waited++; t.waited <= op.faults.BackupWaits {
		return nil
	}
	if b.Status.Phase != cnpg.PhaseStarted {
		b.Status.Phase, b.Status.StartedAt = cnpg.PhaseStarted, new(metav1.NewTime(op.now()))
		return nil
	}
	switch f := op.faults; {
	case f.BackupFails != "":
		return errors.New(f.BackupFails)
	case f.BackupVanishes:
		return op.o.Client.Delete(ctx, b)
	case f.BackupStuck:
		return nil
	}
	c := &cnpg.Cluster{}
	if err := op.o.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.Cluster.Name}, c); err != nil {
		return err
	}
	all := op.clusters[c.Name]
	p := archiverOf(c)
	switch {
	case b.Spec.Method != cnpg.MethodPlugin || b.Spec.PluginConfiguration.Name != cnpg.BarmanPlugin:
		return errors.New("no such method")
	case c.Annotations[cnpg.HibernationAnnotation] == cnpg.Hibernated:
		return errors.New("cannot backup a hibernated cluster")
	case p == nil:
		return errors.New("cannot proceed with the backup as the cluster has no plugin configured")
	case all == nil || all.primary == 0 || !all.all[all.primary].ready:
		b.Status.Phase = cnpg.PhasePending
		return nil
	}
	return op.copyOut(ctx, b, all.source(b.Spec.Target), p)
}

// source is the instance that a backup is taken from.
func (c *instances) source(target string) *instance {
	if target == cnpg.TargetPreferStandby {
		for serial, i := range c.all {
			if serial != c.primary && i.ready {
				return i
			}
		}
	}
	return c.all[c.primary]
}

// copyOut puts a base backup into the bucket, as barman-cloud-backup does, and says that it is completed.
func (op *Operator) copyOut(ctx context.Context, b *cnpg.Backup, from *instance, p *cnpg.Plugin) error {
	store, err := op.store(ctx, p.Parameters[cnpg.BarmanObjectName])
	if err != nil {
		return err
	}
	defer store.Close()
	dir, err := os.MkdirTemp(op.dir, "base-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	packed := filepath.Join(dir, dataFile)
	begin, end, err := from.dump(ctx, packed)
	if err != nil {
		return err
	}
	folder, id, err := freeID(ctx, store, p.Parameters[cnpg.ServerName])
	if err != nil {
		return err
	}
	if err := put(ctx, store, path.Join(folder, dataFile), packed); err != nil {
		return err
	}
	rows, err := from.sql(ctx, "postgres", enforced)
	if err != nil {
		return err
	}
	var info strings.Builder
	info.WriteString("status=DONE\n")
	for _, row := range rows {
		info.WriteString(row[0] + "\n")
	}
	if err := store.Bucket.WriteAll(ctx, store.Prefix+path.Join(folder, "backup.info"), []byte(info.String()), nil); err != nil {
		return err
	}
	b.Status.Phase, b.Status.StoppedAt = cnpg.PhaseCompleted, new(metav1.NewTime(op.now()))
	b.Status.BackupID, b.Status.BeginWAL, b.Status.EndWAL = id, begin, end
	return nil
}

// freeID is a backup's id as barman gives it, which is a moment, and its folder.
func freeID(ctx context.Context, store *barman.Store, server string) (folder, id string, err error) {
	for at := time.Now().UTC(); ; at = at.Add(time.Second) {
		id = at.Format("20060102T150405")
		folder = path.Join(server, "base", id)
		taken, err := store.Bucket.Exists(ctx, store.Prefix+path.Join(folder, "backup.info"))
		if err != nil || !taken {
			return folder, id, err
		}
	}
}

var startFile = regexp.MustCompile(`START WAL LOCATION: \S+ \(file ([0-9A-F]{24})\)`)

// segmentBytes is the size of a file of WAL (see initialise).
const segmentBytes = 1 << 20

// dataFile is what barman calls the data of a backup that it compresses, here in the way that costs least. Programs of their own do that, as
// in Pods: this process has the race detector look at each byte that it moves.
const (
	dataFile = "data.tar.zst"
	packer   = "--use-compress-program=zstd -q -1"
	unpacker = "--use-compress-program=zstd -q"
)

// dump copies the data of a server that runs, without its WAL.
func (s *server) dump(ctx context.Context, to string) (begin, end string, err error) {
	conn, err := s.session(ctx, "postgres")
	if err != nil {
		return "", "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "SELECT pg_backup_start('barman', true)").ReadAll(); err != nil {
		return "", "", err
	}
	out, err := exec.CommandContext(ctx, "tar", "-C", s.data(), "--exclude=./pg_wal/*", "--exclude=./postmaster.*", "--exclude=./standby.signal",
		"--exclude=./backup_label*", "--exclude=./pg_replslot/*", packer, "-cf", to, ".").CombinedOutput()
	if err != nil && !strings.Contains(string(out), "file changed") && !strings.Contains(string(out), "No such file") {
		return "", "", fmt.Errorf("copy data: %w: %s", err, out)
	}
	results, err := conn.Exec(ctx, "SELECT labelfile, lsn::text FROM pg_backup_stop(false)").ReadAll()
	if err != nil {
		return "", "", err
	}
	label, stop := results[0].Rows[0][0], string(results[0].Rows[0][1])
	found := startFile.FindSubmatch(label)
	if found == nil {
		return "", "", fmt.Errorf("a label without its start: %s", label)
	}
	begin = string(found[1])
	return begin, segmentOf(begin[:8], stop), appendFile(ctx, to, "backup_label", label)
}

// segmentOf is the file of a timeline that ends at a place in the WAL.
func segmentOf(timeline, lsn string) string {
	high, low, _ := strings.Cut(lsn, "/")
	h, _ := strconv.ParseUint(high, 16, 32)
	l, _ := strconv.ParseUint(low, 16, 32)
	number := (h<<32 + l - 1) / segmentBytes
	const each = 1 << 32 / segmentBytes
	return fmt.Sprintf("%s%08X%08X", timeline, number/each, number%each)
}

// appendFile adds a file to a compressed archive, as one more behind it.
func appendFile(ctx context.Context, archive, name string, content []byte) error {
	dir := filepath.Dir(archive)
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		return err
	}
	out, err := os.OpenFile(archive, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, "tar", "-C", dir, packer, "-c", "./"+name)
	cmd.Stdout, cmd.Stderr = out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("add %s: %w: %s", name, err, said.String())
	}
	return nil
}

// ownerOf is the secret with the password of who owns the first database.
func ownerOf(c *cnpg.Cluster) *cnpg.Reference {
	if c.Spec.Bootstrap.Recovery != nil {
		return c.Spec.Bootstrap.Recovery.Secret
	}
	return c.Spec.Bootstrap.InitDB.Secret
}

// recover makes the first instance of a backup, as the operator's job does.
func (op *Operator) recover(ctx context.Context, all *instances, c *cnpg.Cluster, tls map[string][]byte) error {
	if op.faults.RecoveryStuck {
		return nil
	}
	i, err := op.add(ctx, all, c)
	if err != nil {
		return err
	}
	all.last--
	if all.timeline, err = op.recoverInto(ctx, i, c, tls); err != nil {
		i.stop(syscall.SIGKILL)
		delete(all.all, serialOf(i.name))
		return errors.Join(err, os.RemoveAll(i.dir), op.failJob(ctx, all, c))
	}
	all.last++
	all.primary, all.changed = serialOf(i.name), op.now()
	return nil
}

// failJob leaves the Pod of a recovery that failed.
func (op *Operator) failJob(ctx context.Context, all *instances, c *cnpg.Cluster) error {
	all.failedJobs++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-full-recovery-%d", c.Name, all.failedJobs), Namespace: c.Namespace, Labels: op.labels(c, map[string]string{cnpg.JobLabel: cnpg.RecoveryJob}),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: cnpg.RecoveryJob, Image: c.Spec.ImageName}}, TerminationGracePeriodSeconds: new(int64(0))},
	}
	if err := op.o.Client.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodFailed
	return op.o.Client.Status().Update(ctx, pod)
}

// recoverInto places a backup, lets the server recover, and ends as the operator does: with the owner's password of the secret.
func (op *Operator) recoverInto(ctx context.Context, i *instance, c *cnpg.Cluster, tls map[string][]byte) (timeline int, err error) {
	if op.faults.RecoveryFails {
		return 0, errors.New("the recovery fails")
	}
	settings, info, err := op.place(ctx, i, c)
	if err != nil {
		return 0, err
	}
	maps.Copy(settings, c.Spec.PostgreSQL.Parameters)
	enforce(info, settings)
	if _, err := i.write(settings, []string{"host all all all reject"}, tls); err != nil {
		return 0, err
	}
	if err := i.start(); err != nil {
		return 0, err
	}
	if err := i.awaitPromoted(ctx); err != nil {
		return 0, err
	}
	password, err := op.password(ctx, c)
	if err != nil {
		return 0, err
	}
	rows, err := i.sql(ctx, "postgres", fmt.Sprintf("SET password_encryption = 'scram-sha-256'; ALTER ROLE %s PASSWORD '%s'; CHECKPOINT; SELECT timeline_id FROM pg_control_checkpoint()", c.Spec.Bootstrap.Recovery.Owner, strings.ReplaceAll(password, "'", "''")))
	if err != nil {
		return 0, err
	}
	if timeline, err = strconv.Atoi(rows[0][0]); err != nil {
		return 0, err
	}
	i.stop(syscall.SIGINT) // the job ends, and a Pod begins
	i.config = ""
	_, err = i.write(op.settings(&instances{}, i, c), c.Spec.PostgreSQL.PgHBA, tls)
	if err != nil {
		return 0, err
	}
	return timeline, i.start()
}

// enforced are settings that a recovery must not have less of than the server had that wrote the WAL.
const enforced = "SELECT name || '=' || setting FROM pg_settings WHERE name IN ('max_connections', 'max_worker_processes', 'max_wal_senders', 'max_prepared_transactions', 'max_locks_per_transaction')"

// enforce raises them for the time of the recovery, as the operator does by what pg_controldata says (1.30).
func enforce(info string, settings map[string]string) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		had, err := strconv.Atoi(value)
		if err != nil {
			continue
		}
		if has, err := strconv.Atoi(settings[name]); settings[name] == "" || err == nil && has < had {
			settings[name] = value
		}
	}
}

// place reads a backup and the WAL since from the bucket, and returns what the server is to be told of it.
func (op *Operator) place(ctx context.Context, i *instance, c *cnpg.Cluster) (settings map[string]string, info string, err error) {
	r := c.Spec.Bootstrap.Recovery
	at := slices.IndexFunc(c.Spec.ExternalClusters, func(e cnpg.ExternalCluster) bool { return e.Name == r.Source })
	if at < 0 {
		return nil, "", errors.New("there is no such external cluster")
	}
	from := c.Spec.ExternalClusters[at].Plugin.Parameters
	store, err := op.store(ctx, from[cnpg.BarmanObjectName])
	if err != nil {
		return nil, "", err
	}
	defer store.Close()
	if p := archiverOf(c); p != nil {
		if last, err := store.LastArchived(ctx, p.Parameters[cnpg.ServerName]); err != nil || !last.IsZero() {
			return nil, "", errors.Join(errors.New("expected empty archive"), err)
		}
	}
	packed := filepath.Join(i.dir, dataFile)
	if err := get(ctx, store, path.Join(from[cnpg.ServerName], "base", r.RecoveryTarget.BackupID, dataFile), packed); err != nil {
		return nil, "", err
	}
	wal := filepath.Join(i.dir, "archived")
	for _, dir := range []string{i.data(), wal} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, "", err
		}
	}
	if err := fetchWAL(ctx, store, from[cnpg.ServerName], wal); err != nil {
		return nil, "", err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-C", i.data(), "--ignore-zeros", unpacker, "-xf", packed).CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("unpack: %w: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(i.data(), "recovery.signal"), nil, 0o600); err != nil {
		return nil, "", err
	}
	if out, err := exec.CommandContext(ctx, "chown", "-R", fmt.Sprintf("%d:%d", user(), user()), i.data(), wal).CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("own: %w: %s", err, out)
	}
	settings = map[string]string{
		"restore_command": fmt.Sprintf(`cp "%s/%%f" "%%p"`, wal), "recovery_target_action": "promote", "recovery_target_timeline": "latest",
	}
	switch t := r.RecoveryTarget; {
	case t.TargetImmediate != nil && *t.TargetImmediate:
		settings["recovery_target"] = "immediate"
	case t.TargetTime != "":
		settings["recovery_target_time"] = t.TargetTime
	}
	told, err := store.Bucket.ReadAll(ctx, store.Prefix+path.Join(from[cnpg.ServerName], "base", r.RecoveryTarget.BackupID, "backup.info"))
	return settings, string(told), errors.Join(err, os.Remove(packed))
}

func fetchWAL(ctx context.Context, store *barman.Store, server, to string) error {
	for i := store.Bucket.List(&blob.ListOptions{Prefix: store.Prefix + server + "/wals/"}); ; {
		o, err := i.Next(ctx)
		if err != nil {
			if err.Error() == "EOF" {
				return nil
			}
			return err
		}
		if err := get(ctx, store, strings.TrimPrefix(o.Key, store.Prefix), filepath.Join(to, path.Base(o.Key))); err != nil {
			return err
		}
	}
}

// awaitPromoted waits until a recovery has ended; one that can't ends its server.
func (s *server) awaitPromoted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		rows, err := s.sql(ctx, "postgres", "SELECT pg_is_in_recovery()")
		switch {
		case err == nil && rows[0][0] == "f":
			return nil
		case !s.running():
			said, _ := os.ReadFile(filepath.Join(s.dir, serverLog)) // it only helps
			return fmt.Errorf("the recovery fails: %s", said[max(0, len(said)-1000):])
		case wait.Sleep(ctx, 50*time.Millisecond) != nil: // each question takes the server a process
			return fmt.Errorf("the recovery hasn't ended in time: %w", errors.Join(err, ctx.Err()))
		}
	}
}
