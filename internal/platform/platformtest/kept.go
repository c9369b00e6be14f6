package platformtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// Keeping is what the suite needs to know of a platform that keeps backups itself.
type Keeping struct {
	// Hold makes a cluster hold data in the place of what it held, by its customer's account; Held is what it holds.
	Hold func(t *testing.T, c cluster.Cluster, data string)
	Held func(t *testing.T, c cluster.Cluster) string
	// Stored names what is kept of a cluster.
	Stored func(t *testing.T, c cluster.Cluster) []string
	// Moments reports whether what is written between backups is archived.
	Moments bool
}

// runKept runs the cases of platforms that keep backups.
func runKept(t *testing.T, b *Bench) {
	if b.Keeps == nil {
		return
	}
	for _, c := range []struct {
		name string
		run  func(*run)
		here bool
	}{
		{"a kept backup is restored in place, and that undone", restoresKept, true},
		{"a kept backup is forked, verified and dropped", forksKept, true},
		{"a moment between kept backups is restored and forked", restoresMoments, b.Keeps.Moments},
		{"three nodes are restored from a kept backup of a replica", restoresThree, len(b.Sizes) > 0 && !b.Short},
	} {
		if c.here && b.tries(c.name) {
			t.Run(c.name, func(t *testing.T) { c.run(b.open(t)) })
		}
	}
}

func (r *run) take(want platform.Wanted, id backup.ID, from cluster.Role) platform.KeptSource {
	r.t.Helper()
	kept, err := r.driver.TakeBackup(r.ctx, want, id, from)
	if err != nil {
		r.t.Fatalf("take a backup: %v", err)
	}
	if kept.Ref == "" || kept.Bytes == 0 || kept.StoredBytes == 0 || kept.Installation == "" {
		r.t.Errorf("kept: %+v", kept)
	}
	return platform.KeptSource{Backup: id, Ref: kept.Ref, Of: want.Cluster}
}

func (r *run) mustHold(want platform.Wanted, data string) {
	r.t.Helper()
	if got := r.Keeps.Held(r.t, want.Cluster); got != data {
		r.t.Errorf("it holds %q, want %q", got, data)
	}
}

// restore restores as an operation does, and lets customers in again.
func (r *run) restore(want *platform.Wanted, from platform.KeptSource, token string) time.Time {
	r.t.Helper()
	from.Token = token
	placed := false
	reached, err := r.driver.RestoreKept(r.ctx, *want, from, func() error { placed = true; return nil })
	if err != nil {
		r.t.Fatalf("restore: %v", err)
	}
	if !placed {
		r.t.Error("nobody was told before the data was replaced")
	}
	r.apply(want)
	return reached
}

func restoresKept(r *run) {
	want := r.wanted(111)
	r.apply(&want)
	r.Keeps.Hold(r.t, want.Cluster, "one")
	from := r.take(want, 1, cluster.Primary)
	if again := r.take(want, 1, cluster.Primary); again.Ref != from.Ref {
		r.t.Errorf("the same backup is %s, then %s", from.Ref, again.Ref)
	}
	r.Keeps.Hold(r.t, want.Cluster, "two")
	hosts := want.Hosts

	refused := errors.New("not now")
	from.Token = "1"
	if _, err := r.driver.RestoreKept(r.ctx, want, from, func() error { return refused }); !errors.Is(err, refused) {
		r.t.Fatalf("what keeps it from being placed: %v", err)
	}
	r.mustHold(want, "two")
	r.restart()
	r.restore(&want, from, "1")
	r.mustHold(want, "one")
	r.mustLogin(want)
	if want.Hosts != hosts {
		r.t.Errorf("its addresses changed: %+v, before %+v", want.Hosts, hosts)
	}
	r.Keeps.Hold(r.t, want.Cluster, "three")
	if _, err := r.driver.RestoreKept(r.ctx, want, from, func() error { return nil }); err != nil {
		r.t.Fatalf("the same restore again: %v", err)
	}
	r.apply(&want)
	r.mustHold(want, "three")

	if err := r.driver.Undo(r.ctx, want); err != nil {
		r.t.Fatalf("undo: %v", err)
	}
	r.apply(&want)
	r.mustHold(want, "two")
	r.mustLogin(want)
	if want.Hosts != hosts {
		r.t.Errorf("its addresses changed: %+v, before %+v", want.Hosts, hosts)
	}
	r.restore(&want, from, "2")
	r.mustHold(want, "one")
	if seen := r.observe(want.ID); seen.Failovers > 0 {
		r.t.Errorf("a restore counts as a failover: %+v", seen)
	}
	r.mustGo(want)
}

