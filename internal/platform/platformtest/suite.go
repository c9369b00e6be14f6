package platformtest

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// Run runs the suite on a bench.
func Run(t *testing.T, b *Bench) {
	for _, c := range []struct {
		name string
		run  func(*run)
		// engine reports whether it depends on the engine how it goes, in more than what the
		// engines' own suite tries.
		engine bool
	}{
		{"the offered engines include the bench's", engines, false},
		{"a created cluster serves", creates, true},
		{"a settled cluster is left alone, and adopted by a new driver", idempotent, false},
		{"an unfinished create is finished by the next driver", resumes, false},
		{"a killed server comes back by itself", survivesKill, true},
		{"a killed server comes back after a restart of steward", survivesKillWhileDown, false},
		{"after a reboot Apply brings everything back", survivesReboot, true},
		{"a resize takes effect", resizes, false},
		{"allow list and password change without touching the server", changesAccess, false},
		{"the disk guard holds over a restart", readOnly, false},
		{"a patch moves to the newest version", patches, true},
		{"removal leaves nothing", removes, false},
		{"what no cluster owns is removed, and nothing else", reconciles, false},
		{"a port in use is a permanent problem", portInUse, false},
		{"a cluster of three has a primary and two replicas", createsThree, false},
		{"a suspended cluster rests and resumes", suspends, true},
		{"a suspended cluster stays so over restarts and reboots", staysSuspended, false},
	} {
		if b.Short && !c.engine || !b.tries(c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(b.open(t)) })
	}
	runKept(t, b)
}

func engines(r *run) {
	for _, e := range r.driver.Engines() {
		if e.Engine == r.Engine && e.Series == r.Series {
			if total, used := e.DiskBytes(); !r.Remote && (total <= 0 || used <= 0) {
				r.t.Errorf("no disk sizes: %d and %d of %s", total, used, e.ID())
			}
			return
		}
	}
	r.t.Errorf("%s/%s isn't offered: %+v", r.Engine, r.Series, r.driver.Engines())
}

func creates(r *run) {
	want := r.wanted(101)
	if seen := r.observe(want.ID); seen.Exists || seen.Serving {
		r.t.Errorf("there before it was made: %+v", seen)
	}
	r.mustNotBeMeasured(want.ID)
	began := time.Now()
	seen := r.apply(&want)
	r.t.Logf("created in %v", time.Since(began).Round(time.Millisecond))
	r.mustLogin(want)
	r.mustBeMeasured(want.ID, 1)
	r.mustBeOne(seen)
	if err := r.Login(r.ctx, want.Cluster, local, "wrong"); err == nil {
		r.t.Error("a wrong password is let in")
	}
	if err := r.Login(r.ctx, want.Cluster, netip.MustParseAddr("127.0.0.9"), r.Secrets.Text(want.ID, platform.RootPassword)); err == nil {
		r.t.Error("an address that isn't on the list is let in")
	}
	if err := r.driver.Remove(r.ctx, want.Cluster); err != nil {
		r.t.Fatalf("remove: %v", err)
	}
	if left := r.Leftovers(r.t, want.ID, want.Port); len(left) > 0 {
		r.t.Errorf("left: %v", left)
	}
}

// mustBeOne demands a single node that is well, and what its customer is told of it.
func (r *run) mustBeOne(seen platform.Observed) {
	r.t.Helper()
	if !seen.Exists || !seen.Serving || seen.Problem != "" || len(seen.Nodes) != 1 {
		r.t.Fatalf("seen: %+v", seen)
	}
	n := seen.Nodes[0]
	r.mustBeWell(n)
	if n.Role != cluster.Primary || n.Version != seen.ServerVersion {
		r.t.Errorf("node: %+v", n)
	}
	if seen.Hosts.Primary == "" || seen.Hosts.Secondary == "" || len(seen.Members) != 1 || seen.Installation == "" {
		r.t.Errorf("hosts %+v, members %v, installation %q", seen.Hosts, seen.Members, seen.Installation)
	}
	if seen.UsedBytes == nil || *seen.UsedBytes <= 0 {
		r.t.Errorf("used bytes: %v", seen.UsedBytes)
	}
}

func idempotent(r *run) {
	want := r.wanted(102)
	first := r.apply(&want)
	for range 3 {
		again, err := r.driver.Apply(r.ctx, want)
		if err != nil || !again.Settled {
			r.t.Fatalf("again: settled %v, %v", again.Settled, err)
		}
		if pid(again) != pid(first) {
			r.t.Fatalf("the server was restarted: %s, then %s", pid(first), pid(again))
		}
	}
	if seen := r.observe(want.ID); !seen.Settled || seen.Nodes[0].Restarts != 0 {
		r.t.Errorf("observed: %+v", seen)
	}
	r.restart()
	seen := r.observe(want.ID)
	if !seen.Serving || pid(seen) != pid(first) {
		r.t.Errorf("after a restart: serving %v, process %s, was %s: %s", seen.Serving, pid(seen), pid(first), seen.Problem)
	}
	if after := r.apply(&want); pid(after) != pid(first) {
		r.t.Errorf("Apply restarted the server: %s, was %s", pid(after), pid(first))
	}
	r.mustLogin(want)
}

