package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/barman"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/wait"
)

// archiveTime is how long is waited for a file of WAL to be archived that was finished.
const archiveTime = 2 * time.Minute

// NotArchivingReason is what customers are told whose database was made before the region had a place for backups.
const NotArchivingReason = "The database doesn't archive yet, since its region had no backups when it was made; it will after its next maintenance, or a restart by suspending and resuming it."

func (cloudNativePG) archives() bool { return true }

// take implements keeping.
func (o cloudNativePG) take(ctx context.Context, store *barman.Store, _ platform.Wanted, v view, id backup.ID, from cluster.Role) (platform.Kept, error) {
	archive := v.object.GetAnnotations()[archiveAnnotation]
	if archive == "" {
		return platform.Kept{}, &platform.CustomerError{Reason: NotArchivingReason}
	}
	if err := o.d.beginBackup(ctx, v, id, from); err != nil {
		return platform.Kept{}, err
	}
	failpoint.Here("kubernetes: after a backup was asked for")
	made, err := o.d.awaitBackup(ctx, v, id)
	if err != nil {
		return platform.Kept{}, err
	}
	return o.d.weigh(ctx, store, v, reference{Archive: archive, ID: made.BackupID, Begin: made.BeginWAL, End: made.EndWAL})
}

func (cloudNativePG) own(context.Context, string) ([]client.Object, error) { return nil, nil }

func (cloudNativePG) asked() client.Object { return &cnpg.Backup{} }

func (cloudNativePG) dropFiles(ctx context.Context, store *barman.Store, r reference) error {
	return store.DropBackup(ctx, r.Archive, r.ID)
}

// beginBackup asks for one, unless it was asked for already. What failed before goes first.
func (d *Driver) beginBackup(ctx context.Context, v view, id backup.ID, from cluster.Role) error {
	wanted := &cnpg.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: cnpg.GroupVersion.String(), Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Name: v.backup(id), Namespace: v.namespace, Labels: v.labels()},
		Spec: cnpg.BackupSpec{
			Cluster: cnpg.Reference{Name: v.cluster()}, Method: cnpg.MethodPlugin, Target: cnpg.TargetPrimary,
			PluginConfiguration: &cnpg.Reference{Name: cnpg.BarmanPlugin},
		},
	}
	if from == cluster.Replica {
		wanted.Spec.Target = cnpg.TargetPreferStandby
	}
	for {
		there := &cnpg.Backup{}
		err := d.live.Get(ctx, client.ObjectKeyFromObject(wanted), there)
		switch {
		case isGone(err):
			return write(ctx, d.live, wanted)
		case err != nil:
			return fmt.Errorf("read %s: %w", wanted.Name, err)
		case there.DeletionTimestamp == nil && !failed(there) && there.Spec.Cluster == wanted.Spec.Cluster:
			return nil
		}
		if err := d.drop(ctx, there); err != nil {
			return err
		}
		if err := wait.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("%s, which failed, is still there: %w", wanted.Name, err)
		}
	}
}

// failed reports whether nothing comes of a backup any more. 1.30 leaves "walArchivingFailing" only when archiving works again, for
// which nobody should wait.
func failed(b *cnpg.Backup) bool {
	return b.Status.Phase == cnpg.PhaseFailed || b.Status.Phase == cnpg.PhaseInvalid || b.Status.Phase == cnpg.PhaseWALFailing
}

// awaitBackup waits until one is complete.
func (d *Driver) awaitBackup(ctx context.Context, v view, id backup.ID) (cnpg.BackupStatus, error) {
	began := d.o.Now()
	for pause := pollEvery; ; pause = min(2*pause, 2*time.Second) {
		b := &cnpg.Backup{}
		if err := d.live.Get(ctx, v.key(v.backup(id)), b); err != nil {
			return b.Status, fmt.Errorf("read %s: %w", v.backup(id), err)
		}
		s := b.Status
		switch {
		case failed(b):
			return s, fmt.Errorf("the operator says %s: %s", s.Phase, s.Error)
		case s.Phase == cnpg.PhaseCompleted && (s.BackupID == "" || s.BeginWAL == "" || s.EndWAL == ""):
			return s, errors.New("the operator says that it is completed, and not where it is")
		case s.Phase == cnpg.PhaseCompleted:
			return s, nil
		case (s.Phase == "" || s.Phase == cnpg.PhasePending) && d.o.Now().Sub(began) > beginTime:
			return s, fmt.Errorf("the operator hasn't begun it in %s", beginTime)
		}
		if err := wait.Sleep(ctx, pause); err != nil {
			return s, fmt.Errorf("the operator says %q: %w", s.Phase, err)
		}
	}
}

