package host_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
)

// TestReplicasThatDifferAreMadeAnew has each node of MariaDB make up values of its
// own for a new column.
func TestReplicasThatDifferAreMadeAnew(t *testing.T) {
	t.Parallel()
	found, _ := installations()
	for _, b := range benches(found) {
		flavour := ofSeries(found, b)[0].Flavour
		if b.Encrypted || flavour != engine.FlavourMariaDB {
			continue
		}
		s := newSite(t, ofSeries(found, b))
		s.o.CompareEvery = 500 * time.Millisecond
		h := &threeNodes{t: t, s: s, mode: modes(b)[0], want: s.bench(b).Wanted(t, 301)}
		h.want.Size, h.want.Replication = 3, h.mode.replication
		h.open()
		t.Cleanup(h.close)
		h.healthy()
		h.load = newLoad(t, s, h.want.Cluster)
		conn, err := h.load.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.close()
		for _, q := range []string{"INSERT INTO written (k) VALUES (1), (2), (3)", "ALTER TABLE written ADD u VARCHAR(36) DEFAULT (UUID())"} {
			if err := conn.exec(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		told := false
		await.True(t, "all nodes to have the same values", func() bool {
			seen, err := h.driver.Observe(t.Context(), h.want.ID)
			if err != nil {
				return false
			}
			for _, n := range seen.Nodes {
				told = told || strings.Contains(n.Problem, "defaultdb.written differ")
			}
			return seen.Settled && seen.Healthy == 3 && h.values(seen) == 1
		})
		if !told {
			t.Error("nobody is told that a replica differs")
		}
		return
	}
	t.Fatal("no MariaDB is installed")
}

// values counts the different contents that the nodes have.
func (h *threeNodes) values(seen platform.Observed) int {
	all := map[string]bool{}
	for _, n := range seen.Nodes {
		node := &load{engine: cluster.MySQL, customer: h.load.customer}
		node.at = netip.MustParseAddrPort(n.Address)
		conn, err := node.connect(h.t.Context())
		if err != nil {
			return 0
		}
		sums, err := conn.numbers(h.t.Context(), "SELECT CRC32(GROUP_CONCAT(u ORDER BY k)) FROM written")
		conn.close()
		if err != nil {
			return 0
		}
		all[fmt.Sprint(sums)] = true
	}
	return len(all)
}
