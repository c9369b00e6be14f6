package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/platform"
)

// applyTimeout bounds a pass whose caller set no limit.
const applyTimeout = 90 * time.Second

// Apply implements platform.Applier.
func (d *Driver) Apply(ctx context.Context, want platform.Wanted) (platform.Observed, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	op := d.operatorOf(want.Engine)
	if op == nil {
		return platform.Observed{Problem: fmt.Sprintf("%s doesn't run in this region", want.Engine), Permanent: true}, nil
	}
	if op.lacks().Nodes && want.Size > 1 {
		return platform.Observed{Problem: fmt.Sprintf("%s has one node in this region", want.Engine), Permanent: true}, nil
	}
	is, err := d.look(ctx, d.live, want.ID)
	changed := true
	if err == nil {
		changed, err = d.bring(ctx, want, is)
	}
	if d.applied(want.ID) || changed || err != nil {
		d.forgetProbes(want.ID)
	} // else the servers were just asked, and nothing has happened since: a start looks at all clusters
	var problem *permanentError
	if err != nil && !errors.As(err, &problem) {
		return platform.Observed{}, fmt.Errorf("cluster %d: %w", want.ID, err)
	}
	if changed || err != nil {
		is, err = d.look(ctx, d.live, want.ID)
	}
	if err == nil {
		err = op.admit(ctx, is)
	}
	var seen platform.Observed
	if err == nil {
		seen, err = d.settle(ctx, want, is)
	}
	if err != nil {
		return seen, fmt.Errorf("cluster %d: %w", want.ID, err)
	}
	if problem != nil {
		seen.Settled, seen.Problem, seen.Permanent = false, problem.Error(), true
	}
	return seen, nil
}

// bring writes all objects as they are wanted, and reports whether it changed anything. What is the way in comes before what is behind it.
func (d *Driver) bring(ctx context.Context, want platform.Wanted, is view) (changed bool, err error) {
	if is.object == nil && want.Hosts.Primary != "" {
		return false, &permanentError{errors.New("the cluster's object is gone, and its data with it; nothing was made in its place")}
	}
	if is.object != nil && foreign(is.object, want.Cluster) {
		return false, &permanentError{errForeign(is.object)}
	}
	made, err := d.desire(ctx, want, is)
	if err != nil {
		return false, err
	}
	if err := d.dropUnfinished(ctx, is.names); err != nil {
		return false, err
	}
	if want.Suspended && is.object != nil && !is.hibernates() {
		d.seal(ctx, is)
	}
	said, switchOver := made.op.switchover(ctx, want, is)
	made.restart, made.switchover = restartOf(want, is), said
	objects := []client.Object{made.policy(), made.service(made.base(), cluster.Primary)}
	if want.Size > 1 {
		objects = append(objects, made.service(made.names.reads(), cluster.Replica))
	}
	kept, err := d.tlsSecret(ctx, made.op, made.names)
	if err != nil {
		return false, err
	}
	secrets, err := d.secrets(ctx, &made, is, kept, is.object != nil)
	if err != nil {
		return false, err
	}
	object, err := made.op.object(made)
	if err != nil {
		return false, err
	}
	objects = append(objects, secrets...)
	if is.object != nil || address(is.write) != "" || !made.op.waitsForAddress() {
		objects = append(objects, object)
	}
	there := is.read(kept)
	for _, o := range objects {
		wrote, err := writeOver(ctx, d.live, o, there[kindAndName(o)])
		changed = changed || wrote
		if err != nil {
			return true, err
		}
	}
	if want.Size <= 1 && is.reads != nil {
		return true, d.drop(ctx, is.reads)
	}
	if switchOver != nil {
		return true, switchOver(ctx)
	}
	return changed, nil
}

// read are the objects that were, by their kind and name.
func (v view) read(more *corev1.Secret) map[string]client.Object {
	all := map[string]client.Object{}
	if v.object != nil {
		all[kindAndName(v.object)] = v.object
	}
	for _, s := range []*corev1.Service{v.write, v.reads} {
		if s != nil {
			all[kindAndName(s)] = s
		}
	}
	if more != nil {
		all[kindAndName(more)] = more
	}
	return all
}

func kindAndName(o client.Object) string { return fmt.Sprintf("%T %s", o, o.GetName()) }

// desire decides on an image, and on the size of the volumes.
func (d *Driver) desire(ctx context.Context, want platform.Wanted, is view) (desired, error) {
	made := desired{names: is.names, o: &d.o, op: d.operatorOf(want.Engine), want: want, diskMB: want.Plan.DiskMB}
	if want.Encrypted && d.o.EncryptedStorageClass == "" {
		return made, &permanentError{errors.New("there is no encrypted storage in this region")}
	}
	if is.object != nil {
		made.note(is.object)
		made.op.keep(&made, is.object)
	}
	if made.archives() && (made.archive == "" && (is.object == nil || want.Patch || is.hibernates()) || made.archive != "") {
		made.archiveTo(d.o.ObjectStore)
	}
	if is.object != nil {
		made.image = is.object.Image()
		if size, err := resource.ParseQuantity(is.object.Disk()); err == nil {
			made.diskMB = max(made.diskMB, int(size.Value()>>20))
		}
		if want.Suspended && want.Plan.ID == "" { // of a plan that is no longer offered nothing has to change
			made.want.Plan = planOf(is.object)
		}
	} else if want.Installation != "" {
		made.image = want.Installation
	}
	if made.image != "" && !want.Patch {
		return made, nil
	}
	images, err := made.op.images(ctx, false)
	if err == nil {
		made.image, err = d.newest(want.Engine, want.Series, images)
	}
	return made, err
}

// drop removes an object, if it is still there.
func (d *Driver) drop(ctx context.Context, o client.Object) error {
	if err := unlessGone(d.live.Delete(ctx, o)); err != nil {
		return fmt.Errorf("remove %s: %w", o.GetName(), err)
	}
	failpoint.Here("kubernetes: after removing " + o.GetName())
	return nil
}

// permanentError is a problem that repeating Apply won't help with.
type permanentError struct{ problem error }

func (p *permanentError) Error() string { return p.problem.Error() }

func (p *permanentError) Unwrap() error { return p.problem }

// isPermanent tells of what people have to do something about: fields that somebody else has changed, quotas, rights that
// are missing, definitions that aren't there or have no such field.
func isPermanent(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) ||
		isUndeclared(err)
}
