package simulator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/platform/kubernetes/mariadb"
	"steward/internal/testdir"
)

// MariaDB plays mariadb-operator, for a namespace.
type MariaDB struct {
	o   Options
	t   testing.TB
	dir string

	mu       sync.Mutex
	clusters map[string]*mariaDBs
	stuck    bool
	lag      int
	faults   Faults
	// copies are the backups that are looked after, by their objects' UIDs.
	copies map[string]*copying
}

// mariaDBs are the servers of an object, by their index.
type mariaDBs struct {
	all map[int]*mariaDB
	// waits counts passes with something to do, served those since all servers were ready for the first time.
	waits, served int
}

// StartMariaDB starts the operator, which ends with the test, and so do its servers.
func StartMariaDB(t testing.TB, o Options) *MariaDB {
	t.Helper()
	o.Client = newAttentive(t, o.Client, o.Namespace, &mariadb.List{}, &mariadb.PhysicalBackupList{}, &corev1.SecretList{})
	op := &MariaDB{o: o, t: t, dir: testdir.New(t, "steward-mariadb-"), clusters: map[string]*mariaDBs{}, lag: 2, copies: map[string]*copying{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			op.look(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(pass):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		op.mu.Lock()
		defer op.mu.Unlock()
		for _, c := range op.clusters {
			for _, s := range c.all {
				s.stop(syscall.SIGKILL)
			}
		}
	})
	return op
}

// Kill ends the server of a cluster's first node without warning; the kubelet starts it again.
func (op *MariaDB) Kill(cluster string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if c := op.clusters[cluster]; c != nil && c.all[0] != nil {
		c.all[0].stop(syscall.SIGKILL)
	}
}

// Reboot ends all servers, which stay so until Resume.
func (op *MariaDB) Reboot() {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.stuck = true
	for _, c := range op.clusters {
		for _, s := range c.all {
			s.stop(syscall.SIGKILL)
			if s.pod != nil {
				op.say(context.Background(), s, false)
			}
		}
	}
}

// Resume ends what Reboot began.
func (op *MariaDB) Resume() {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.stuck = false
}

// look is one pass.
func (op *MariaDB) look(ctx context.Context) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.stuck {
		return
	}
	var all mariadb.List
	if err := op.o.Client.List(ctx, &all, client.InNamespace(op.o.Namespace)); err != nil {
		return // the next pass does
	}
	there := map[string]bool{}
	for i := range all.Items {
		m := &all.Items[i]
		there[m.Name] = true
		before := m.Status
		if err := op.reconcile(ctx, m); err != nil && ctx.Err() == nil {
			op.t.Logf("%s: %v", m.Name, err)
			m.Status.Conditions = []metav1.Condition{condition(false, "Failed", "Error reconciling: "+err.Error(), before)}
		}
		if fmt.Sprint(before) != fmt.Sprint(m.Status) {
			_ = op.o.Client.Status().Update(ctx, m) // the next pass does
		}
	}
	for name, c := range op.clusters {
		if there[name] {
			continue
		}
		for _, s := range c.all {
			op.leave(ctx, name, s)
		}
		delete(op.clusters, name)
	}
	op.backups(ctx)
}

