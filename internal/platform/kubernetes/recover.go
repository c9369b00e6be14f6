package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/wait"
)

const (
	// recoveryTries is how many Pods of a recovery may fail; the operator makes another each time.
	recoveryTries = 3
	// leftOver is how long after its end what was begun is left over for sure, and longest how long a recovery takes that knows no end.
	leftOver = 5 * time.Minute
	longest  = 13 * time.Hour
	// targetFormat is how the operator's manual writes moments, and PostgreSQL reads them in its configuration: there it knows no Z yet.
	targetFormat = "2006-01-02 15:04:05.000000+00"
	// originName is what a recovery calls the place that it reads from.
	originName = "origin"
)

// RestoreKept implements platform.BackupKeeper: the backup becomes another generation. The one before serves until it does.
func (d *Driver) RestoreKept(ctx context.Context, want platform.Wanted, from platform.KeptSource, placing func() error) (time.Time, error) {
	reached, err := d.restoreKept(ctx, want, from, placing)
	if err != nil {
		return reached, fmt.Errorf("restore cluster %d: %w", want.ID, err)
	}
	return reached, nil
}

func (d *Driver) restoreKept(ctx context.Context, want platform.Wanted, from platform.KeptSource, placing func() error) (time.Time, error) {
	op, err := d.keeperOf(want.Engine)
	if err != nil {
		return time.Time{}, err
	}
	is, err := d.look(ctx, d.live, want.ID)
	if err != nil {
		return time.Time{}, err
	}
	if is.object != nil && foreign(is.object, want.Cluster) {
		return time.Time{}, errForeign(is.object)
	}
	if is.object != nil && is.object.GetAnnotations()[originAnnotation] == from.Token {
		return d.finishRestore(ctx, op, is.names)
	}
	next, err := d.begun(ctx, want, is, from)
	if err != nil {
		return time.Time{}, err
	}
	failpoint.Here("kubernetes: after a restore was begun")
	node, err := d.awaitWriter(ctx, next.names, nil)
	if err != nil {
		return time.Time{}, d.dropAfter(ctx, op, next.names, err)
	}
	if err := d.takeOver(ctx, op, next.names, node, ""); err != nil {
		return time.Time{}, err
	}
	if err := placing(); err != nil {
		return time.Time{}, err
	}
	if err := d.lead(ctx, next); err != nil {
		return time.Time{}, err
	}
	failpoint.Here("kubernetes: after a restore was led to")
	return d.finishRestore(ctx, op, next.names)
}

// begun is the generation that the backup becomes: one that was begun for the same request, or a new one.
func (d *Driver) begun(ctx context.Context, want platform.Wanted, is view, from platform.KeptSource) (made desired, err error) {
	all, err := d.objects(ctx, d.live, want.ID)
	if err != nil {
		return made, err
	}
	for _, c := range all {
		if c.GetAnnotations()[unfinishedAnnotation] == "" || generationOf(c) == 0 || c.GetDeletionTimestamp() != nil {
			continue
		}
		if c.GetAnnotations()[originAnnotation] == from.Token {
			return d.desire(ctx, want, view{names: is.names.of(generationOf(c)), object: c})
		}
		if err := d.dropGeneration(ctx, c); err != nil {
			return made, err
		}
	}
	left, err := d.leftovers(ctx, of(want.ID))
	if err == nil {
		err = d.dropOrphans(ctx, left, d.o.Now().Add(clockMargin)) // of whomever: the cluster's lease is ours
	}
	if err != nil {
		return made, err
	}
	generation, err := d.nextGeneration(ctx, want.ID)
	if err != nil {
		return made, err
	}
	if made, err = d.desire(ctx, want, view{names: is.names.of(generation)}); err != nil {
		return made, err
	}
	began := timelines{timeline: 1}
	if is.object != nil { // else its data is gone: all else is as it was
		made.image = is.object.Image()
		var before platform.Observed
		is.op.addFailovers(is, &before)
		began.failovers = before.Failovers
	}
	return made, d.makeOf(ctx, &made, is, from, began)
}

