package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gocloud.dev/blob"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/platform/kubernetes/barman"
	"steward/internal/platform/kubernetes/mariadb"
)

// jobLabel is on the Pods of jobs.
const jobLabel = "batch.kubernetes.io/job-name"

// Fail sets what goes wrong with backups and what begins with them, from now on; the zero value ends it.
func (op *MariaDB) Fail(f Faults) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.faults = f
}

// copying is a PhysicalBackup that is looked after.
type copying struct {
	name   string
	waited int
}

// backups takes those that are asked for, and removes what those leave that are gone.
func (op *MariaDB) backups(ctx context.Context) {
	var all mariadb.PhysicalBackupList
	if err := op.o.Client.List(ctx, &all, client.InNamespace(op.o.Namespace)); err != nil {
		return // the next pass does
	}
	there := map[string]bool{}
	for i := range all.Items {
		b := &all.Items[i]
		there[string(b.UID)] = true
		if c := b.Complete(); c != nil && c.Status == metav1.ConditionTrue {
			continue
		}
		said, err := op.back(ctx, b)
		if err != nil {
			said = metav1.Condition{Status: metav1.ConditionTrue, Reason: mariadb.JobFailed, Message: "Failed"} // which doesn't say why
		}
		said.Type, said.LastTransitionTime = mariadb.ConditionComplete, metav1.Now()
		if before := b.Complete(); before == nil || before.Reason != said.Reason {
			b.Status.Conditions = []metav1.Condition{said}
			_ = op.o.Client.Status().Update(ctx, b) // the next pass does
		}
	}
	for uid, c := range op.copies {
		if !there[uid] {
			_ = op.o.Client.Delete(ctx, op.pod(c.name), client.GracePeriodSeconds(0))
			_ = op.o.Client.Delete(ctx, op.volume(c.name))
			delete(op.copies, uid)
		}
	}
}

func (op *MariaDB) pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-20060102150405", Namespace: op.o.Namespace}}
}

func (op *MariaDB) volume(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name + "-staging", Namespace: op.o.Namespace}}
}

// stage makes the volume that files go through.
func (op *MariaDB) stage(ctx context.Context, name string, s *mariadb.Staging, labels map[string]string) error {
	v := op.volume(name)
	v.Labels = labels
	v.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: s.Claim.AccessModes, StorageClassName: s.Claim.StorageClassName, Resources: s.Claim.Resources}
	if err := op.o.Client.Create(ctx, v); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// back takes a backup a step further.
func (op *MariaDB) back(ctx context.Context, b *mariadb.PhysicalBackup) (metav1.Condition, error) {
	waits := metav1.Condition{Status: metav1.ConditionFalse, Reason: "JobNotComplete", Message: "Not complete"}
	c := op.copies[string(b.UID)]
	if c == nil {
		c = &copying{name: b.Name}
		op.copies[string(b.UID)] = c
	}
	m := &mariadb.MariaDB{}
	if err := op.o.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.MariaDBRef.Name}, m); err != nil {
		waits.Reason, waits.Message = "Failed", err.Error()
		return waits, nil
	}
	all := op.clusters[m.Name]
	if all == nil || all.all[0] == nil || !all.all[0].ready || m.Spec.Replicas == 0 {
		waits.Reason, waits.Message = "Failed", "MariaDB not ready"
		return waits, nil
	}
	if c.waited++; c.waited <= op.faults.BackupWaits {
		return waits, nil
	}
	runs := metav1.Condition{Status: metav1.ConditionFalse, Reason: mariadb.JobRunning, Message: "Running"}
	if said := b.Complete(); said == nil || said.Reason != mariadb.JobRunning {
		return runs, op.stage(ctx, b.Name, b.Spec.StagingStorage, b.Spec.InheritMetadata.Labels)
	}
	done := metav1.Condition{Status: metav1.ConditionTrue, Reason: mariadb.JobComplete, Message: "Success"}
	switch f := op.faults; {
	case f.BackupFails != "":
		return runs, errors.Join(errors.New(f.BackupFails), op.failCopy(ctx, b, f.BackupFails))
	case f.BackupVanishes:
		return runs, op.o.Client.Delete(ctx, b)
	case f.BackupStuck:
		return runs, nil
	case f.ArchiveStuck:
		return done, nil
	}
	if err := op.copyOut(ctx, b, all.all[0]); err != nil {
		op.t.Logf("%s: %v", b.Name, err)
		return runs, errors.Join(err, op.failCopy(ctx, b, err.Error()))
	}
	return done, nil
}