// condition is the one that people look at.
func condition(ready bool, reason, message string, before mariadb.Status) metav1.Condition {
	c := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
	if ready {
		c.Status = metav1.ConditionTrue
	}
	for _, old := range before.Conditions {
		if old.Type == c.Type && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return c
}

// reconcile does what the operator does about one object, a step at a time.
func (op *MariaDB) reconcile(ctx context.Context, m *mariadb.MariaDB) error {
	c := op.clusters[m.Name]
	if c == nil {
		c = &mariaDBs{all: map[int]*mariaDB{}}
		op.clusters[m.Name] = c
	}
	t, err := op.template(ctx, m)
	if err != nil {
		return err
	}
	if m.Status.CurrentPrimary == "" {
		m.Status.CurrentPrimary = m.Name + "-0"
	}
	for index, s := range c.all {
		if index >= m.Spec.Replicas { // its volume stays
			s.stop(syscall.SIGTERM)
			op.deletePod(ctx, s)
		}
	}
	ready := 0
	for index := range m.Spec.Replicas {
		if err := op.keep(ctx, c, index, m, t); err != nil {
			return err
		}
		if c.all[index].ready {
			ready++
		}
	}
	m.Status.Replicas = ready
	before := m.Status
	if ready == m.Spec.Replicas || m.Spec.UpdateStrategy != nil && m.Spec.UpdateStrategy.Type == mariadb.RollingUpdate {
		op.roll(ctx, c, t)
	}
	if ready == 0 || ready < m.Spec.Replicas {
		m.Status.Conditions = []metav1.Condition{condition(false, "StatefulSetNotReady", "Not ready", before)}
		return nil
	}
	m.Status.Conditions = []metav1.Condition{condition(true, "StatefulSetReady", "Running", before)} // also while what follows isn't done
	// Once it looks for what it has yet to make, and is well again at the next pass.
	if c.served++; c.served == 2 {
		return fmt.Errorf("error getting mariadb.sys Grant: Grant.k8s.mariadb.com %q not found", m.Name+"-mariadb-sys-global-priv")
	}
	return op.guard(ctx, c, m)
}

// podTemplate is what Pods are made of.
type podTemplate struct {
	config   string
	password string
	files    map[string][]byte
	tls      map[string][]byte
	ca       []byte
	// digest is of what Pods are made anew for, and whole of all that they have.
	digest, whole string
}

// template reads all that an object names. Of the files that a volume has nothing is in it: they change while Pods run.
func (op *MariaDB) template(ctx context.Context, m *mariadb.MariaDB) (t podTemplate, err error) {
	secret := func(name string) map[string][]byte {
		var s corev1.Secret
		if failed := op.o.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, &s); failed != nil {
			err = errors.Join(err, failed)
		}
		return s.Data
	}
	t.password = string(secret(m.Spec.RootPasswordSecretKeyRef.Name)[m.Spec.RootPasswordSecretKeyRef.Key])
	t.tls, t.ca = secret(m.Spec.TLS.ServerCertSecretRef.Name), secret(m.Spec.TLS.ServerCASecretRef.Name)["ca.crt"]
	t.files = secret(m.Spec.Volumes[0].Secret.SecretName)
	t.config = m.Spec.MyCnf
	sum := sha256.New()
	annotations := m.Spec.PodMetadata.Annotations
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintln(sum, name, annotations[name])
	}
	fmt.Fprintln(sum, m.Spec.Image, m.Spec.Resources.Limits.Cpu(), m.Spec.Resources.Limits.Memory(), t.config, string(t.tls["tls.crt"]), string(t.ca))
	t.digest = hex.EncodeToString(sum.Sum(nil))
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		fmt.Fprintln(sum, name, string(t.files[name]))
	}
	t.whole = hex.EncodeToString(sum.Sum(nil))
	return t, err
}

// keep is what the controller of sets and the kubelet do for one server: a volume, a Pod, a server in it.
func (op *MariaDB) keep(ctx context.Context, c *mariaDBs, index int, m *mariadb.MariaDB, t podTemplate) error {
	s := c.all[index]
	if s == nil {
		name := m.Name + "-" + strconv.Itoa(index)
		s = &mariaDB{dir: filepath.Join(op.dir, name), ip: nextAddress(), name: name, password: t.password}
		if err := os.MkdirAll(s.dir, 0o711); err != nil {
			return err
		}
		if err := os.Chown(s.dir, user(), user()); err != nil {
			return err
		}
		c.all[index] = s
	}
	if err := op.claim(ctx, s, m); err != nil {
		return err
	}
	if s.pod == nil {
		if m.Spec.BootstrapFrom != nil {
			if done, err := op.begin(ctx, s, m); !done {
				return err
			}
		}
		return op.createPod(ctx, s, m, t)
	}
	build, ok := op.o.Images[s.pod.Spec.Containers[0].Image]
	if !ok {
		return op.wait(ctx, s, "ImagePullBackOff")
	}
	if !s.running() {
		s.build = build
		if err := s.initialise(ctx, t.password); err != nil {
			return err
		}
	}
	if err := s.write(t); err != nil {
		return err
	}
	if !s.running() {
		if s.exited != nil && len(s.pod.Status.ContainerStatuses) > 0 {
			op.say(ctx, s, false)
			restarted := &s.pod.Status.ContainerStatuses[0]
			restarted.RestartCount++
			restarted.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
		}
		return s.start()
	}
	if state := s.pod.Status.ContainerStatuses; len(state) == 0 || state[0].State.Running == nil {
		op.say(ctx, s, false)
	}
	if s.looks++; s.due() {
		_, err := s.sql(ctx, "SELECT 1")
		if answers := err == nil; answers != s.ready {
			op.say(ctx, s, answers)
			_ = os.Remove(s.birth()) // else it would have the first password again at its next start
		}
	}
	if s.ready && s.pod.Labels[mariadb.RoleLabel] == "" {
		role := mariadb.ReplicaRole
		if s.name == m.Status.CurrentPrimary {
			role = mariadb.PrimaryRole
		}
		return op.o.Client.Patch(ctx, s.pod, labelled(mariadb.RoleLabel, role))
	}
	return nil
}

