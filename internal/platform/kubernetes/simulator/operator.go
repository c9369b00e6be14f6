package simulator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/engine"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/testdir"
	"steward/internal/wait"
)

const (
	// pass is how often the operator looks. It is short: what it does a step at a time, steward asks for meanwhile, again and again.
	pass = 40 * time.Millisecond
	// restful is how many passes go by before a server that is well is asked again, since that takes it a session.
	restful = int(time.Second / pass)
)

// Options are what an Operator is made of.
type Options struct {
	Client    client.WithWatch
	Namespace string
	// Images are the builds that images have.
	Images map[string]engine.Installation
}

// Operator looks after the clusters of a namespace. Its fields may be set before a cluster is there.
type Operator struct {
	o   Options
	t   testing.TB
	dir string

	mu sync.Mutex
	// clusters are the instances by the name of their cluster's object.
	clusters map[string]*instances
	stuck    bool
	// lag is how many passes go by between what the status says and what is done.
	lag       int
	addresses int
	// faults are what goes wrong with backups and recoveries, and played how often each has.
	faults Faults
	// node is the machine that Pods are on, and unplugged reports that it can't be reached.
	node      string
	unplugged bool
	// taken are the backups that are being taken, by name.
	taken map[string]*taking
	// version is that of the operator, and skew how far its clock and that of Pods' machines are ahead.
	version string
	skew    time.Duration
}

// instances are those of a cluster, by their serial number.
type instances struct {
	all     map[int]*instance
	primary int
	last    int
	// waits counts passes with something to do.
	waits    int
	timeline int
	changed  time.Time
	// failedJobs counts the Pods of recoveries that failed.
	failedJobs int
}

type instance struct {
	*server
	name  string
	pod   *corev1.Pod
	ready bool
	// looks counts passes since the server was asked last.
	looks int
	// configOf tells of what its configuration was written last.
	configOf string
	// follows is set of one that was the primary, until it may follow another.
	follows bool
	// handedOver reports whether its container ended because another instance became the primary.
	handedOver bool
}

// Start starts the operator, which ends with the test, and so do its servers.
func Start(t testing.TB, o Options) *Operator {
	t.Helper()
	op := &Operator{o: o, t: t, dir: testdir.New(t, "steward-cnpg-"), clusters: map[string]*instances{}, lag: 2, taken: map[string]*taking{}, version: "1.30.0"}
	op.o.Client = newAttentive(t, o.Client, o.Namespace, &cnpg.ClusterList{}, &cnpg.BackupList{}, &corev1.SecretList{}, &corev1.ServiceList{})
	if err := op.machine(); err != nil {
		t.Fatalf("a machine for Pods: %v", err)
	}
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
			c.stop(syscall.SIGKILL)
		}
	})
	return op
}

// Pause has the operator and the kubelet do nothing, until Resume.
func (op *Operator) Pause() { op.set(true) }

// Resume ends a Pause.
func (op *Operator) Resume() { op.set(false) }

func (op *Operator) set(stuck bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.stuck = stuck
}

// Kill ends the server of a cluster's primary without warning; the kubelet starts it again.
func (op *Operator) Kill(cluster string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if c := op.clusters[cluster]; c != nil && c.all[c.primary] != nil {
		c.all[c.primary].stop(syscall.SIGKILL)
	}
}

// Reboot ends all servers, which stay so until Resume.
func (op *Operator) Reboot() {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.stuck = true
	for _, c := range op.clusters {
		for _, i := range c.all {
			i.stop(syscall.SIGKILL)
			if i.pod != nil {
				op.say(context.Background(), i, false)
			}
		}
	}
}

// Address is where a cluster's primary listens; "" without any.
func (op *Operator) Address(cluster string) string {
	op.mu.Lock()
	defer op.mu.Unlock()
	if c := op.clusters[cluster]; c != nil && c.all[c.primary] != nil {
		return c.all[c.primary].ip
	}
	return ""
}

func (c *instances) stop(how syscall.Signal) {
	for _, i := range c.all {
		i.stop(how)
	}
}

// look is one pass.
func (op *Operator) look(ctx context.Context) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.stuck {
		return
	}
	var clusters cnpg.ClusterList
	if err := op.o.Client.List(ctx, &clusters, client.InNamespace(op.o.Namespace)); err != nil {
		return // the next pass does
	}
	there := map[string]bool{}
	for i := range clusters.Items {
		c := &clusters.Items[i]
		there[c.Name] = true
		if err := op.reconcile(ctx, c); err != nil && ctx.Err() == nil {
			op.t.Logf("%s: %v", c.Name, err)
			c.Status.Phase, c.Status.PhaseReason = "Unable to create required cluster objects", err.Error()
			op.report(ctx, c)
		}
	}
	for name := range op.clusters {
		if !there[name] {
			op.remove(ctx, name)
		}
	}
	op.backups(ctx)
	op.balance(ctx)
}