// makeOf makes a generation of a backup. Nobody is let in.
func (d *Driver) makeOf(ctx context.Context, made *desired, is view, from platform.KeptSource, began timelines) error {
	ref, err := parseReference(from.Ref, from.Of)
	if err != nil {
		return err
	}
	reached, err := made.op.begin(ctx, made, from, ref)
	if err != nil {
		return err
	}
	policy := made.policy() // which is for the generation that serves, too
	made.want.LockedOut = true
	made.notes = map[string]string{
		originAnnotation: from.Token, unfinishedAnnotation: d.until(ctx), timelinesAnnotation: began.String(),
	}
	if !reached.IsZero() {
		made.notes[reachedAnnotation] = reached.UTC().Format(time.RFC3339Nano)
	}
	kept, err := d.tlsSecret(ctx, made.op, made.names)
	if err != nil {
		return err
	}
	secrets, err := d.secrets(ctx, made, is, kept, true)
	if err != nil {
		return err
	}
	object, err := made.op.object(*made)
	if err != nil {
		return err
	}
	for _, o := range append([]client.Object{policy}, append(secrets, object)...) {
		if err := write(ctx, d.live, o); err != nil {
			return err
		}
	}
	return nil
}

// until is when what is begun now is left over for sure, unless it is finished.
func (d *Driver) until(ctx context.Context) string {
	end := d.o.Now().Add(longest)
	if deadline, ok := ctx.Deadline(); ok {
		end = d.o.Now().Add(time.Until(deadline) + leftOver)
	}
	return end.UTC().Format(time.RFC3339)
}

// begin implements keeping.
func (o cloudNativePG) begin(ctx context.Context, made *desired, from platform.KeptSource, ref reference) (time.Time, error) {
	target, reached, err := o.d.target(ctx, from, ref)
	if err == nil {
		made.recover(o.d.o.ObjectStore, ref, target)
	}
	return reached, err
}

// recover has the first instance begin with a backup.
func (d *desired) recover(store string, ref reference, target *cnpg.RecoveryTarget) {
	database, owner := d.op.(cloudNativePG).told.FirstDatabase()
	d.begin = &cnpg.Bootstrap{Recovery: &cnpg.Recovery{
		Source: originName, Database: database, Owner: owner, Secret: &cnpg.Reference{Name: d.root()}, RecoveryTarget: target,
	}}
	d.from = []cnpg.ExternalCluster{{Name: originName, Plugin: &cnpg.Plugin{
		Name: cnpg.BarmanPlugin, Parameters: map[string]string{cnpg.BarmanObjectName: store, cnpg.ServerName: ref.Archive},
	}}}
}

// finishRestore sets aside what was replaced, once customers are led to a generation. It returns the moment that its data is of.
func (d *Driver) finishRestore(ctx context.Context, op operator, n names) (reached time.Time, err error) {
	if err := d.setAside(ctx, n); err != nil {
		return reached, err
	}
	failpoint.Here("kubernetes: after what was restored over is set aside")
	now := op.blank()
	if err := d.live.Get(ctx, n.key(n.cluster()), now); err != nil {
		return reached, fmt.Errorf("read %s: %w", n.cluster(), err)
	}
	if text := now.GetAnnotations()[reachedAnnotation]; text != "" {
		if reached, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return reached, fmt.Errorf("annotation %s of %s: %w", reachedAnnotation, n.cluster(), err)
		}
	}
	if now.GetAnnotations()[unfinishedAnnotation] == "" {
		return reached, nil
	}
	began := timelinesOf(now)
	began.timeline = max(1, now.Timeline())
	return reached, d.annotate(ctx, now, map[string]string{unfinishedAnnotation: "", timelinesAnnotation: began.String()})
}

// dropAfter removes a generation that no server comes up on. What ends with ctx is gone on with by the next run.
func (d *Driver) dropAfter(ctx context.Context, op operator, n names, err error) error {
	if !errors.Is(err, platform.ErrRestoreFails) {
		return err
	}
	return errors.Join(err, d.dropGeneration(ctx, n.object(op)))
}

