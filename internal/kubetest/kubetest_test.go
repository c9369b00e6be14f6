package kubetest

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestMain(m *testing.M) { Main(m) }

// TestServerThorough: it answers, lets in who has rights only, and leaves nothing. Tests of Kubernetes show the former each time.
func TestServerThorough(t *testing.T) {
	s := Start(t)
	c, err := client.New(s.Admin(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	namespace := s.Namespace(t, c)
	stranger, err := client.New(s.User(t, "stranger"), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.List(t.Context(), &corev1.PodList{}, client.InNamespace(namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("somebody without rights: %v", err)
	}
	if other := Start(t); other != s {
		t.Error("a second server was started")
	}
	dir := s.dir
	s.stop()
	shared = nil
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
}
