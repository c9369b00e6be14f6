package platformtest

import (
	"fmt"
	"maps"
	"slices"

	"steward/internal/cluster"
	"steward/internal/platform"
)

func createsThree(r *run) {
	if !slices.Contains(r.Sizes, 3) {
		r.t.Skip("the platform has single nodes only")
	}
	want := r.wanted(121)
	want.Spec = sized(want.Spec, 3)
	seen := r.apply(&want)
	r.mustLogin(want)
	if !seen.Serving || seen.Degraded || seen.Healthy != 3 || seen.Problem != "" || seen.Failovers != 0 || !seen.LastFailover.IsZero() {
		r.t.Fatalf("seen: %+v", seen)
	}
	var roles []string
	for _, n := range seen.Nodes {
		roles = append(roles, fmt.Sprintf("%d %s", n.Ordinal, n.Role))
		r.mustRun(n)
		if n.Streaming != (n.Role == cluster.Replica) {
			r.t.Errorf("node: %+v", n)
		}
	}
	slices.Sort(roles)
	if want := []string{"0 primary", "1 replica", "2 replica"}; !slices.Equal(roles, want) {
		r.t.Errorf("nodes: %v, want %v", roles, want)
	}
	members := slices.Sorted(maps.Values(seen.Members))
	if want := []string{"failover", "failover", "primary"}; !slices.Equal(members, want) {
		r.t.Errorf("members: %v, want %v", members, want)
	}
	again := r.apply(&want)
	if !slices.Equal(pids(again), pids(seen)) {
		r.t.Errorf("a settled cluster was restarted: %v, then %v", pids(seen), pids(again))
	}
}

func pids(seen platform.Observed) []int {
	var all []int
	for _, n := range seen.Nodes {
		all = append(all, n.Pid)
	}
	return all
}

// sized is the spec with another number of nodes and the replication of those.
func sized(s cluster.Spec, size int) cluster.Spec {
	s.Size, s.Replication, s.Commit = size, "", ""
	return s.WithDefaults()
}