// target is where a recovery ends, and the moment that its data is of; zero for the backup's own. PostgreSQL refuses to end a recovery at
// a moment that nothing archived is from after. So something is, where the servers run; what was archived before they rested has it, too.
func (d *Driver) target(ctx context.Context, from platform.KeptSource, ref reference) (*cnpg.RecoveryTarget, time.Time, error) {
	if from.Until == nil {
		return &cnpg.RecoveryTarget{BackupID: ref.ID, TargetImmediate: new(true)}, time.Time{}, nil
	}
	store, err := d.store(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer store.Close()
	exact := &cnpg.RecoveryTarget{BackupID: ref.ID, TargetTime: from.Until.UTC().Format(targetFormat)}
	segment, err := d.sealArchive(ctx, from.Of.ID, ref.Archive)
	if err == nil && segment != "" {
		err = d.awaitSegment(ctx, store, ref.Archive, segment)
		if err == nil {
			return exact, *from.Until, nil
		}
	}
	if err != nil {
		d.o.Logger.WarnContext(ctx, "what a database has written last isn't archived; what is counts", "cluster_id", from.Of.ID, "error", err)
	}
	last, err := store.LastArchived(ctx, ref.Archive)
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case last.IsZero():
		return nil, time.Time{}, fmt.Errorf("%w: nothing of %s is there", platform.ErrGap, ref.Archive)
	case from.Until.Before(last):
		return exact, *from.Until, nil
	}
	return &cnpg.RecoveryTarget{BackupID: ref.ID}, last, nil
}

// sealArchive seals what servers write under a name now; "" when none does.
func (d *Driver) sealArchive(ctx context.Context, id cluster.ID, archive string) (segment string, err error) {
	v, err := d.look(ctx, d.live, id)
	if err != nil || v.object == nil || v.object.GetAnnotations()[archiveAnnotation] != archive || v.hibernates() {
		return "", err
	}
	return d.sealNow(ctx, v)
}

// seal has what was written be archived up to its last change, with one after it. It is tried, and no more: servers that don't answer have nothing to add.
func (d *Driver) seal(ctx context.Context, v view) {
	if v.object == nil || v.object.GetAnnotations()[archiveAnnotation] == "" {
		return
	}
	if _, err := d.sealNow(ctx, v); err != nil {
		d.o.Logger.WarnContext(ctx, "the end of what was written isn't archived for sure", "cluster_id", v.id, "error", err)
	}
}

func (d *Driver) sealNow(ctx context.Context, v view) (segment string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for i := range v.pods {
		p := &v.pods[i]
		if role(p) != cluster.Primary || !ready(p) {
			continue
		}
		node, err := d.node(ctx, v, p)
		if err != nil {
			return "", err
		}
		return d.postgres.told.Seal(ctx, node)
	}
	return "", nil
}

// awaitWriter waits until a generation's primary takes writes from us, and returns how it is reached. admins are passwords of our account to try, beside the
// cluster's own. The error is ErrRestoreFails when its recovery fails again and again.
func (d *Driver) awaitWriter(ctx context.Context, n names, admins []string) (engine.Node, error) {
	for pause := pollEvery; ; pause = min(2*pause, time.Second) {
		v, err := d.lookAt(ctx, d.live, n)
		if err == nil && v.object == nil {
			return engine.Node{}, fmt.Errorf("%s vanished", n.cluster())
		}
		if err == nil {
			var node engine.Node
			if node, err = d.writerOf(ctx, v, admins); err == nil {
				return node, nil
			}
			if failed, listed := v.op.failures(ctx, v); listed == nil && failed >= recoveryTries {
				return node, fmt.Errorf("%w: its Pods failed %d times; the operator says %s", platform.ErrRestoreFails, failed, v.object.Says())
			}
		}
		if wait.Sleep(ctx, pause) != nil {
			return engine.Node{}, fmt.Errorf("%s doesn't serve: %w", n.cluster(), errors.Join(err, ctx.Err()))
		}
	}
}

// writerOf is the primary of a generation, which takes writes from us.
func (d *Driver) writerOf(ctx context.Context, v view, admins []string) (node engine.Node, err error) {
	err = errors.New("it has no primary")
	for i := range v.pods {
		p := &v.pods[i]
		if !v.op.mayWrite(v, p) {
			continue
		}
		if node, err = d.node(ctx, v, p); err != nil {
			return node, err
		}
		node.Role = cluster.Primary
		node.Remote.Name = v.host() // the certificate may be from before the load balancer gave an address
		for _, admin := range append([]string{node.AdminPassword}, admins...) {
			node.AdminPassword = admin
			if err = d.writes(ctx, v.op, node); err == nil || !errors.Is(err, engine.ErrAuthentication) {
				return node, err
			}
		}
	}
	return node, err
}

