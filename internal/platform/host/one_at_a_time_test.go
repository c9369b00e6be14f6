package host_test

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
	"steward/internal/platform/host"
)

// TestOneNodeAtATime: while a replica has lost its data, no server that is well is
// restarted for a change that all of them wait for.
func TestOneNodeAtATime(t *testing.T) { testOneNodeAtATime(t, 1) }

// TestOneNodeAtATimeThorough has it happen to each replica.
func TestOneNodeAtATimeThorough(t *testing.T) { testOneNodeAtATime(t, 2) }

func testOneNodeAtATime(t *testing.T, replicas int) {
	t.Helper()
	t.Parallel()
	found, _ := installations()
	for _, b := range benches(found) {
		if b.Encrypted || b.Engine != cluster.PostgreSQL && !enginetest.Thorough() {
			continue // who waits for whom is the platform's to decide, by what every engine tells alike
		}
		t.Run(fmt.Sprintf("%s-%s", b.Engine, b.Series), func(t *testing.T) {
			t.Parallel()
			h := newThreeNodes(t, ofSeries(found, b), b, modes(b)[0])
			before := h.healthy()
			hurts := slices.DeleteFunc(slices.Clone(before.Nodes), func(n platform.Node) bool { return n.Role != cluster.Replica })
			for i, hurt := range hurts[:replicas] {
				t.Run(fmt.Sprintf("replica %d", i+1), func(t *testing.T) {
					h.t = t
					h.waitsForReplica(hurt.Ordinal)
				})
			}
		})
	}
}

// waitsFor takes a replica's data away, and has all servers restart.
func (h *threeNodes) waitsForReplica(hurt int) {
	h.t.Helper()
	before := h.healthy()
	if h.node(before, cluster.Primary).Ordinal == hurt {
		h.t.Logf("node %d is the primary by now", hurt)
		hurt = h.node(before, cluster.Replica).Ordinal
	}
	h.stop()
	h.keeping.Wait()
	h.killed = map[int]bool{}
	for _, n := range before.Nodes {
		if n.Ordinal == hurt {
			h.removeData(n)
			h.killed[n.Pid] = true
			if err := syscall.Kill(n.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // MySQL ends by itself
				h.t.Fatal(err)
			}
		}
	}
	h.want.Plan.MemoryMB *= 2
	h.keep()
	well := func() bool { // who has become the primary since was
		seen, err := h.driver.Observe(h.t.Context(), h.want.ID)
		return err == nil && slices.ContainsFunc(seen.Nodes, func(n platform.Node) bool {
			return n.Ordinal == hurt && (n.Streaming || n.Role == cluster.Primary) && !h.killed[n.Pid]
		})
	}
	await.True(h.t, fmt.Sprintf("node %d is well again", hurt), func() bool {
		ended := slices.IndexFunc(before.Nodes, func(n platform.Node) bool { return n.Ordinal != hurt && gone(n.Pid) })
		// Once it has its copy it may be seen down again: restarted after those that waited for it, if the copy was
		// begun before the change was known.
		if ended >= 0 && !host.HasData(h.driver, h.data(hurt)) {
			h.t.Fatalf("node %d was stopped before node %d had its data again", before.Nodes[ended].Ordinal, hurt)
		}
		return well()
	})
	for _, n := range before.Nodes {
		h.killed[n.Pid] = true
	}
	h.healthy()
}

// gone reports whether a server's process has ended.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
