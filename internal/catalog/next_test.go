package catalog_test

import (
	"testing"

	"steward/internal/catalog"
	"steward/internal/cluster"
)

// TestNext: a database grows by the smallest step, and nothing of its plan becomes less.
func TestNext(t *testing.T) {
	t.Parallel()
	c := catalog.Catalog{
		Plans: []catalog.Plan{
			{ID: "a", MemoryMB: 1, DiskMB: 10, VCPUs: 1},
			{ID: "c", MemoryMB: 4, DiskMB: 40, VCPUs: 2},
			{ID: "b", MemoryMB: 2, DiskMB: 20, VCPUs: 1},
			{ID: "wide", MemoryMB: 1, DiskMB: 30, VCPUs: 1},
			{ID: "old", MemoryMB: 2, DiskMB: 15, VCPUs: 1, Deprecated: true},
		},
		Engines: []catalog.Engine{{Engine: cluster.PostgreSQL, Series: "15"}},
	}
	for _, s := range []struct{ now, largest, want string }{
		{"a", "c", "b"}, {"b", "c", "c"}, {"a", "a", ""}, {"c", "c", ""}, {"a", "wide", "wide"}, {"wide", "c", "c"}, {"x", "c", ""}, {"a", "x", ""}, {"old", "c", "b"},
	} {
		if got, ok := c.Next(s.now, s.largest, cluster.PostgreSQL, 1); got.ID != s.want || ok != (s.want != "") {
			t.Errorf("from %s up to %s: %s, %v", s.now, s.largest, got.ID, ok)
		}
	}
}