func (d *Driver) writes(ctx context.Context, op operator, node engine.Node) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	status, err := op.driver().ReplicationStatus(ctx, node)
	if err == nil && !status.Writable {
		err = errors.New("its primary takes no writes yet")
	}
	return err
}

// failures implements keeping: Pods that were to recover it.
func (o cloudNativePG) failures(ctx context.Context, v view) (int, error) {
	var pods corev1.PodList
	err := o.d.live.List(ctx, &pods, client.InNamespace(v.namespace), client.MatchingLabels{cnpg.ClusterLabel: v.cluster(), cnpg.JobLabel: cnpg.RecoveryJob})
	failed := 0
	for _, p := range pods.Items {
		if p.Status.Phase == corev1.PodFailed {
			failed++
		}
	}
	return failed, err
}

// mayWrite implements keeping.
func (cloudNativePG) mayWrite(_ view, p *corev1.Pod) bool {
	return role(p) == cluster.Primary && ready(p)
}

// ForkKept implements platform.BackupKeeper.
func (d *Driver) ForkKept(ctx context.Context, want platform.Wanted, from platform.KeptSource) (time.Time, error) {
	reached, err := d.forkKept(ctx, want, from)
	if err != nil {
		return reached, fmt.Errorf("fork cluster %d: %w", want.ID, err)
	}
	return reached, nil
}

func (d *Driver) forkKept(ctx context.Context, want platform.Wanted, from platform.KeptSource) (time.Time, error) {
	op, err := d.keeperOf(want.Engine)
	if err != nil {
		return time.Time{}, err
	}
	is, err := d.look(ctx, d.live, want.ID)
	if err != nil {
		return time.Time{}, err
	}
	if is.object != nil && (is.object.GetAnnotations()[originAnnotation] != from.Token || foreign(is.object, want.Cluster)) {
		if err := d.remove(ctx, want.Cluster); err != nil {
			return time.Time{}, err
		}
		is = view{names: d.names(want.ID)}
	}
	made, err := d.desire(ctx, want, is)
	if err != nil {
		return time.Time{}, err
	}
	if is.object == nil {
		if err := d.makeOf(ctx, &made, is, from, timelines{timeline: 1}); err != nil {
			return time.Time{}, err
		}
	}
	if err := d.lead(ctx, made); err != nil { // whose address is asked for meanwhile
		return time.Time{}, err
	}
	failpoint.Here("kubernetes: after a fork was begun")
	node, err := d.awaitWriter(ctx, is.names, []string{from.AdminPassword})
	if err != nil {
		return time.Time{}, d.dropAfter(ctx, op, is.names, err)
	}
	if err := d.takeOver(ctx, op, is.names, node, from.AdminPassword); err != nil {
		return time.Time{}, err
	}
	return d.finishRestore(ctx, op, is.names)
}

// takeOver gives a server that came up on a backup the cluster's passwords of today. source is that of our account in a fork's source.
func (d *Driver) takeOver(ctx context.Context, op operator, n names, node engine.Node, source string) error {
	k, err := d.keys(ctx, n.id)
	if err != nil {
		return err
	}
	root, err := d.o.Secrets.Secret(ctx, n.id, platform.RootPassword)
	if err != nil {
		return fmt.Errorf("secret %s: %w", platform.RootPassword, err)
	}
	node.AdminPassword, node.TemplatePassword, node.RootPassword = string(k.admin), source, string(root)
	return op.takeOver(ctx, n, node)
}

// takeOver implements keeping: the operator has set the owner's password, and of no other cluster's backup all else is ours already.
func (o cloudNativePG) takeOver(ctx context.Context, _ names, node engine.Node) error {
	if node.TemplatePassword == "" {
		return nil
	}
	return o.pg.Bootstrap(ctx, node)
}