func resumes(r *run) {
	want := r.wanted(104)
	for _, limit := range []time.Duration{0, 3, 10, 25, 50, 80, 120, 200} {
		ctx, cancel := context.WithTimeout(r.ctx, limit*time.Millisecond)
		_, err := r.driver.Apply(ctx, want)
		cancel()
		if err == nil {
			break
		}
		r.restart()
	}
	r.apply(&want)
	r.mustLogin(want)
}

func survivesKill(r *run) {
	want := r.wanted(105)
	before := r.apply(&want)
	r.mustHaveCrashed(want.ID, 0)
	r.Kill(r.t, r.driver, want.ID)
	select {
	case id := <-r.driver.Changes():
		if id != want.ID {
			r.t.Errorf("told of cluster %d", id)
		}
	case <-time.After(patience):
		r.t.Error("nobody was told")
	}
	var seen platform.Observed
	await.True(r.t, "the server is back", func() bool {
		seen = r.observe(want.ID)
		return seen.Serving && seen.Nodes[0].Restarts > 0
	})
	if seen.Nodes[0].Restarts != before.Nodes[0].Restarts+1 {
		r.t.Errorf("restarts: %d", seen.Nodes[0].Restarts)
	}
	r.mustHaveCrashed(want.ID, 1)
	r.mustLogin(want)
}

func survivesKillWhileDown(r *run) {
	want := r.wanted(106)
	r.apply(&want)
	r.closeIt()
	r.Kill(r.t, r.driver, want.ID)
	r.driver, r.closeIt = r.Bench.Open(r.t)
	r.apply(&want)
	r.mustLogin(want)
}

func survivesReboot(r *run) {
	want := r.wanted(107)
	r.apply(&want)
	r.closeIt()
	r.Reboot(r.t)
	r.driver, r.closeIt = r.Bench.Open(r.t)
	if seen := r.observe(want.ID); !seen.Exists || seen.Serving || seen.Settled || pid(seen) != "" {
		r.t.Errorf("right after a reboot: %+v", seen)
	}
	if r.Booted != nil {
		r.Booted(r.t)
	}
	r.apply(&want)
	r.mustLogin(want)
}

func resizes(r *run) {
	want := r.wanted(108)
	r.apply(&want)
	r.mustHaveCrashed(want.ID, 0)
	want.Plan, want.Type = Large, Large.ID
	if seen := r.observe(want.ID); !seen.Serving {
		r.t.Errorf("asking for more stops it: %+v", seen)
	}
	r.apply(&want)
	r.mustLogin(want)
	want.Plan, want.Type = Small, Small.ID
	settled := r.apply(&want)
	r.mustLogin(want)
	if again := r.apply(&want); pid(again) != pid(settled) {
		r.t.Error("a settled resize restarts the server again")
	}
	r.mustHaveCrashed(want.ID, 0)
}

func changesAccess(r *run) {
	want := r.wanted(109)
	before := r.apply(&want)
	r.setsPassword(want)
	other := netip.MustParseAddr("127.0.0.5")
	password := r.Secrets.Text(want.ID, platform.RootPassword)
	want.AllowList = cluster.AllowList{"127.0.0.5/32"}
	after := r.apply(&want)
	if pid(after) != pid(before) {
		r.t.Error("the server was restarted")
	}
	if err := r.login(want); err == nil {
		r.t.Error("an address taken off the list is let in")
	}
	if err := r.Login(r.ctx, want.Cluster, other, password); err != nil {
		r.t.Errorf("an address put on the list is kept out: %v", err)
	}
	want.AllowList = cluster.AllowList{}
	r.apply(&want)
	if err := r.Login(r.ctx, want.Cluster, other, password); err == nil {
		r.t.Error("an empty list lets in")
	}
}

func (r *run) setsPassword(want platform.Wanted) {
	r.t.Helper()
	old := r.Secrets.Text(want.ID, platform.RootPassword)
	r.Secrets.Set(want.ID, platform.RootPassword, "another-Xk4mPq7wRt2n")
	for range 2 {
		if err := r.driver.SetPassword(r.ctx, want); err != nil {
			r.t.Fatalf("set password: %v", err)
		}
	}
	r.mustLogin(want)
	if err := r.Login(r.ctx, want.Cluster, local, old); err == nil {
		r.t.Error("the old password is let in")
	}
}

