package simulator

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"steward/internal/await"
)

// usageDefinition stands for a metrics server, which an API server passes questions on to.
const usageDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pods.metrics.k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, for tests"}}
spec:
  group: metrics.k8s.io
  names: {kind: PodMetrics, listKind: PodMetricsList, plural: pods, singular: pod}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// TellUsage has somebody tell what Pods use, which nobody does otherwise, until the test ends.
func TellUsage(t testing.TB, c client.Client) {
	t.Helper()
	d := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(usageDefinition), &d.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Delete(context.Background(), d)
		await.True(t, "nobody tells any more", func() bool {
			err := c.List(context.Background(), usageList())
			return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
		})
	})
	await.NoError(t, "somebody tells", func() error { return c.List(t.Context(), usageList()) })
}

func usageList() *unstructured.UnstructuredList {
	all := &unstructured.UnstructuredList{}
	all.SetAPIVersion("metrics.k8s.io/v1beta1")
	all.SetKind("PodMetricsList")
	return all
}

// SetUsage has a container of a Pod use so much, in Kubernetes' quantities, beside one of the plugin's.
func SetUsage(t testing.TB, c client.Client, namespace, pod, container, processors, memory string, labels map[string]string) {
	t.Helper()
	use := func(name, processors, memory string) any {
		return map[string]any{"name": name, "usage": map[string]any{"cpu": processors, "memory": memory}}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"containers": []any{use("plugin-barman-cloud", "900m", "700Mi"), use(container, processors, memory)}}}
	u.SetAPIVersion("metrics.k8s.io/v1beta1")
	u.SetKind("PodMetrics")
	u.SetName(pod)
	u.SetNamespace(namespace)
	u.SetLabels(labels)
	u.SetCreationTimestamp(metav1.Time{})
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}
