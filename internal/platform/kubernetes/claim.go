package kubernetes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
)

// claimName is the Secret that says whose the namespace is, under the key claimKey.
const (
	claimName = "steward-owner"
	claimKey  = "owner"
)

// claim makes the namespace ours, or finds it to be another's: what it doesn't know there a steward removes, and a number that it gives
// to a database of its own may be one of another's.
func (d *Driver) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	mine := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: claimName, Namespace: d.o.Namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": manager}},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{claimKey: []byte(d.o.Owner)},
	}
	err := d.live.Create(ctx, mine, client.FieldOwner(manager))
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("claim the namespace %s: %w", d.o.Namespace, err)
	}
	var there corev1.Secret
	if err := d.live.Get(ctx, client.ObjectKeyFromObject(mine), &there); err != nil {
		return fmt.Errorf("look whose the namespace %s is: %w", d.o.Namespace, err)
	}
	if owner := string(there.Data[claimKey]); owner != d.o.Owner {
		return fmt.Errorf("the namespace %s is that of another steward, with the store %s, and this one's is %s; if that one is gone for good: kubectl delete secret -n %s %s",
			d.o.Namespace, owner, d.o.Owner, d.o.Namespace, claimName)
	}
	return nil
}

// createdAnnotation is on a cluster's object when the database was made that it is of.
const createdAnnotation = "steward/created"

func createdText(c cluster.Cluster) string { return c.Created.UTC().Format(time.RFC3339Nano) }

// foreign reports whether an object is of another database than c, with the same number: a store that was brought back from an older
// copy gives its numbers out again.
func foreign(object client.Object, c cluster.Cluster) bool {
	created, said := object.GetAnnotations()[createdAnnotation]
	return said && created != createdText(c)
}

func errForeign(object client.Object) error {
	return fmt.Errorf("%s is of another database, made at %s, which the store doesn't know",
		object.GetName(), object.GetAnnotations()[createdAnnotation])
}
