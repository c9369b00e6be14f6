package host_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
	"steward/internal/platform/host"
)

// TestNodesReportReplicationThorough: as soon as a cluster is settled, whoever lists its nodes
// from another process sees that the replicas follow, and how far all are.
func TestNodesReportReplicationThorough(t *testing.T) {
	t.Parallel()
	found, _ := installations()
	for _, b := range benches(found) {
		if b.Engine != cluster.PostgreSQL && !enginetest.Thorough() || b.Encrypted {
			continue // TestFailover asks the others' nodes
		}
		t.Run(fmt.Sprintf("%s-%s", b.Engine, b.Series), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, ofSeries(found, b))
			want := s.bench(b).Wanted(t, 302)
			want.Size, want.Replication = 3, modes(b)[0].replication
			d := s.open(t) // without Start nobody looks after the nodes
			defer d.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			await.True(t, "a settled cluster", func() bool {
				seen, err := d.Apply(ctx, want)
				return err == nil && seen.Settled
			})
			before := positions(t, s)
			if err := s.login(ctx, want.Cluster, netip.MustParseAddr("127.0.0.1"), s.secrets.Text(want.ID, platform.RootPassword)); err != nil {
				t.Fatal(err)
			}
			await.True(t, "nodes that have got on", func() bool {
				if _, err := d.Apply(ctx, want); err != nil {
					t.Fatal(err)
				}
				return haveGotOn(before, listNodes(t, s))
			})
		})
	}
}

// reportsReplication: whoever lists nodes from another process sees that they follow, and how far all are, while steward looks after them.
func (h *threeNodes) reportsReplication() {
	h.healthy()
	await.True(h.t, "a look at nodes that are well", func() bool { return !slices.ContainsFunc(listNodes(h.t, h.s), lacks) })
	before := positions(h.t, h.s)
	conn, err := h.load.connect(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.close()
	if err := conn.exec(h.t.Context(), "INSERT INTO written VALUES (1, 'moves every position')"); err != nil {
		h.t.Fatal(err)
	}
	await.True(h.t, "nodes that have got on", func() bool { return haveGotOn(before, listNodes(h.t, h.s)) })
}

// positions demands that all nodes are well and have one.
func positions(t *testing.T, s *site) []host.NodeInfo {
	t.Helper()
	nodes := listNodes(t, s)
	for _, n := range nodes {
		if lacks(n) {
			t.Errorf("node %d: %+v", n.Ordinal, n)
		}
	}
	return nodes
}

// lacks reports whether a node isn't well, or nobody says how far it is.
func lacks(n host.NodeInfo) bool {
	return n.Position == "" || n.Problem != "" || n.Joining || n.Role == cluster.Replica && !n.Streaming
}

func haveGotOn(before, now []host.NodeInfo) bool {
	return !slices.ContainsFunc(now, func(n host.NodeInfo) bool { return n.Position == before[n.Ordinal].Position })
}

// listNodes is what another process sees of a cluster of three.
func listNodes(t *testing.T, s *site) []host.NodeInfo {
	t.Helper()
	nodes := s.nodes(t)
	if len(nodes) != 3 {
		t.Fatalf("%d nodes", len(nodes))
	}
	return nodes
}