// remove is what owners' references do in a real cluster.
func (op *Operator) remove(ctx context.Context, name string) {
	op.clusters[name].stop(syscall.SIGKILL)
	for _, i := range op.clusters[name].all {
		op.deletePod(ctx, i)
		_ = os.RemoveAll(i.dir) // the test's end does
	}
	_ = op.o.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(op.o.Namespace), client.MatchingLabels{cnpg.ClusterLabel: name}, client.GracePeriodSeconds(0))
	_ = op.o.Client.DeleteAllOf(ctx, &corev1.PersistentVolumeClaim{}, client.InNamespace(op.o.Namespace), client.MatchingLabels{cnpg.ClusterLabel: name})
	delete(op.clusters, name)
}

// balance gives load balancers their addresses.
func (op *Operator) balance(ctx context.Context) {
	var services corev1.ServiceList
	if err := op.o.Client.List(ctx, &services, client.InNamespace(op.o.Namespace)); err != nil {
		return
	}
	for i := range services.Items {
		s := &services.Items[i]
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
			op.addresses++
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("192.0.2.%d", op.addresses%256)}}
			_ = op.o.Client.Status().Update(ctx, s) // the next pass does
		}
	}
}

// reconcile does what the operator does about one cluster, a step at a time.
func (op *Operator) reconcile(ctx context.Context, c *cnpg.Cluster) error {
	all := op.clusters[c.Name]
	if all == nil {
		all = &instances{all: map[int]*instance{}, timeline: 1}
		op.clusters[c.Name] = all
	}
	before := fmt.Sprint(c.Status)
	asked := false
	defer func() {
		c.Status.Instances, c.Status.TimelineID = len(all.all), all.timeline
		if all.primary != 0 {
			c.Status.CurrentPrimary = all.all[all.primary].name
			if !asked {
				c.Status.TargetPrimary = c.Status.CurrentPrimary
			}
			c.Status.CurrentPrimaryTimestamp = all.changed.UTC().Format(time.RFC3339Nano)
		}
		if before != fmt.Sprint(c.Status) {
			op.report(ctx, c)
		}
	}()
	c.Status.Image = c.Spec.ImageName // at once, whatever runs
	if err := op.archive(ctx, c); err != nil {
		return err
	}
	if c.Annotations[cnpg.HibernationAnnotation] == cnpg.Hibernated {
		return op.hibernate(ctx, all, c)
	}
	tls, err := op.tls(ctx, c)
	if err != nil {
		return err
	}
	if all.primary == 0 {
		c.Status.Phase = "Setting up primary"
		if c.Spec.Bootstrap.Recovery != nil {
			return op.recover(ctx, all, c, tls)
		}
		return op.first(ctx, all, c, tls)
	}
	for serial := range all.all {
		if err := op.keep(ctx, all, serial, c, tls); err != nil {
			return err
		}
	}
	if len(all.all) < c.Spec.Instances {
		c.Status.Phase = "Creating a new replica"
		return op.join(ctx, all, c, tls)
	}
	if len(all.all) > c.Spec.Instances {
		op.leave(ctx, all)
	}
	if target := c.Status.TargetPrimary; target != "" && target != all.all[all.primary].name && all.all[serialOf(target)] != nil {
		if asked = !all.all[serialOf(target)].ready; asked {
			return nil
		}
		return op.promote(ctx, all, serialOf(target))
	}
	c.Status.Phase = "Cluster in healthy state" // also while what follows isn't done
	c.Status.ReadyInstances = 0
	for _, i := range all.all {
		if i.ready {
			c.Status.ReadyInstances++
		}
	}
	return op.roll(ctx, all, c)
}

func (op *Operator) report(ctx context.Context, c *cnpg.Cluster) {
	_ = op.o.Client.Status().Update(ctx, c) // the next pass does
}

// hibernate ends all instances, and says that all is well.
func (op *Operator) hibernate(ctx context.Context, all *instances, c *cnpg.Cluster) error {
	for _, i := range all.all {
		i.stop(syscall.SIGINT)
		op.deletePod(ctx, i)
	}
	c.Status.Phase, c.Status.ReadyInstances = "Cluster in healthy state", 0
	return nil
}

