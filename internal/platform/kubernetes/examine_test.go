package kubernetes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/archive/archivetest"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/simulator"
)

// TestExamine: what is missing is told with what to do about it, and nothing is made meanwhile.
func TestExamine(t *testing.T) {
	b := newBench(t)
	b.keep(t)
	c, err := client.New(b.config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app.kubernetes.io/name": "cloudnative-pg"}
	operator := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "cnpg-controller-manager", Namespace: b.namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "registry.example/cloudnative-pg:1.29.1"}}},
		}},
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "encrypted"}, Provisioner: "example"}
	standard := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "example", AllowVolumeExpansion: new(true),
	}
	o := b.options()
	look := func(name string, missing, notes []string) kubernetes.Examined {
		t.Helper()
		found, err := kubernetes.Examine(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []struct {
			found []kubernetes.Finding
			want  []string
		}{{found.Missing, missing}, {found.Notes, notes}} {
			if len(v.found) != len(v.want) {
				t.Errorf("%s: found %+v, want %q", name, v.found, v.want)
				continue
			}
			for i, want := range v.want {
				if text := v.found[i].What + ": " + v.found[i].Command; !strings.Contains(text, want) {
					t.Errorf("%s: %q doesn't say %q", name, text, want)
				}
			}
		}
		return found
	}
	look("a bare cluster", []string{"the operator CloudNativePG doesn't run", "there is no default storage class", "there is no storage class encrypted"}, []string{"there is no metrics server"})
	simulator.TellUsage(t, b.c)
	for _, made := range []client.Object{operator, class, standard} {
		if err := c.Create(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Delete(context.Background(), made) }) // it is the only test that has any
	}
	found := look("an older operator, volumes that can't grow",
		[]string{"volumes of the storage class encrypted can't grow, and databases couldn't be resized: kubectl patch storageclass encrypted"}, []string{"the operator's version is \"1.29.1\""})
	if found.Operator != "1.29.1" || !strings.HasPrefix(found.Version, "v1.") {
		t.Errorf("found %+v", found)
	}
	o.EncryptedStorageClass = ""
	o.ObjectStore = "nothing"
	look("no place for backups", []string{"the object store nothing isn't in the namespace"}, []string{"1.29.1"})
	o.ObjectStore = ""
	look("none wanted", nil, []string{"1.29.1", "databases have no backups there"})
	o.ObjectStore = storeName
	b.bucket.Break(archivetest.Trouble{Status: 403})
	look("a bucket that lets nobody in", []string{"the bucket can't be read from here"}, []string{"1.29.1"})
	b.bucket.Mend()
	place := &cnpg.ObjectStore{}
	if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: storeName}, place); err != nil {
		t.Fatal(err)
	}
	place.Spec.RetentionPolicy = "30d"
	if err := b.c.Update(t.Context(), place); err != nil {
		t.Fatal(err)
	}
	look("a place that forgets", []string{"has a retentionPolicy"}, []string{"1.29.1"})
	o.ObjectStore = ""
	o.ImageCatalog = "nothing"
	look("no images", []string{"the image catalog nothing isn't in the namespace " + b.namespace}, []string{"1.29.1", "no backups"})
	o.ImageCatalog, o.Namespace = catalogName, "nowhere"
	look("no namespace", []string{"isn't in the namespace nowhere", "namespaces \"nowhere\" not found: kubectl create namespace nowhere"}, []string{"1.29.1", "no backups"})
	if left := b.leftovers(t, 0); len(left) > 0 {
		t.Errorf("it made %v", left)
	}
	o.Config.Host = "https://127.0.0.1:1"
	if _, err := kubernetes.Examine(t.Context(), o); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(fmt.Errorf("nobody there: %w", err))
	}
}