// weigh looks whether a backup that the operator calls completed can be restored: all that it needs has to be in the bucket. The
// operator says so before the last of its WAL is there (plugin-barman-cloud#652).
func (d *Driver) weigh(ctx context.Context, store *barman.Store, v view, ref reference) (platform.Kept, error) {
	stored, err := store.BackupSize(ctx, ref.Archive, ref.ID)
	if err != nil {
		return platform.Kept{}, err
	}
	if there, err := store.HasSegment(ctx, ref.Archive, ref.End); err == nil && !there {
		d.seal(ctx, v) // a copy of a replica's doesn't end the file that the primary is in
	}
	if err := d.awaitSegment(ctx, store, ref.Archive, ref.End); err != nil {
		return platform.Kept{}, err
	}
	kept := platform.Kept{Ref: ref.String(), StoredBytes: stored, Bytes: stored, Installation: v.object.Image()}
	for _, p := range d.ask(ctx, v) {
		if p.err == nil && p.used > 0 {
			kept.Bytes = p.used
		}
	}
	return kept, nil
}

// awaitSegment waits until a file of WAL is in the bucket.
func (d *Driver) awaitSegment(ctx context.Context, store *barman.Store, archive, segment string) error {
	ctx, cancel := context.WithTimeout(ctx, archiveTime)
	defer cancel()
	for pause := pollEvery; ; pause = min(2*pause, 2*time.Second) {
		there, err := store.HasSegment(ctx, archive, segment)
		if there {
			return nil
		}
		if wait.Sleep(ctx, pause) != nil {
			return errors.Join(fmt.Errorf("the WAL %s isn't archived", segment), err)
		}
	}
}

// prune implements keeping.
func (o cloudNativePG) prune(ctx context.Context, store *barman.Store, of cluster.Cluster, keep []reference) error {
	used, err := o.d.objects(ctx, o.d.live, of.ID)
	if err != nil {
		return err
	}
	p := pruning{store: store, now: o.d.o.Now(), ids: map[string]map[string]bool{}, oldest: map[string]string{}, used: map[string]bool{}}
	for _, u := range used {
		p.used[u.GetAnnotations()[archiveAnnotation]] = true
	}
	for _, r := range keep {
		p.keep(r)
	}
	archives, err := store.Servers(ctx, archivePrefix(of))
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range archives {
		if err := p.archive(ctx, a); err != nil {
			errs = append(errs, fmt.Errorf("prune %s: %w", a, err))
		}
	}
	return errors.Join(errs...)
}

// pruning is a cluster's; used are archives that servers may write to.
type pruning struct {
	store  *barman.Store
	now    time.Time
	ids    map[string]map[string]bool
	oldest map[string]string
	used   map[string]bool
}

func (p *pruning) keep(r reference) {
	if p.ids[r.Archive] == nil {
		p.ids[r.Archive] = map[string]bool{}
	}
	p.ids[r.Archive][r.ID] = true
	if len(r.Begin) == len("000000010000000000000001") && (p.oldest[r.Archive] == "" || r.Begin[8:] < p.oldest[r.Archive][8:]) {
		p.oldest[r.Archive] = r.Begin
	}
}

func (p *pruning) archive(ctx context.Context, name string) error {
	backups, err := p.store.Backups(ctx, name)
	if err != nil {
		return err
	}
	for _, id := range backups {
		if p.ids[name][id] {
			continue
		}
		last, err := p.store.Begun(ctx, name, id)
		if err != nil {
			return err
		}
		if p.now.Sub(last) > straySince {
			if err := p.store.DropBackup(ctx, name, id); err != nil {
				return err
			}
		}
	}
	if oldest := p.oldest[name]; oldest != "" {
		return p.store.DropSegments(ctx, name, oldest, p.now.Add(-clockMargin))
	}
	if p.used[name] || len(p.ids[name]) > 0 {
		return nil
	}
	last, err := p.store.LastArchived(ctx, name)
	if err != nil || p.now.Sub(last) < straySince {
		return err
	}
	return p.store.DropServer(ctx, name)
}
