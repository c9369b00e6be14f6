package simulator

import (
	"bytes"
	_ "embed" // for what follows
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"steward/internal/await"
	"steward/internal/platform/kubernetes/cnpg"
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
	all, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if err := c.Create(t.Context(), d); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("define %s: %v", d.GetName(), err)
		}
	}
	await.NoError(t, "the definitions are known", func() error {
		err := c.List(t.Context(), &cnpg.ClusterList{})
		if err == nil {
			err = c.List(t.Context(), &cnpg.ImageCatalogList{})
		}
		if meta.IsNoMatchError(err) || err != nil {
			return err
		}
		return nil
	})
}
