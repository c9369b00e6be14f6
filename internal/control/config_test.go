package control_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/control"
)

// TestSettingsMustFitTheNewType: what was chosen is judged again for a type with less
// memory, unless it goes with the same request.
func TestSettingsMustFitTheNewType(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Clusters.Catalog.Plans = append(b.Clusters.Catalog.Plans,
		catalog.Plan{ID: "roomy", MemoryMB: 4096, DiskMB: 30000, VCPUs: 2}, catalog.Plan{ID: "lean", MemoryMB: 512, DiskMB: 90000, VCPUs: 1})
	p := b.tenant("one")
	spec := b.spec()
	spec.Type, spec.AskedConfig = "roomy", map[string]any{"work_mem": 24.0}
	c, err := b.Clusters.Create(t.Context(), p, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.setStatus(c, cluster.Active)
	lean := "lean"
	_, err = b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{Type: &lean}, nil)
	want := []string{"engine_config.work_mem: Must be at most 14 with the type lean: shared_buffers (128 MB), work_mem for 16 sessions at once (384 MB) and 3 autovacuum workers (96 MB) must fit into 460 MB"}
	if got := texts(err); !cmp.Equal(got, want) {
		t.Errorf("%q", got)
	}
	changed, err := b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{Type: &lean, Config: map[string]any{"work_mem": nil}}, nil)
	if err != nil || changed.Type != "lean" || changed.Config != nil || changed.Status != cluster.Updating {
		t.Errorf("%+v, %v", changed.Spec, err)
	}
}
