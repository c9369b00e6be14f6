package platformtest

import (
	"fmt"
	"maps"

	"steward/internal/cluster"
	"steward/internal/platform"
)

func suspends(r *run) {
	for _, size := range r.suspendable() {
		want := r.wanted(119)
		want.Spec = sized(want.Spec, size)
		before := r.apply(&want)
		switch {
		case size == 3 && r.Short:
			r.mustBeThree(before)
		case size == 3:
			r.mustBeNewThree(want, before)
		}
		r.mustHaveCrashed(want.ID, 0)
		if r.Restarts {
			before = restarts(r, &want, before)
		}
		if r.Restarts && size == 3 {
			switchesOver(r, want, before)
		}
		want.Suspended = true
		rests(r, r.apply(&want), before)
		r.mustNotBeMeasured(want.ID)
		if err := r.login(want); err == nil {
			r.t.Error("a suspended cluster lets in")
		}
		rests(r, r.observe(want.ID), before)
		r.Secrets.Set(want.ID, platform.RootPassword, "resumed-Xk4mPq7wRt2n")
		want.Suspended = false
		after := r.apply(&want)
		if !after.Serving || after.Suspended || after.Healthy != size || after.Hosts != before.Hosts {
			r.t.Errorf("resumed: %+v", after)
		}
		if err := r.driver.SetPassword(r.ctx, want); err != nil {
			r.t.Errorf("set password: %v", err)
		}
		r.mustLogin(want)
		if err := r.driver.Remove(r.ctx, want.Cluster); err != nil {
			r.t.Errorf("remove: %v", err)
		}
	}
}

// switchesOver: another node becomes the primary, and stays it.
func switchesOver(r *run, want platform.Wanted, before platform.Observed) {
	r.t.Helper()
	from := primaryOf(before)
	want.Switchover = &from
	after := r.apply(&want)
	r.mustBeThree(after)
	to := primaryOf(after)
	if to == from || after.Failovers != before.Failovers+1 || !after.LastChange.Planned || after.Hosts != before.Hosts {
		r.t.Errorf("node %d hands over to node %d: %+v", from, to, after)
	}
	r.mustHaveCrashed(want.ID, 0)
	r.mustLogin(want)
	if again := r.apply(&want); primaryOf(again) != to || again.Failovers != after.Failovers {
		r.t.Errorf("it is handed over again: %+v", again)
	}
}

func primaryOf(seen platform.Observed) int {
	for _, n := range seen.Nodes {
		if n.Role == cluster.Primary {
			return n.Ordinal
		}
	}
	return -1
}

// restarts: a request starts each server anew, once, and afterwards nothing does.
func restarts(r *run, want *platform.Wanted, before platform.Observed) platform.Observed {
	r.t.Helper()
	started := func(seen platform.Observed) map[int]string {
		nodes := map[int]string{}
		for _, n := range seen.Nodes {
			nodes[n.Ordinal] = fmt.Sprintf("%d since %v", n.Pid, n.Started.UTC())
		}
		return nodes
	}
	want.Restart = 7
	after := r.apply(want)
	if !after.Serving || after.Healthy != len(before.Nodes) {
		r.t.Errorf("restarted: %+v", after)
	}
	then, now := started(before), started(after)
	for ordinal, was := range then {
		if now[ordinal] == was {
			r.t.Errorf("node %d of %d wasn't restarted: %s", ordinal, len(then), was)
		}
	}
	r.mustHaveCrashed(want.ID, 0)
	r.mustLogin(*want)
	for _, request := range []int64{7, 0} {
		want.Restart = request
		if again := started(r.apply(want)); !maps.Equal(again, now) {
			r.t.Errorf("restarted again by %d: %v, then %v", request, now, again)
		}
	}
	return after
}

// staysSuspended: neither a new driver nor a reboot wakes a suspended cluster;
// both can resume it, and what is suspended can be removed.
func staysSuspended(r *run) {
	r.suspendable()
	want := r.wanted(120)
	before := r.apply(&want)
	want.Suspended = true
	r.apply(&want)
	r.restart()
	rests(r, r.observe(want.ID), before)
	rests(r, r.apply(&want), before)
	r.closeIt()
	r.Reboot(r.t)
	r.driver, r.closeIt = r.Bench.Open(r.t)
	if r.Booted != nil {
		r.Booted(r.t)
	}
	rests(r, r.observe(want.ID), before)
	rests(r, r.apply(&want), before)
	want.Suspended = false
	r.apply(&want)
	r.mustLogin(want)
	want.Suspended = true
	r.apply(&want)
	if err := r.driver.Remove(r.ctx, want.Cluster); err != nil {
		r.t.Fatalf("remove: %v", err)
	}
	if left := r.Leftovers(r.t, want.ID, want.Port); len(left) > 0 {
		r.t.Errorf("left: %v", left)
	}
}

// rests demands that nothing of a cluster runs, and that all else is there still.
func rests(r *run, seen, before platform.Observed) {
	r.t.Helper()
	if !seen.Exists || !seen.Suspended || !seen.Settled || seen.Serving || seen.Degraded || seen.Healthy != 0 || seen.Problem != "" {
		r.t.Errorf("suspended: %+v", seen)
	}
	if seen.Hosts != before.Hosts || seen.Installation != before.Installation {
		r.t.Errorf("suspended: hosts %+v, installation %q; before: %+v", seen.Hosts, seen.Installation, before)
	}
	for _, n := range seen.Nodes {
		if n.Running || n.Pid != 0 {
			r.t.Errorf("runs while suspended: %+v", n)
		}
	}
}

// suspendable are the sizes of clusters to suspend; the test is skipped when
// the platform can't.
func (r *run) suspendable() []int {
	r.t.Helper()
	if !r.Suspends {
		r.t.Skip("the platform suspends nothing")
	}
	if len(r.Sizes) > 0 {
		return r.Sizes // who can wake several can wake one
	}
	return []int{1}
}
