package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
)

// kinds are all that a cluster has, what owns the rest first.
func (d *Driver) kinds() []client.ObjectList {
	var all []client.ObjectList
	for _, op := range d.operators {
		all = append(all, op.kinds()...)
	}
	return append(all, &corev1.ServiceList{}, &corev1.SecretList{}, &networkingv1.NetworkPolicyList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{})
}

// of chooses the objects of a cluster.
func of(id cluster.ID) client.ListOption {
	return client.MatchingLabels{clusterLabel: strconv.FormatInt(int64(id), 10)}
}

// leftovers are all objects that are chosen, of all clusters without options.
func (d *Driver) leftovers(ctx context.Context, chosen ...client.ListOption) ([]client.Object, error) {
	var all []client.Object
	for _, list := range d.kinds() {
		options := append([]client.ListOption{client.InNamespace(d.o.Namespace), client.HasLabels{clusterLabel}}, chosen...)
		if err := d.live.List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("list what there is: %w", err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, fmt.Errorf("list what there is: %w", err)
		}
		for _, item := range items {
			all = append(all, item.(client.Object)) // all that lists hold are
		}
	}
	return all, nil
}

// Reconcile implements platform.Reconciler. Data isn't removed because nobody knows of it: a row outlives all that its database is made of, so
// that it is rather the store that isn't what it was. Somebody is told.
func (d *Driver) Reconcile(ctx context.Context, known func(context.Context) ([]cluster.Cluster, error)) error {
	looking, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	there, err := d.leftovers(looking)
	if err != nil {
		return err
	}
	data := map[cluster.ID]bool{}
	for _, o := range there {
		if id, ok := idOf(o); ok {
			data[id] = data[id] || holdsData(o)
		}
	}
	clusters, err := known(ctx)
	if err != nil {
		return fmt.Errorf("ask which clusters there are: %w", err)
	}
	for _, c := range clusters {
		delete(data, c.ID)
	}
	errs := []error{d.dropExpired(ctx, there)}
	for id, has := range data {
		if has {
			d.o.Logger.WarnContext(ctx, "the data of a cluster that nobody knows is left alone", "cluster_id", id, "namespace", d.o.Namespace,
				"remove", fmt.Sprintf("kubectl delete %s,persistentvolumeclaims -n %s -l %s=%d", d.resources(), d.o.Namespace, clusterLabel, id))
			continue
		}
		d.o.Logger.WarnContext(ctx, "what a cluster that nobody knows has left is removed", "cluster_id", id, "namespace", d.o.Namespace)
		errs = append(errs, d.Remove(ctx, cluster.Cluster{ID: id}))
	}
	return errors.Join(errs...)
}

// resources are how kubectl calls the operators' objects.
func (d *Driver) resources() string {
	var all []string
	for _, op := range d.operators {
		all = append(all, op.resource())
	}
	return strings.Join(all, ",")
}

func holdsData(o client.Object) bool {
	switch o.(type) {
	case object, *corev1.PersistentVolumeClaim:
		return true
	}
	return false
}
