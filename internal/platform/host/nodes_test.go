package host_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
	"steward/internal/platform/host"
)

// TestNodesReportReplication: as soon as a cluster is settled, whoever lists its nodes
// from another process sees that the replicas follow, and how far all are.
func TestNodesReportReplication(t *testing.T) {
	t.Parallel()
	found, _ := host.Discover(t.Context(), engines(), []string{enginetest.EnginesFolder()})
	for _, b := range benches(found) {
		if b.Encrypted {
			continue
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
			waitFor(t, "a settled cluster", func() bool {
				seen, err := d.Apply(ctx, want)
				return err == nil && seen.Settled
			})
			before := listNodes(t, s)
			for _, n := range before {
				if n.Position == "" || n.Problem != "" || n.Joining || n.Role == cluster.Replica && !n.Streaming {
					t.Errorf("node %d: %+v", n.Ordinal, n)
				}
			}
			if err := s.login(ctx, want.Cluster, netip.MustParseAddr("127.0.0.1"), s.secrets.Text(want.ID, platform.RootPassword)); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "nodes that have got on", func() bool {
				if _, err := d.Apply(ctx, want); err != nil {
					t.Fatal(err)
				}
				for i, n := range listNodes(t, s) {
					if n.Position == before[i].Position {
						return false
					}
				}
				return true
			})
		})
	}
}

// listNodes is what another process sees of a cluster of three.
func listNodes(t *testing.T, s *site) []host.NodeInfo {
	t.Helper()
	d := s.open(t)
	defer d.Close()
	nodes, err := d.Nodes()
	if err != nil || len(nodes) != 3 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	return nodes
}