// failCopy leaves the Pod of a job that failed.
func (op *MariaDB) failCopy(ctx context.Context, b *mariadb.PhysicalBackup, why string) error {
	p := op.pod(b.Name)
	p.Labels = map[string]string{jobLabel: p.Name}
	maps.Copy(p.Labels, b.Spec.InheritMetadata.Labels)
	p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "mariadb-operator", Image: "operator"}}, TerminationGracePeriodSeconds: new(int64(0))}
	if err := op.o.Client.Create(ctx, p); err != nil {
		return err
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "mariadb-operator", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: why}},
	}}}
	return op.o.Client.Status().Update(ctx, p)
}

// bucket opens the place that an object names.
func (op *MariaDB) bucket(ctx context.Context, s *mariadb.S3) (*barman.Store, error) {
	scheme := "http://"
	if s.TLS != nil && s.TLS.Enabled {
		scheme = "https://"
	}
	o := barman.Options{Destination: "s3://" + s.Bucket + "/" + s.Prefix, Endpoint: scheme + s.Endpoint, Region: s.Region}
	for ref, into := range map[*mariadb.KeyReference]*string{s.AccessKeyID: &o.AccessKey, s.SecretAccessKey: &o.SecretKey} {
		var keys corev1.Secret
		if err := op.o.Client.Get(ctx, client.ObjectKey{Namespace: op.o.Namespace, Name: ref.Name}, &keys); err != nil {
			return nil, err
		}
		*into = string(keys.Data[ref.Key])
	}
	return barman.Open(ctx, o)
}

// copyOut copies a server that runs into the bucket.
func (op *MariaDB) copyOut(ctx context.Context, b *mariadb.PhysicalBackup, s *mariaDB) error {
	store, err := op.bucket(ctx, b.Spec.Storage.S3)
	if err != nil {
		return err
	}
	defer store.Close()
	work, err := os.MkdirTemp(op.dir, "copy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Chown(work, user(), user()); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(work, "stream"))
	if err != nil {
		return err
	}
	defer out.Close()
	copied := command(ctx, s.build.Program("mariadb-backup", "--no-defaults", "--backup", "--stream=xbstream",
		"--datadir="+s.data(), "--target-dir="+work, "--tmpdir="+work,
		"--socket="+filepath.Join(s.dir, "sock"), "--user=root", "--password="+s.password)...)
	packed := command(ctx, "gzip", "-1")
	packed.Stdout = out
	if err := pipe(copied, packed); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return put(ctx, store, "physicalbackup-"+time.Now().UTC().Format("20060102150405")+".xb.gz", out.Name())
}

// begin brings a backup into a server's volume, by a job. It reports whether it is done.
func (op *MariaDB) begin(ctx context.Context, s *mariaDB, m *mariadb.MariaDB) (bool, error) {
	if s.made {
		return true, nil
	}
	build, ok := op.o.Images[m.Spec.Image]
	if op.faults.RecoveryStuck || !ok {
		return false, nil
	}
	s.build = build
	from := m.Spec.BootstrapFrom
	if err := op.stage(ctx, m.Name+"-bootstrap", from.StagingStorage, m.Spec.InheritMetadata.Labels); err != nil {
		return false, err
	}
	err := errors.New("the recovery fails")
	if !op.faults.RecoveryFails {
		err = op.copyIn(ctx, s, from)
	}
	if err != nil {
		return false, errors.Join(op.failInit(ctx, s, m), os.RemoveAll(s.data()))
	}
	op.endInit(ctx, s)
	_ = op.o.Client.Delete(ctx, op.volume(m.Name+"-bootstrap"))
	s.made = true
	return true, nil
}

// failInit counts a try of a job in its Pod, which is started anew, and says nothing else of it.
func (op *MariaDB) failInit(ctx context.Context, s *mariaDB, m *mariadb.MariaDB) error {
	if s.init == nil {
		p := op.pod(s.name + mariadb.InitSuffix)
		p.Labels = map[string]string{mariadb.AppLabel: mariadb.App, mariadb.InstanceLabel: m.Name, jobLabel: s.name + mariadb.InitSuffix}
		maps.Copy(p.Labels, m.Spec.InheritMetadata.Labels)
		p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: mariadb.Container, Image: m.Spec.Image}}, TerminationGracePeriodSeconds: new(int64(0))}
		if err := op.o.Client.Create(ctx, p); err != nil {
			return err
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "mariadb-operator"}}}
		s.init = p
	} else {
		s.init.Status.InitContainerStatuses[0].RestartCount++
	}
	return op.o.Client.Status().Update(ctx, s.init)
}

