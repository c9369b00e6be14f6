package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/barman"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
	"steward/internal/wait"
)

const (
	// keptForever is longer than anybody keeps a backup: by default the operator removes what is older than 30 days, and steward decides that.
	keptForever = "876000h"
	// backupTries is how often the operator tries again by itself; 0 is five times. What fails then steward begins anew.
	backupTries = 1
	// stagedBackup and stagedRestore are how many times the data's size a backup takes on its way: as it is and compressed, and unpacked as well.
	stagedBackup, stagedRestore = 2, 3
	// jobLabel is on the Pods of jobs.
	jobLabel = "batch.kubernetes.io/job-name"
	// amazon is where buckets are unless somebody says where.
	amazon = "s3.amazonaws.com"
)

func (mariaDBOperator) archives() bool { return false }

func (mariaDBOperator) asked() client.Object { return &mariadb.PhysicalBackup{} }

// copyOf is where a backup is: a folder of its own, so that nobody has to guess the names of files, and that it goes as a whole.
func copyOf(of cluster.Cluster, id backup.ID) reference {
	return reference{Archive: archivePrefix(of) + "b" + strconv.FormatInt(int64(id), 10), ID: strconv.FormatInt(int64(id), 10)}
}

// take implements keeping.
func (o mariaDBOperator) take(ctx context.Context, store *barman.Store, want platform.Wanted, v view, id backup.ID, _ cluster.Role) (platform.Kept, error) {
	ref := copyOf(want.Cluster, id)
	wanted, err := o.wantedBackup(ctx, want, v, id, ref)
	if err != nil {
		return platform.Kept{}, err
	}
	if err := o.askFor(ctx, wanted); err != nil {
		return platform.Kept{}, err
	}
	failpoint.Here("kubernetes: after a backup was asked for")
	if err := o.awaitCopy(ctx, v, wanted); err != nil {
		return platform.Kept{}, err
	}
	stored, _, err := store.Folder(ctx, ref.Archive)
	if err == nil && stored == 0 {
		err = errors.New("the operator says that it is complete, and nothing of it is in the bucket")
	}
	if err != nil {
		return platform.Kept{}, errors.Join(err, o.d.drop(ctx, wanted)) // else the next attempt would find the same
	}
	failpoint.Here("kubernetes: after a backup is in the bucket")
	kept := platform.Kept{Ref: ref.String(), StoredBytes: stored, Bytes: stored, Installation: v.object.Image()}
	for _, p := range o.d.ask(ctx, v) {
		if p.err == nil && p.used > 0 {
			kept.Bytes = p.used
		}
	}
	return kept, o.d.drop(ctx, wanted) // the volume goes with it that its files went through
}

// wantedBackup is what the operator is asked for. Its Pods bear our label, as those that are let in to servers.
func (o mariaDBOperator) wantedBackup(ctx context.Context, want platform.Wanted, v view, id backup.ID, ref reference) (*mariadb.PhysicalBackup, error) {
	place, err := o.place(ctx, ref)
	if err != nil {
		return nil, err
	}
	made := desired{names: v.names, o: &o.d.o, op: o, want: want, diskMB: want.Plan.DiskMB}
	if size, err := resource.ParseQuantity(v.object.Disk()); err == nil {
		made.diskMB = int(size.Value() >> 20)
	}
	return made.physicalBackup(id, place), nil
}

func (d desired) physicalBackup(id backup.ID, place *mariadb.S3) *mariadb.PhysicalBackup {
	return &mariadb.PhysicalBackup{
		TypeMeta: metav1.TypeMeta{APIVersion: mariadb.GroupVersion.String(), Kind: "PhysicalBackup"}, ObjectMeta: d.meta(d.backup(id)),
		Spec: mariadb.BackupSpec{
			MariaDBRef: mariadb.Reference{Name: d.cluster()}, Target: mariadb.PreferReplica, Compression: mariadb.Gzip,
			Storage: mariadb.BackupStorage{S3: place}, StagingStorage: d.staging(stagedBackup),
			MaxRetention: keptForever, Timeout: longest.String(), BackoffLimit: backupTries, RestartPolicy: string(corev1.RestartPolicyNever),
			InheritMetadata: &mariadb.Metadata{Labels: d.labels()},
		},
	}
}

// staging is a volume of the same class as the data's: what is encrypted stays so, and no machine's disk fills.
func (d desired) staging(times int) *mariadb.Staging {
	size := *resource.NewQuantity(int64(times)*int64(d.diskMB)<<20, resource.BinarySI)
	return &mariadb.Staging{Claim: &mariadb.Claim{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: d.storageClass(),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
	}}
}

