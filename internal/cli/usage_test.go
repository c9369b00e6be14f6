package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/client"
)

// TestByDatabase: what was one database with one type and number of nodes is one line.
func TestByDatabase(t *testing.T) {
	t.Parallel()
	entry := func(day string, id int64, plan string, hours, cost float64, disk int64) client.Usage {
		return client.Usage{Day: day, Database: id, Type: plan, ClusterSize: 1, Hours: hours, UsedDiskBytes: disk, Cost: &cost}
	}
	got := byDatabase([]client.Usage{
		entry("2026-01-03", 2, "small", 24, 0.5, 7), entry("2026-01-03", 1, "large", 10, 1, 9), entry("2026-01-03", 1, "small", 14, 0.25, 8), entry("2026-01-02", 1, "small", 24, 0.5, 6),
	})
	want := []client.Usage{entry("2026-01-02", 1, "small", 38, 0.75, 8), entry("2026-01-03", 1, "large", 10, 1, 9), entry("2026-01-03", 2, "small", 24, 0.5, 7)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
