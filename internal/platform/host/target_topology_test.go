package host

import (
	"testing"

	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
)

// TestNodesGoOnceTheFirstIsThePrimary, and none while the cluster rests.
func TestNodesGoOnceTheFirstIsThePrimary(t *testing.T) {
	t.Parallel()
	three := func(primary int) state.Topology {
		return state.Topology{Size: 3, Primary: primary, Replication: cluster.SemiSynch}
	}
	for name, c := range map[string]struct {
		now       state.Topology
		size      int
		suspended bool
		want      state.Topology
	}{
		"the first is":              {three(0), 1, false, state.Topology{Size: 1, Replication: cluster.SemiSynch}},
		"another is":                {three(2), 1, false, three(2)},
		"it rests":                  {three(0), 1, true, state.Topology{Size: 3, Replication: cluster.SemiSynch, Suspended: true}},
		"it rests, another is":      {three(2), 1, true, state.Topology{Size: 3, Primary: 2, Replication: cluster.SemiSynch, Suspended: true}},
		"as many as there are":      {three(2), 3, false, state.Topology{Size: 3, Primary: 2, Replication: cluster.Asynch}},
		"it grows still":            {state.Topology{Size: 3, Growing: true}, 3, false, state.Topology{Size: 3, Growing: true, Replication: cluster.Asynch}},
		"it is to grow no more":     {state.Topology{Size: 3, Growing: true}, 1, false, state.Topology{Size: 1}},
		"it is single and stays so": {state.Topology{Size: 1}, 1, false, state.Topology{Size: 1}},
	} {
		cr := &clusterReconciler{want: platform.Wanted{Suspended: c.suspended}}
		cr.want.Size, cr.want.Replication = c.size, cluster.Asynch
		if got, err := cr.targetTopology(c.now); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}
