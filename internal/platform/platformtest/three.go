package platformtest

import (
	"slices"

	"steward/internal/cluster"
	"steward/internal/platform"
)

func createsThree(r *run) {
	if !slices.Contains(r.Sizes, 3) {
		r.t.Skip("the platform has single nodes only")
	}
	if r.Suspends {
		r.t.Skip("suspending creates a cluster of three first, and demands the same of it")
	}
	want := r.wanted(121)
	want.Spec = sized(want.Spec, 3)
	r.mustBeNewThree(want, r.apply(&want))
}

// mustBeNewThree demands of a cluster that was just made that it is well, measured, and left alone from then on.
func (r *run) mustBeNewThree(want platform.Wanted, seen platform.Observed) {
	r.t.Helper()
	r.mustLogin(want)
	if !seen.Serving || seen.Degraded || seen.Healthy != 3 || seen.Problem != "" || seen.Failovers != 0 || !seen.LastFailover.IsZero() {
		r.t.Fatalf("seen: %+v", seen)
	}
	r.mustBeThree(seen)
	r.mustBeMeasured(want.ID, 3)
	again := r.apply(&want)
	if !slices.Equal(pids(again), pids(seen)) {
		r.t.Errorf("a settled cluster was restarted: %v, then %v", pids(seen), pids(again))
	}
}

// mustBeThree demands a primary and two replicas, all well.
func (r *run) mustBeThree(seen platform.Observed) {
	r.t.Helper()
	roles, ordinals := map[cluster.Role]int{}, map[int]bool{}
	for _, n := range seen.Nodes {
		roles[n.Role]++
		ordinals[n.Ordinal] = true
		r.mustBeWell(n)
	}
	if len(seen.Nodes) != 3 || len(ordinals) != 3 || roles[cluster.Primary] != 1 || roles[cluster.Replica] != 2 {
		r.t.Errorf("nodes: %+v", seen.Nodes)
	}
	members := map[string]int{}
	for _, role := range seen.Members {
		members[role]++
	}
	if len(seen.Members) != 3 || members["primary"] != 1 || members["failover"] != 2 {
		r.t.Errorf("members: %v", seen.Members)
	}
}

func (r *run) mustBeWell(n platform.Node) {
	r.t.Helper()
	if !n.Running || process(n) == "" || n.Address == "" || n.Version == "" || n.Problem != "" || n.Streaming != (n.Role == cluster.Replica) {
		r.t.Errorf("node: %+v", n)
	}
}

func pids(seen platform.Observed) []string {
	var all []string
	for _, n := range seen.Nodes {
		all = append(all, process(n))
	}
	return all
}

// sized is the spec with another number of nodes and the replication of those.
func sized(s cluster.Spec, size int) cluster.Spec {
	s.Size, s.Replication, s.Commit = size, "", ""
	return s.WithDefaults()
}