func readOnly(r *run) {
	want := r.wanted(111)
	r.apply(&want)
	if err := r.driver.SetReadOnly(r.ctx, want, true); err != nil {
		r.t.Fatalf("set read only: %v", err)
	}
	want.ReadOnly = true
	r.apply(&want)
	r.Kill(r.t, r.driver, want.ID)
	await.True(r.t, "the server is back", func() bool {
		seen := r.observe(want.ID)
		return seen.Serving && seen.Nodes[0].Restarts > 0
	})
	if seen := r.observe(want.ID); !seen.ReadOnly {
		r.t.Error("the guard is gone")
	}
	if err := r.driver.SetReadOnly(r.ctx, want, false); err != nil {
		r.t.Fatalf("set writable: %v", err)
	}
	want.ReadOnly = false
	if seen := r.apply(&want); seen.ReadOnly {
		r.t.Error("the guard stays")
	}
	r.mustLogin(want)
}

func patches(r *run) {
	if r.Older == "" {
		r.t.Skip("there is only one version of the series")
	}
	want := r.wanted(112)
	want.Installation = r.Older
	before := r.apply(&want)
	if before.Installation != r.Older {
		r.t.Fatalf("made with %s, want %s", before.Installation, r.Older)
	}
	r.mustHaveCrashed(want.ID, 0)
	want.Patch = true
	after := r.apply(&want)
	if after.Installation != r.Newer || after.ServerVersion == before.ServerVersion {
		r.t.Errorf("runs %s %s, want %s", after.Installation, after.ServerVersion, r.Newer)
	}
	r.mustLogin(want)
	if again := r.apply(&want); pid(again) != pid(after) {
		r.t.Error("a patch with nothing to do restarts the server")
	}
	r.mustHaveCrashed(want.ID, 0)
	want.Patch = false
	if again := r.apply(&want); again.Installation != r.Newer || pid(again) != pid(after) {
		r.t.Error("the newer version doesn't last")
	}
}

func removes(r *run) {
	want := r.wanted(113)
	r.apply(&want)
	for range 2 {
		if err := r.driver.Remove(r.ctx, want.Cluster); err != nil {
			r.t.Fatalf("remove: %v", err)
		}
	}
	if left := r.Leftovers(r.t, want.ID, want.Port); len(left) > 0 {
		r.t.Errorf("left: %v", left)
	}
	if seen := r.observe(want.ID); seen.Exists || seen.Serving {
		r.t.Errorf("seen after removal: %+v", seen)
	}
	if err := r.login(want); err == nil {
		r.t.Error("a removed cluster lets in")
	}
	// Its port can be used again.
	next := r.wanted(123)
	r.apply(&next)
	r.mustLogin(next)
}

func reconciles(r *run) {
	kept, gone := r.wanted(114), r.wanted(115)
	before := r.apply(&kept)
	r.apply(&gone)
	const orphan = 116
	r.Orphan(r.t, orphan, r.Port+6)
	late := r.wanted(117)
	known := func(context.Context) ([]cluster.Cluster, error) {
		// Made while the driver looks for orphans.
		r.apply(&late)
		return []cluster.Cluster{kept.Cluster}, nil
	}
	if err := r.driver.Reconcile(r.ctx, known); err != nil {
		r.t.Fatalf("reconcile: %v", err)
	}
	for id, port := range map[cluster.ID]int{gone.ID: gone.Port, orphan: r.Port + 6} {
		if left := r.Leftovers(r.t, id, port); len(left) > 0 {
			r.t.Errorf("left of orphan %d: %v", id, left)
		}
	}
	if seen := r.observe(kept.ID); !seen.Serving || pid(seen) != pid(before) {
		r.t.Errorf("a known cluster was touched: %+v", seen)
	}
	if seen := r.observe(late.ID); !seen.Serving {
		r.t.Errorf("a cluster made meanwhile was taken for an orphan: %+v", seen)
	}
}

func portInUse(r *run) {
	if r.Remote {
		r.t.Skip("every cluster has an address of its own")
	}
	want := r.wanted(118)
	other := r.wanted(128)
	if want.Port != other.Port {
		r.t.Fatal("the suite's own ports must clash here")
	}
	r.apply(&other)
	seen, err := r.tryApply(&want)
	if err != nil || !seen.Permanent || seen.Problem == "" || seen.Settled {
		r.t.Fatalf("got %+v, %v", seen, err)
	}
	r.t.Logf("problem: %s", seen.Problem)
	if err := r.driver.Remove(r.ctx, other.Cluster); err != nil {
		r.t.Fatal(err)
	}
	if seen := r.apply(&want); seen.Problem != "" {
		r.t.Errorf("the problem stays: %+v", seen)
	}
	if left := slices.Concat(r.Leftovers(r.t, other.ID, other.Port)); len(left) > 0 && !slices.Contains(left, "port") {
		r.t.Errorf("left: %v", left)
	}
}