// place is a folder of the region's bucket, as the operator is told of it.
func (o mariaDBOperator) place(ctx context.Context, ref reference) (*mariadb.S3, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	said, options, err := describedStore(ctx, o.d.live, o.d.o)
	if err != nil {
		return nil, err
	}
	s3, err := placeOf(said, options, ref.Archive)
	if err != nil {
		return nil, fmt.Errorf("the object store %s: %w", o.d.o.ObjectStore, err)
	}
	return s3, nil
}

func placeOf(said cnpg.BarmanConfiguration, options barman.Options, folder string) (*mariadb.S3, error) {
	at, err := url.Parse(said.DestinationPath)
	if err != nil {
		return nil, fmt.Errorf("destinationPath: %w", err)
	}
	server, err := url.Parse(cmp.Or(said.EndpointURL, "https://"+amazon))
	if err != nil {
		return nil, fmt.Errorf("endpointURL: %w", err)
	}
	if server.Host == "" || strings.Trim(server.Path, "/") != "" {
		return nil, fmt.Errorf("endpointURL is %q, and MariaDB's operator can only be told a host and a port", said.EndpointURL)
	}
	s3 := &mariadb.S3{Bucket: at.Host, Endpoint: server.Host, Prefix: path.Join(strings.Trim(at.Path, "/"), folder) + "/", Region: options.Region}
	if keys := said.S3Credentials; keys != nil {
		s3.AccessKeyID, s3.SecretAccessKey, s3.SessionToken = keyOf(keys.AccessKeyID), keyOf(keys.SecretAccessKey), keyOf(keys.SessionToken)
	}
	if server.Scheme == "https" {
		s3.TLS = &mariadb.S3TLS{Enabled: true, CASecretRef: keyOf(said.EndpointCA)}
	}
	return s3, nil
}

func keyOf(k *cnpg.KeyReference) *mariadb.KeyReference {
	if k == nil {
		return nil
	}
	return &mariadb.KeyReference{Name: k.Name, Key: k.Key}
}

// askFor asks for a backup, unless it was asked for already. What failed before goes first.
func (o mariaDBOperator) askFor(ctx context.Context, wanted *mariadb.PhysicalBackup) error {
	for {
		there := &mariadb.PhysicalBackup{}
		err := o.d.live.Get(ctx, client.ObjectKeyFromObject(wanted), there)
		switch {
		case isGone(err):
			return write(ctx, o.d.live, wanted)
		case err != nil:
			return fmt.Errorf("read %s: %w", wanted.Name, err)
		case there.DeletionTimestamp == nil && !there.Failed() && there.Spec.MariaDBRef == wanted.Spec.MariaDBRef:
			return nil
		}
		if err := o.d.drop(ctx, there); err != nil {
			return err
		}
		if err := wait.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("%s, which failed, is still there: %w", wanted.Name, err)
		}
	}
}

// awaitCopy waits until the operator says that a backup is complete, which it says of one that failed, too.
func (o mariaDBOperator) awaitCopy(ctx context.Context, v view, wanted *mariadb.PhysicalBackup) error {
	began := o.d.o.Now()
	for pause := pollEvery; ; pause = min(2*pause, 2*time.Second) {
		b := &mariadb.PhysicalBackup{}
		if err := o.d.live.Get(ctx, client.ObjectKeyFromObject(wanted), b); err != nil {
			return fmt.Errorf("read %s: %w", wanted.Name, err)
		}
		said := b.Complete()
		switch {
		case b.Failed():
			return fmt.Errorf("the operator says %s: %s", said.Reason, cmp.Or(o.whyFailed(ctx, v, wanted.Name), said.Message))
		case said != nil && said.Status == metav1.ConditionTrue:
			return nil
		case (said == nil || said.Reason != mariadb.JobRunning) && o.d.o.Now().Sub(began) > beginTime:
			return fmt.Errorf("the operator hasn't begun it in %s: %s", beginTime, told(said))
		}
		if err := wait.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("the operator says %q: %w", told(said), err)
		}
	}
}

func told(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}

// whyFailed is what the containers of a backup's Pods ended with, the last one's last; "" when nobody knows any more.
func (o mariaDBOperator) whyFailed(ctx context.Context, v view, name string) string {
	var pods corev1.PodList
	if err := o.d.live.List(ctx, &pods, client.InNamespace(v.namespace), of(v.id)); err != nil {
		return ""
	}
	var why []string
	for _, p := range pods.Items {
		if !strings.HasPrefix(p.Name, name+"-") {
			continue
		}
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if ended := s.State.Terminated; ended != nil && ended.ExitCode != 0 {
				why = append(why, strings.TrimSpace(fmt.Sprintf("%s of %s ended with %d %s %s", s.Name, p.Name, ended.ExitCode, ended.Reason, ended.Message)))
			}
		}
	}
	slices.Sort(why) // names have moments in them
	return strings.Join(why, "; ")
}

