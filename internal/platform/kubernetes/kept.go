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

const (
	// beginTime is how long an operator may take to begin a backup; 1.30 looks again after half a minute when a Pod isn't ready.
	beginTime = 5 * time.Minute
	// archiveTime is how long is waited for a file of WAL to be archived that was finished.
	archiveTime = 2 * time.Minute
)

// NotArchivingReason is what customers are told whose database was made before the region had a place for backups.
const NotArchivingReason = "The database doesn't archive yet, since its region had no backups when it was made; it will after its next maintenance, or a restart by suspending and resuming it."

// KeepsBackups implements platform.BackupKeeper: none is in steward's archive.
func (d *Driver) KeepsBackups(cluster.Cluster) bool { return true }

func (n names) backup(id backup.ID) string { return fmt.Sprintf("%s-b%d", n.base(), id) }

// TakeBackup implements platform.BackupKeeper.
func (d *Driver) TakeBackup(ctx context.Context, want platform.Wanted, id backup.ID, from cluster.Role) (platform.Kept, error) {
	kept, err := d.takeBackup(ctx, want, id, from)
	if err != nil {
		return kept, fmt.Errorf("backup %d of cluster %d: %w", id, want.ID, err)
	}
	return kept, nil
}

func (d *Driver) takeBackup(ctx context.Context, want platform.Wanted, id backup.ID, from cluster.Role) (platform.Kept, error) {
	if !d.o.keepsBackups(want.Engine) {
		return platform.Kept{}, errNoStore
	}
	store, err := d.store(ctx)
	if err != nil {
		return platform.Kept{}, err
	}
	defer store.Close()
	v, err := d.look(ctx, d.live, want.ID)
	switch {
	case err != nil:
		return platform.Kept{}, err
	case v.object == nil:
		return platform.Kept{}, errors.New("the cluster's object is gone")
	case foreign(v.object, want.Cluster):
		return platform.Kept{}, errForeign(v.object)
	case v.object.GetAnnotations()[archiveAnnotation] == "":
		return platform.Kept{}, &platform.CustomerError{Reason: NotArchivingReason}
	}
	if err := d.beginBackup(ctx, v, id, from); err != nil {
		return platform.Kept{}, err
	}
	failpoint.Here("kubernetes: after a backup was asked for")
	made, err := d.awaitBackup(ctx, v, id)
	if err != nil {
		return platform.Kept{}, err
	}
	ref := reference{Archive: v.object.GetAnnotations()[archiveAnnotation], ID: made.BackupID, Begin: made.BeginWAL, End: made.EndWAL}
	return d.weigh(ctx, store, v, ref)
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

// DropBackup implements platform.BackupKeeper. The plugin removes nothing of a backup whose object is deleted (0.14).
func (d *Driver) DropBackup(ctx context.Context, of cluster.Cluster, id backup.ID, ref string) error {
	n := d.names(of.ID)
	there := &cnpg.Backup{}
	err := d.live.Get(ctx, n.key(n.backup(id)), there)
	if unlessGone(err) != nil {
		return fmt.Errorf("read %s: %w", n.backup(id), err)
	}
	if ref != "" {
		if err := d.dropFiles(ctx, of, ref); err != nil {
			return fmt.Errorf("remove backup %d of cluster %d: %w", id, of.ID, err)
		}
		failpoint.Here("kubernetes: after a backup's files are removed")
	}
	if err == nil {
		if err := d.drop(ctx, there); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) dropFiles(ctx context.Context, of cluster.Cluster, text string) error {
	ref, err := parseReference(text, of)
	if err != nil {
		return err
	}
	store, err := d.store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return store.DropBackup(ctx, ref.Archive, ref.ID)
}

// DropBackups implements platform.BackupKeeper.
func (d *Driver) DropBackups(ctx context.Context, of cluster.Cluster) error {
	store, err := d.store(ctx)
	if errors.Is(err, errNoStore) {
		return nil // and never was, or the operator of this server has taken it away with what is in it
	}
	if err != nil {
		return err
	}
	defer store.Close()
	archives, err := store.Servers(ctx, archivePrefix(of))
	if err != nil {
		return err
	}
	for _, a := range archives {
		if err := store.DropServer(ctx, a); err != nil {
			return fmt.Errorf("remove %s: %w", a, err)
		}
		failpoint.Here("kubernetes: after an archive is removed")
	}
	return nil
}

const (
	// straySince is how old something in the bucket is before it can be what a backup has left that failed.
	straySince = 24 * time.Hour
	// clockMargin is how far a bucket's clock may be from ours.
	clockMargin = time.Hour
)

// PruneBackups implements platform.BackupKeeper.
func (d *Driver) PruneBackups(ctx context.Context, of cluster.Cluster, keep []string) error {
	store, err := d.store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	used, err := d.objects(ctx, d.live, of.ID)
	if err != nil {
		return err
	}
	p := pruning{store: store, now: d.o.Now(), ids: map[string]map[string]bool{}, oldest: map[string]string{}, used: map[string]bool{}}
	for i := range used {
		p.used[used[i].Annotations[archiveAnnotation]] = true
	}
	for _, text := range keep {
		ref, err := parseReference(text, of)
		if err != nil {
			return err
		}
		p.keep(ref)
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