// claim makes a server's volume.
func (op *MariaDB) claim(ctx context.Context, s *mariaDB, m *mariadb.MariaDB) error {
	if s.claimed {
		return nil
	}
	wanted := m.Spec.Storage.VolumeClaimTemplate
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "storage-" + s.name, Namespace: m.Namespace, Labels: maps.Clone(wanted.Metadata.Labels)},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: wanted.AccessModes, StorageClassName: wanted.StorageClassName, Resources: wanted.Resources},
	}
	claim.Labels[mariadb.AppLabel], claim.Labels[mariadb.InstanceLabel] = mariadb.App, m.Name
	if err := op.o.Client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	s.claimed = true
	return nil
}

func (op *MariaDB) createPod(ctx context.Context, s *mariaDB, m *mariadb.MariaDB, t podTemplate) error {
	labels := maps.Clone(m.Spec.InheritMetadata.Labels)
	labels[mariadb.AppLabel], labels[mariadb.InstanceLabel] = mariadb.App, m.Name
	s.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: m.Namespace, Labels: labels, Annotations: m.Spec.PodMetadata.Annotations},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: mariadb.Container, Image: m.Spec.Image, Resources: m.Spec.Resources}},
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	}
	if err := op.o.Client.Create(ctx, s.pod); err != nil {
		s.pod = nil
		return err
	}
	s.template, s.exited = t.digest, nil
	return nil
}

func (op *MariaDB) deletePod(ctx context.Context, s *mariaDB) {
	if s.pod != nil {
		_ = op.o.Client.Delete(ctx, s.pod, client.GracePeriodSeconds(0))
	}
	s.pod, s.ready = nil, false
}

// say puts a server's Pod in a state.
func (op *MariaDB) say(ctx context.Context, s *mariaDB, ready bool) {
	s.ready = ready
	var before corev1.ContainerStatus
	if len(s.pod.Status.ContainerStatuses) > 0 {
		before = s.pod.Status.ContainerStatuses[0]
	}
	is := corev1.ConditionFalse
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
	if ready {
		is = corev1.ConditionTrue
	}
	if s.running() {
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
		if before.State.Running != nil {
			state.Running.StartedAt = before.State.Running.StartedAt
		}
	}
	s.pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: s.ip, PodIPs: []corev1.PodIP{{IP: s.ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.Now()}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: mariadb.Container, Ready: ready, RestartCount: before.RestartCount, State: state, LastTerminationState: before.LastTerminationState, Image: s.pod.Spec.Containers[0].Image,
		}},
	}
	if err := op.o.Client.Status().Update(ctx, s.pod); err != nil {
		_ = op.o.Client.Get(ctx, client.ObjectKeyFromObject(s.pod), s.pod)
		s.ready = !ready // the next pass says it again
	}
}

// wait has a server's Pod wait for something.
func (op *MariaDB) wait(ctx context.Context, s *mariaDB, reason string) error {
	if len(s.pod.Status.ContainerStatuses) > 0 {
		return nil
	}
	s.pod.Status = corev1.PodStatus{
		Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: mariadb.Container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}, Image: s.pod.Spec.Containers[0].Image,
		}},
	}
	return op.o.Client.Status().Update(ctx, s.pod)
}

// roll makes Pods anew that aren't of the template. It begins some passes late, while the status says that all is well.
func (op *MariaDB) roll(ctx context.Context, c *mariaDBs, t podTemplate) {
	for _, s := range c.all {
		if s.pod == nil || s.template == t.digest {
			continue
		}
		if c.waits++; c.waits > op.lag {
			s.stop(syscall.SIGTERM)
			op.deletePod(ctx, s)
			c.waits = 0
		}
		return
	}
}

// guard has servers take writes, or none, as is asked for: whatever somebody else has told them.
func (op *MariaDB) guard(ctx context.Context, c *mariaDBs, m *mariadb.MariaDB) error {
	wanted := "0"
	if m.Spec.Maintenance != nil && m.Spec.Maintenance.Enabled && m.Spec.Maintenance.ReadOnly {
		wanted = "1"
	}
	for _, s := range c.all {
		if s.pod == nil || !s.ready || s.guarded == wanted && !s.due() {
			continue
		}
		is, err := s.sql(ctx, "SELECT @@GLOBAL.read_only")
		if err != nil {
			continue // one that doesn't answer is told later
		}
		if is != wanted {
			if _, err := s.sql(ctx, "SET GLOBAL read_only = "+wanted); err != nil {
				return err
			}
		}
		s.guarded = wanted
	}
	return nil
}