// tls is what the secrets have that the cluster names.
func (op *Operator) tls(ctx context.Context, c *cnpg.Cluster) (map[string][]byte, error) {
	var s corev1.Secret
	err := op.o.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.Certificates.ServerTLSSecret}, &s)
	return s.Data, err
}

// first makes the first instance, with what a new server is told.
func (op *Operator) first(ctx context.Context, all *instances, c *cnpg.Cluster, tls map[string][]byte) error {
	i, err := op.add(ctx, all, c)
	if err != nil {
		return err
	}
	if err := i.initialise(ctx); err != nil {
		return err
	}
	// As the operator's job does it: with nobody else let in.
	if _, err := i.write(c.Spec.PostgreSQL.Parameters, []string{"host all all all reject"}, tls); err != nil {
		return err
	}
	if err := i.start(); err != nil {
		return err
	}
	if err := op.birth(ctx, i, c); err != nil {
		i.stop(syscall.SIGKILL)
		return err
	}
	i.config = ""
	if _, err := i.write(c.Spec.PostgreSQL.Parameters, c.Spec.PostgreSQL.PgHBA, tls); err != nil {
		return err
	}
	i.reload()
	all.primary, all.changed = serialOf(i.name), op.now()
	return nil
}

// birth runs what is asked for, in the operator's order.
func (op *Operator) birth(ctx context.Context, i *instance, c *cnpg.Cluster) error {
	b := c.Spec.Bootstrap.InitDB
	server, err := i.session(ctx, "postgres")
	for deadline := time.Now().Add(30 * time.Second); err != nil; server, err = i.session(ctx, "postgres") {
		if time.Now().After(deadline) || wait.Sleep(ctx, 10*time.Millisecond) != nil {
			return err
		}
	}
	defer server.Close(ctx)
	refs := func(r *cnpg.SQLRefs) (string, error) {
		var s corev1.Secret
		err := op.o.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: r.SecretRefs[0].Name}, &s)
		return string(s.Data[r.SecretRefs[0].Key]), err
	}
	administration, err := refs(b.PostInitSQLRefs)
	if err != nil {
		return err
	}
	template, err := refs(b.PostInitTemplateSQLRefs)
	if err != nil {
		return err
	}
	first, err := refs(b.PostInitApplicationSQLRefs)
	if err != nil {
		return err
	}
	password, err := op.password(ctx, c)
	if err != nil {
		return err
	}
	for _, step := range []struct{ database, sql string }{
		{"postgres", fmt.Sprintf("CREATE ROLE %s LOGIN", b.Owner)},
		{"postgres", administration},
		{"template1", template},
		{"postgres", fmt.Sprintf("CREATE DATABASE %s OWNER %s", b.Database, b.Owner)},
		{b.Database, first},
		// The operator's own role comes with the first start, after all that a server is told at its birth.
		{"postgres", "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'streaming_replica') THEN CREATE ROLE streaming_replica REPLICATION LOGIN; END IF; END $$"},
		{"postgres", fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", b.Owner, strings.ReplaceAll(password, "'", "''"))},
	} {
		if step.database == "postgres" {
			if _, err = run(ctx, server, step.sql); err == nil {
				_, err = run(ctx, server, "DISCARD ALL") // as if the next step had a session of its own
			}
		} else {
			_, err = i.sql(ctx, step.database, step.sql)
		}
		if err != nil {
			return fmt.Errorf("in %s: %w", step.database, err)
		}
	}
	return nil
}

func (op *Operator) password(ctx context.Context, c *cnpg.Cluster) (string, error) {
	var s corev1.Secret
	err := op.o.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: ownerOf(c).Name}, &s)
	return string(s.Data[corev1.BasicAuthPasswordKey]), err
}

// add makes an instance with its volume, and no Pod yet.
func (op *Operator) add(ctx context.Context, all *instances, c *cnpg.Cluster) (*instance, error) {
	build, ok := op.o.Images[c.Spec.ImageName]
	if !ok {
		return nil, fmt.Errorf("the image %s can't be pulled", c.Spec.ImageName)
	}
	serial := all.last + 1
	name := fmt.Sprintf("%s-%d", c.Name, serial)
	s, err := newServer(op.dir, name, nextAddress(), build)
	if err != nil {
		return nil, err
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: op.labels(c, nil)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: c.Spec.Storage.StorageClass,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.Spec.Storage.Size)}},
		},
	}
	if err := op.o.Client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	i := &instance{server: s, name: name}
	all.all[serial], all.last = i, serial
	return i, nil
}

