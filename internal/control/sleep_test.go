package control_test

import (
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/control"
)

// TestNoSleepHere: where databases can't sleep, who asks for it is told so; that they
// never do may be said.
func TestNoSleepHere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	told := func(err error) {
		t.Helper()
		if found := texts(err); len(found) != 1 || !strings.Contains(found[0], "auto_suspend.idle_minutes") {
			t.Errorf("told %v", found)
		}
	}
	spec := b.spec()
	spec.AskedAutoSuspend = new(5)
	_, err := b.Clusters.Create(t.Context(), p, spec, nil)
	told(err)
	spec.AskedAutoSuspend = new(0)
	if _, err := b.Clusters.Create(t.Context(), p, spec, nil); err != nil {
		t.Error(err)
	}
	c := b.in(p, cluster.Active)
	_, err = b.Clusters.Update(t.Context(), p, c.Engine, c.ID, control.UpdateCluster{AutoSuspend: new(5)}, nil)
	told(err)
}
