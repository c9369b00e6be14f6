package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
)

// TestNodesComeAndGo: a database of one node becomes one of three under load,
// fails over as any other, and becomes one of a single node again, from whichever
// node is the primary.
func TestNodesComeAndGo(t *testing.T) { testNodesComeAndGo(t, 1) }

// TestNodesComeAndGoThorough does it again, after several failovers, and on both families.
func TestNodesComeAndGoThorough(t *testing.T) { testNodesComeAndGo(t, 2) }

func testNodesComeAndGo(t *testing.T, rounds int) {
	t.Helper()
	t.Parallel()
	found, _ := installations()
	for _, b := range benches(found) {
		if b.Engine == cluster.MySQL && (b.Older == "" || !b.Encrypted) && !enginetest.Thorough() {
			continue // encrypted ones do the same and more; the slowest engine has its replicas made in TestFailover
		}
		if b.Engine == cluster.MySQL && rounds == 1 && !enginetest.Thorough() {
			continue
		}
		three := modes(b)[0]
		if b.Engine == cluster.PostgreSQL {
			three = mode{"on", cluster.Asynch, cluster.CommitOn}
		}
		t.Run(fmt.Sprintf("%s-%s-%v", b.Engine, b.Series, b.Encrypted), func(t *testing.T) {
			t.Parallel()
			h := newArchived(t, ofSeries(found, b), b, 1).threeNodes
			single := mode{replication: h.want.Replication, commit: h.want.Commit}
			for kills := range rounds {
				h.scaleTo(3, three)
				for range 1 + kills {
					h.underLoad(quick, func(seen platform.Observed) { h.kill(seen) })
				}
				h.scaleTo(1, single)
				for _, folder := range []string{"clusters/301/node-1", "clusters/301/node-2", "run/301-1", "keys/301-1"} {
					if _, err := os.Stat(filepath.Join(h.s.o.DataDir, folder)); err == nil {
						t.Errorf("%s is left", folder)
					}
				}
			}
		})
	}
}

func (h *threeNodes) kill(seen platform.Observed) {
	h.t.Helper()
	h.signal(h.node(seen, cluster.Primary), syscall.SIGKILL)
}

// resizeTo changes how many nodes the cluster has while customers write.
func (h *threeNodes) scaleTo(size int, m mode) {
	h.t.Helper()
	h.underLoad(quick, func(platform.Observed) {
		h.stop()
		h.keeping.Wait()
		h.want.Size, h.want.Replication, h.want.Commit, h.mode = size, m.replication, m.commit, m
		await.True(h.t, fmt.Sprintf("%d nodes", size), func() bool {
			now, err := h.driver.Apply(h.t.Context(), h.want)
			return err == nil && len(now.Nodes) == size && now.Settled
		})
		h.keep()
	})
}