// mustGo removes a cluster with all that is kept of it.
func (r *run) mustGo(want platform.Wanted) {
	r.t.Helper()
	if err := r.driver.Remove(r.ctx, want.Cluster); err != nil {
		r.t.Errorf("remove: %v", err)
	}
	if left := r.Leftovers(r.t, want.ID, want.Port); len(left) > 0 {
		r.t.Errorf("left: %v", left)
	}
	if len(r.Keeps.Stored(r.t, want.Cluster)) == 0 {
		r.t.Error("the backups have gone with it")
	}
	if err := r.driver.DropBackups(r.ctx, want.Cluster); err != nil {
		r.t.Errorf("drop: %v", err)
	}
	if left := r.Keeps.Stored(r.t, want.Cluster); len(left) > 0 {
		r.t.Errorf("still kept: %v", left)
	}
}

func forksKept(r *run) {
	source := r.wanted(112)
	r.apply(&source)
	r.Keeps.Hold(r.t, source.Cluster, "one")
	from := r.take(source, 2, cluster.Primary)
	second := r.take(source, 3, cluster.Primary)
	if err := r.driver.VerifyKept(r.ctx, source, from); err != nil {
		r.t.Errorf("verify: %v", err)
	}
	fork := r.wanted(113)
	from.AdminPassword, from.Token = r.Secrets.Text(source.ID, platform.AdminPassword), "3"
	if _, err := r.driver.ForkKept(r.ctx, fork, from); err != nil {
		r.t.Fatalf("fork: %v", err)
	}
	if _, err := r.driver.ForkKept(r.ctx, fork, from); err != nil {
		r.t.Fatalf("the same fork again: %v", err)
	}
	r.apply(&fork)
	r.mustHold(fork, "one")
	r.mustLogin(fork)
	r.mustLogin(source)
	if err := r.Login(r.ctx, fork.Cluster, local, r.Secrets.Text(source.ID, platform.RootPassword)); err == nil {
		r.t.Error("the source's password opens the fork")
	}

	before := len(r.Keeps.Stored(r.t, source.Cluster))
	for range 2 {
		if err := r.driver.DropBackup(r.ctx, source.Cluster, from.Backup, from.Ref); err != nil {
			r.t.Errorf("drop: %v", err)
		}
	}
	if after := len(r.Keeps.Stored(r.t, source.Cluster)); after >= before {
		r.t.Errorf("%d objects are kept, before %d", after, before)
	}
	if err := r.driver.VerifyKept(r.ctx, source, from); err == nil || errors.Is(err, platform.ErrUnverified) {
		r.t.Errorf("a backup that is gone is verified: %v", err)
	}
	if err := r.driver.PruneBackups(r.ctx, source.Cluster, []string{second.Ref}); err != nil {
		r.t.Errorf("prune: %v", err)
	}
	if err := r.driver.VerifyKept(r.ctx, source, second); err != nil {
		r.t.Errorf("another backup: %v", err)
	}
	known := func(context.Context) ([]cluster.Cluster, error) {
		return []cluster.Cluster{source.Cluster, fork.Cluster}, nil
	}
	if err := r.driver.Reconcile(r.ctx, known); err != nil {
		r.t.Errorf("reconcile: %v", err)
	}
	r.mustLogin(fork)
	r.mustGo(source)
}

func restoresMoments(r *run) {
	want := r.wanted(114)
	r.apply(&want)
	from := r.take(want, 4, cluster.Primary)
	r.Keeps.Hold(r.t, want.Cluster, "one")
	moment := time.Now()
	r.Keeps.Hold(r.t, want.Cluster, "two")
	from.Until = &moment
	if reached := r.restore(&want, from, "4"); !reached.Equal(moment) {
		r.t.Errorf("reached %v, want %v", reached, moment)
	}
	r.mustHold(want, "one")

	// What was restored over is at rest: all of it is archived.
	fork := r.wanted(115)
	late := time.Now()
	from.Until, from.AdminPassword, from.Token = &late, r.Secrets.Text(want.ID, platform.AdminPassword), "5"
	reached, err := r.driver.ForkKept(r.ctx, fork, from)
	if err != nil || reached.After(late) || !reached.After(moment) {
		r.t.Fatalf("reached %v, %v", reached, err)
	}
	r.apply(&fork)
	r.mustHold(fork, "two")
	r.mustGo(want)
}

func restoresThree(r *run) {
	want := r.wanted(117)
	want.Size, want.Replication = 3, cluster.Asynch
	r.apply(&want)
	r.Keeps.Hold(r.t, want.Cluster, "one")
	from := r.take(want, 5, cluster.Replica)
	r.Keeps.Hold(r.t, want.Cluster, "two")
	r.restore(&want, from, "6")
	r.mustHold(want, "one")
	if seen := r.observe(want.ID); seen.Healthy != 3 {
		r.t.Errorf("seen: %+v", seen)
	}
}