func (op *Operator) labels(c *cnpg.Cluster, more map[string]string) map[string]string {
	all := maps.Clone(c.Spec.InheritedMetadata.Labels)
	all[cnpg.ClusterLabel] = c.Name
	maps.Copy(all, more)
	return all
}

// join makes a replica.
func (op *Operator) join(ctx context.Context, all *instances, c *cnpg.Cluster, tls map[string][]byte) error {
	primary := all.all[all.primary]
	if !primary.ready {
		return nil
	}
	i, err := op.add(ctx, all, c)
	if err != nil {
		return err
	}
	if err := i.clone(ctx, primary.server); err != nil {
		return err
	}
	_, err = i.write(op.settings(all, i, c), c.Spec.PostgreSQL.PgHBA, tls)
	return err
}

// settings are those of an instance, with what the operator decides.
func (op *Operator) settings(all *instances, i *instance, c *cnpg.Cluster) map[string]string {
	s := maps.Clone(c.Spec.PostgreSQL.Parameters)
	maps.Copy(s, op.archiving(c))
	if p := all.all[all.primary]; p != nil && p != i {
		s["primary_conninfo"] = fmt.Sprintf("host=%s-rw hostaddr=%s port=5432 user=streaming_replica application_name=%s sslmode=disable", c.Name, p.ip, i.name)
	}
	if sync := c.Spec.PostgreSQL.Synchronous; sync != nil {
		var names []string
		for _, serial := range slices.Sorted(maps.Keys(all.all)) {
			names = append(names, fmt.Sprintf("%q", all.all[serial].name))
		}
		s["synchronous_standby_names"] = fmt.Sprintf("%s %d (%s)", strings.ToUpper(sync.Method), sync.Number, strings.Join(names, ", "))
	}
	return s
}

func (op *Operator) leave(ctx context.Context, all *instances) {
	for _, serial := range slices.Backward(slices.Sorted(maps.Keys(all.all))) {
		if serial != all.primary {
			i := all.all[serial]
			i.stop(syscall.SIGINT)
			op.deletePod(ctx, i)
			_ = op.o.Client.Delete(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: i.name, Namespace: op.o.Namespace}})
			delete(all.all, serial)
			return
		}
	}
}

// digest is the same for the same settings.
func digest(all map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintln(sum, name, all[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// LosePrimary loses a cluster's primary with its volume, as with its machine. Another takes over at once, and the operator goes
// on saying that all is well.
func (op *Operator) LosePrimary(cluster string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	ctx := context.Background()
	all := op.clusters[cluster]
	old := all.all[all.primary]
	old.stop(syscall.SIGKILL)
	op.deletePod(ctx, old)
	delete(all.all, all.primary)
	_ = op.o.Client.Delete(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: old.name, Namespace: op.o.Namespace}})
	all.primary = op.foremost(ctx, all)
	next := all.all[all.primary]
	if _, err := next.sql(ctx, "postgres", "SELECT pg_promote()"); err != nil {
		op.t.Errorf("promote: %v", err)
	}
	if err := op.o.Client.Patch(ctx, next.pod, labelled(cnpg.RoleLabel, cnpg.PrimaryRole)); err != nil {
		op.t.Errorf("lead to the new primary: %v", err)
	}
	all.changed = op.now()
	all.timeline++
}

// foremost is the replica that has received most: one of them has each commit that waited for any.
func (op *Operator) foremost(ctx context.Context, all *instances) (serial int) {
	most := int64(-1)
	for _, n := range slices.Sorted(maps.Keys(all.all)) {
		rows, err := all.all[n].sql(ctx, "postgres", "SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0'), 0)::bigint")
		if err != nil {
			op.t.Errorf("how much replica %d has: %v", n, err)
			continue
		}
		if received, err := strconv.ParseInt(rows[0][0], 10, 64); err == nil && received > most {
			serial, most = n, received
		}
	}
	return serial
}

// Freeze stops a cluster's servers in the middle of what they do, or lets them go on; nobody is told.
func (op *Operator) Freeze(cluster string, frozen bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.stuck = frozen
	how := syscall.SIGCONT
	if frozen {
		how = syscall.SIGSTOP
	}
	for _, i := range op.clusters[cluster].all {
		_ = syscall.Kill(i.pid, how) // it runs
	}
}
