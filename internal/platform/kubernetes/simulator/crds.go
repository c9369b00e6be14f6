package simulator

import (
	"bytes"
	_ "embed" // for what follows
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"steward/internal/await"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
)

//go:embed crds.yaml
var definitions []byte

// Definitions are those of the operator's objects, with the fields that steward uses.
func Definitions() ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for text := range bytes.SplitSeq(definitions, []byte("\n---\n")) {
		d := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &d.Object); err != nil {
			return nil, fmt.Errorf("read a definition: %w", err)
		}
		all = append(all, d)
	}
	return all, nil
}

// Define has the API server know the operator's objects.
func Define(t testing.TB, c client.Client) {
	t.Helper()
	defined := func() error {
		for _, list := range []client.ObjectList{
			&cnpg.ClusterList{}, &cnpg.ImageCatalogList{}, &cnpg.BackupList{}, &cnpg.ObjectStoreList{}, &mariadb.List{}, &mariadb.PhysicalBackupList{},
		} {
			if err := c.List(t.Context(), list, client.Limit(1)); err != nil {
				return err
			}
		}
		return nil
	}
	if defined() == nil {
		return
	}
	all, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if err := c.Create(t.Context(), d); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("define %s: %v", d.GetName(), err)
		}
	}
	await.NoError(t, "the definitions are known", defined)
}

// Bucket says where it is, as an archivetest.Bucket does.
type Bucket interface {
	Place() (endpoint, bucket, account, secret string)
}

// Keep makes an ObjectStore for a bucket, as whoever looks after a region does.
func Keep(t testing.TB, c client.Client, namespace, name string, bucket Bucket) {
	t.Helper()
	endpoint, at, account, secret := bucket.Place()
	keys := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Data:       map[string][]byte{"ACCESS_KEY_ID": []byte(account), "ACCESS_SECRET_KEY": []byte(secret)},
	}
	store := &cnpg.ObjectStore{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	store.Spec.Configuration = cnpg.BarmanConfiguration{
		DestinationPath: "s3://" + at + "/databases/", EndpointURL: endpoint, S3Credentials: &cnpg.S3Credentials{
			AccessKeyID: &cnpg.KeyReference{Name: name, Key: "ACCESS_KEY_ID"}, SecretAccessKey: &cnpg.KeyReference{Name: name, Key: "ACCESS_SECRET_KEY"},
		},
	}
	for _, o := range []client.Object{keys, store} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}