func (op *MariaDB) endInit(ctx context.Context, s *mariaDB) {
	if s.init != nil {
		_ = op.o.Client.Delete(ctx, s.init, client.GracePeriodSeconds(0))
		s.init = nil
	}
}

// copyIn makes a server's data of the newest backup in a place.
func (op *MariaDB) copyIn(ctx context.Context, s *mariaDB, from *mariadb.BootstrapFrom) error {
	if from.BackupContentType != mariadb.Physical {
		return errors.New("it isn't said to be a physical backup")
	}
	store, err := op.bucket(ctx, from.S3)
	if err != nil {
		return err
	}
	defer store.Close()
	newest, err := newestIn(ctx, store)
	if err != nil {
		return err
	}
	stream := filepath.Join(s.dir, "stream")
	if err := get(ctx, store, newest, stream); err != nil {
		return err
	}
	defer os.Remove(stream)
	in, err := os.Open(stream)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.Mkdir(s.data(), 0o700); err != nil {
		return err
	}
	if err := os.Chown(s.data(), user(), user()); err != nil {
		return err
	}
	unpacked := command(ctx, "gzip", "-d")
	unpacked.Stdin = in
	if err := pipe(unpacked, command(ctx, s.build.Program("mbstream", "-x", "-C", s.data())...)); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	if out, err := command(ctx, s.build.Program("mariadb-backup", "--prepare", "--target-dir="+s.data())...).CombinedOutput(); err != nil {
		return fmt.Errorf("prepare: %w: %s", err, out[max(0, len(out)-1000):])
	}
	return nil
}

// pipe runs two programs, the second of which reads what the first writes. What they move doesn't come through this process, where the race detector would look
// at each byte of it.
func pipe(from, to *exec.Cmd) error {
	out, err := from.StdoutPipe()
	if err != nil {
		return err
	}
	to.Stdin = out
	var said [2]strings.Builder
	from.Stderr, to.Stderr = &said[0], &said[1]
	if err := from.Start(); err != nil {
		return err
	}
	failed := to.Run()
	out.Close() // else one that is still writing would wait for ever
	if err := errors.Join(from.Wait(), failed); err != nil {
		return fmt.Errorf("%s | %s: %w: %s%s", filepath.Base(from.Path), filepath.Base(to.Path), err, last(said[0].String()), last(said[1].String()))
	}
	return nil
}

// last is the end of what a program said, where the reason is.
func last(said string) string { return said[max(0, len(said)-1000):] }

func newestIn(ctx context.Context, store *barman.Store) (string, error) {
	var names []string
	for i := store.Bucket.List(&blob.ListOptions{Prefix: store.Prefix}); ; {
		o, err := i.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		names = append(names, path.Base(o.Key))
	}
	if len(names) == 0 {
		return "", errors.New("no valid backup files were found")
	}
	return slices.Max(names), nil
}

// leave ends what a server that is gone had.
func (op *MariaDB) leave(ctx context.Context, name string, s *mariaDB) {
	s.stop(syscall.SIGKILL)
	op.deletePod(ctx, s)
	op.endInit(ctx, s)
	if s.made { // else there was no set yet, whose it would be
		_ = op.o.Client.Delete(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "storage-" + s.name, Namespace: op.o.Namespace}})
	}
	_ = op.o.Client.Delete(ctx, op.volume(name+"-bootstrap"))
	_ = os.RemoveAll(s.dir) // the test's end does
}
