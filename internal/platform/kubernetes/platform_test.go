package kubernetes_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/platformtest"
)

func eachItem(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(o runtime.Object) error {
		do(o.(client.Object))
		return nil
	})
}

// TestPlatform runs every platform's suite, with a real API server and real servers, and a simulated operator. What
// else would take too much of the processor each time is left to `make test-engines`. TestFaults kills a server, too, and TestFailover has three.
func TestPlatform(t *testing.T) { onPlatform(t, nil, "a killed server comes back by itself") }

// TestPlatformThorough leaves nothing to other tests.
func TestPlatformThorough(t *testing.T) { onPlatform(t, []int{3}) }

func onPlatform(t *testing.T, sizes []int, elsewhere ...string) {
	t.Helper()
	t.Parallel()
	b := newBench(t)
	b.keep(t)
	b.server.Grant(t, b.namespace, "steward", kubernetes.Rights())
	b.config = b.server.User(t, "steward")
	platformtest.Run(t, &platformtest.Bench{
		Engine: cluster.PostgreSQL, Series: "15", Older: older, Newer: newer, Sizes: sizes, Suspends: true, Restarts: true, Remote: true,
		Short: !enginetest.Thorough(), Tries: func(name string) bool { return !slices.Contains(elsewhere, name) },
		Keeps:   &platformtest.Keeping{Hold: b.hold, Held: b.held, Stored: b.stored, Moments: true},
		Secrets: b.secrets, Port: 21000,
		Open: func(t *testing.T) (platform.Driver, func()) {
			d := b.open(t)
			return d, d.Close
		},
		Login:  b.login,
		Kill:   func(_ *testing.T, _ platform.Driver, id cluster.ID) { b.op.Kill(object(id)) },
		Reboot: func(*testing.T) { b.op.Reboot() },
		Booted: func(*testing.T) { b.op.Resume() },
		Orphan: func(t *testing.T, id cluster.ID, _ int) {
			err := b.c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Name: "orphan", Namespace: b.namespace, Labels: map[string]string{"steward/cluster": "116"},
			}})
			if err != nil {
				t.Fatal(err)
			}
		},
		Leftovers: func(t *testing.T, id cluster.ID, _ int) []string { return b.leftovers(t, id) },
	})
}