// VerifyKept implements platform.BackupKeeper.
func (d *Driver) VerifyKept(ctx context.Context, want platform.Wanted, from platform.KeptSource) error {
	n := d.names(want.ID)
	n.generation, n.scratch = 0, from.Backup
	op, err := d.keeperOf(want.Engine)
	if err == nil {
		err = d.removeScratch(ctx, op, n) // what a crash has left
	}
	if err != nil {
		return fmt.Errorf("verify backup %d of cluster %d: %w: %w", from.Backup, want.ID, platform.ErrUnverified, err)
	}
	err = d.verifyKept(ctx, op, want, n, from)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratchGone)
	defer cancel()
	if left := d.removeScratch(ending, op, n); left != nil {
		err = cmp.Or(err, fmt.Errorf("%w: %w", platform.ErrUnverified, left))
	}
	if err != nil {
		return fmt.Errorf("verify backup %d of cluster %d: %w", from.Backup, want.ID, err)
	}
	return nil
}

const (
	// scratchGone is how long a scratch server may take to be gone.
	scratchGone = time.Minute
	// checkBase and slowestRate, in bytes a second, bound the check of a table or an index.
	checkBase   = 30 * time.Second
	slowestRate = 4 << 20
)

// verifyKept has a server of one node come up on a backup, with one processor, and looks through all of it.
func (d *Driver) verifyKept(ctx context.Context, op operator, want platform.Wanted, n names, from platform.KeptSource) error {
	unverified := func(err error) error {
		if errors.Is(err, platform.ErrRestoreFails) {
			return err
		}
		return fmt.Errorf("%w: %w", platform.ErrUnverified, err)
	}
	is, err := d.look(ctx, d.live, want.ID)
	if err != nil {
		return unverified(err)
	}
	want.Size, want.Replication, want.Commit, want.Config, want.ReadOnly, want.Patch, want.Suspended = 1, "", "", nil, false, false, false
	want.Plan.VCPUs = 1
	made, err := d.desire(ctx, want, view{names: n})
	if err != nil {
		return unverified(err)
	}
	if is.object != nil {
		made.image = is.object.Image()
	}
	made.archive, made.plugins = "", nil // it writes nothing that anybody needs
	if err := d.makeOf(ctx, &made, is, from, timelines{timeline: 1}); err != nil {
		return unverified(err)
	}
	failpoint.Here("kubernetes: after a verification was begun")
	node, err := d.awaitWriter(ctx, n, nil)
	if err != nil {
		return unverified(err)
	}
	within := func(bytes int64) time.Duration { return checkBase + time.Duration(bytes/slowestRate)*time.Second }
	if err = op.driver().Check(ctx, node, within); err == nil {
		return nil
	}
	// What ends a look isn't damage: the Pod may have gone, or the way to it.
	if ctx.Err() != nil || errors.Is(err, engine.ErrUnchecked) || d.writes(ctx, op, node) != nil {
		return unverified(err)
	}
	return err
}

// removeScratch leaves nothing of a scratch server.
func (d *Driver) removeScratch(ctx context.Context, op operator, n names) error {
	gone := n.object(op)
	for {
		err := d.live.Delete(ctx, gone)
		if unlessGone(err) != nil {
			return fmt.Errorf("remove %s: %w", gone.GetName(), err)
		}
		if err != nil {
			if err := d.dropOwn(ctx, op, gone.GetName()); err != nil {
				return err
			}
			left, err := d.ofCluster(ctx, op, n)
			if err != nil || left == 0 {
				return err
			}
		}
		if err := wait.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("%s is still there: %w", gone.GetName(), err)
		}
	}
}

// object is the operator's object of a name, of which nothing else is known.
func (n names) object(op operator) object {
	o := op.blank()
	o.SetName(n.cluster())
	o.SetNamespace(n.namespace)
	return o
}

// ofCluster counts what the operator has made for one of its clusters.
func (d *Driver) ofCluster(ctx context.Context, op operator, n names) (int, error) {
	count := 0
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}} {
		if err := d.live.List(ctx, list, client.InNamespace(n.namespace), client.MatchingLabels(op.labels(n.cluster()))); err != nil {
			return 0, fmt.Errorf("list what is left of %s: %w", n.cluster(), err)
		}
		switch l := list.(type) {
		case *corev1.PodList:
			count += len(l.Items)
		case *corev1.PersistentVolumeClaimList:
			count += len(l.Items)
		}
	}
	return count, nil
}