func (mariaDBOperator) dropFiles(ctx context.Context, store *barman.Store, r reference) error {
	return store.DropServer(ctx, r.Archive)
}

// prune implements keeping: what is left is of backups that failed.
func (o mariaDBOperator) prune(ctx context.Context, store *barman.Store, of cluster.Cluster, keep []reference) error {
	all, err := store.Servers(ctx, archivePrefix(of))
	if err != nil {
		return err
	}
	var errs []error
	for _, folder := range all {
		if slices.ContainsFunc(keep, func(r reference) bool { return r.Archive == folder }) {
			continue
		}
		_, last, err := store.Folder(ctx, folder)
		if err == nil && o.d.o.Now().Sub(last) > straySince {
			err = store.DropServer(ctx, folder)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("prune %s: %w", folder, err))
		}
	}
	return errors.Join(errs...)
}

// begin implements keeping. A backup that isn't there would be waited for: the operator tells nobody.
func (o mariaDBOperator) begin(ctx context.Context, made *desired, from platform.KeptSource, r reference) (time.Time, error) {
	if from.Until != nil {
		return time.Time{}, fmt.Errorf("%w: of MariaDB nothing is archived between backups", platform.ErrGap)
	}
	store, err := o.d.store(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer store.Close()
	stored, _, err := store.Folder(ctx, r.Archive)
	if err != nil {
		return time.Time{}, err
	}
	if stored == 0 {
		return time.Time{}, fmt.Errorf("%w: %s isn't in the bucket", platform.ErrRestoreFails, r.Archive)
	}
	place, err := o.place(ctx, r)
	if err != nil {
		return time.Time{}, err
	}
	made.bootstrap = &mariadb.BootstrapFrom{S3: place, BackupContentType: mariadb.Physical, StagingStorage: made.staging(stagedRestore)}
	return time.Time{}, nil
}

// keep implements keeping: what a generation began with can't be changed.
func (mariaDBOperator) keep(made *desired, o object) {
	made.bootstrap = o.(*mariadb.MariaDB).Spec.BootstrapFrom
}

// own implements keeping: its secrets, and the volume of one whose restore hasn't ended, which is nobody's.
func (o mariaDBOperator) own(ctx context.Context, object string) ([]client.Object, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := o.d.live.List(ctx, &claims, client.InNamespace(o.d.o.Namespace), client.MatchingLabels(o.labels(object))); err != nil {
		return nil, fmt.Errorf("list what %s leaves: %w", object, err)
	}
	var all []client.Object
	for _, name := range []string{object + "-tls", object + "-files"} {
		all = append(all, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: o.d.o.Namespace}})
	}
	for i := range claims.Items {
		all = append(all, &claims.Items[i])
	}
	return all, nil
}

// mayWrite implements keeping. A fork's server isn't ready before it has its passwords.
func (mariaDBOperator) mayWrite(v view, p *corev1.Pod) bool {
	s := state(p)
	return p.DeletionTimestamp == nil && s != nil && s.State.Running != nil && (v.object.Leader() == "" || v.object.Leader() == p.Name)
}

// failures implements keeping. The operator doesn't say that its job fails, or the server that comes after.
func (o mariaDBOperator) failures(ctx context.Context, v view) (int, error) {
	var pods corev1.PodList
	err := o.d.live.List(ctx, &pods, client.InNamespace(v.namespace), client.MatchingLabels(o.labels(v.cluster())))
	failed := 0
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodFailed {
			failed++
		}
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			failed += int(s.RestartCount)
		}
	}
	return failed, err
}

// takeOver implements keeping: a backup has the passwords of its time, and one of another cluster that one's. The server is ready once the operator's is right.
func (o mariaDBOperator) takeOver(ctx context.Context, n names, node engine.Node) error {
	if err := o.placed.TakeOver(ctx, node, superuserPassword([]byte(node.AdminPassword))); err != nil {
		return err
	}
	for pause := pollEvery; ; pause = min(2*pause, time.Second) {
		v, err := o.d.lookAt(ctx, o.d.live, n)
		if err == nil && slices.ContainsFunc(v.pods, func(p corev1.Pod) bool { return ready(&p) && role(&p) == cluster.Primary }) {
			return nil
		}
		if wait.Sleep(ctx, pause) != nil {
			return fmt.Errorf("%s isn't ready: %w", n.cluster(), errors.Join(err, ctx.Err()))
		}
	}
}
