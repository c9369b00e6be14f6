package kubernetes_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// TestClocksThorough: what the operator and machines write down by clocks that aren't ours decides nothing, and nothing is told that has yet
// to happen. A failover is tried by such clocks each time (TestFailover).
func TestClocksThorough(t *testing.T) {
	b := newBench(t)
	b.keep(t)
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	for name, ahead := range map[string]time.Duration{"ahead": 26 * time.Hour, "behind": -26 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b.op.Skew(ahead)
			want := b.wanted(t, map[string]cluster.ID{"ahead": 711, "behind": 712}[name])
			want.Size, want.Commit = 3, cluster.CommitRemoteWrite
			before := settle(t, d, &want)
			mustNotBeAhead(t, before)
			if before.Failovers != 0 || !before.LastFailover.IsZero() {
				t.Errorf("a failover that never was: %+v", before)
			}
			b.hold(t, want.Cluster, "one")
			kept, err := d.TakeBackup(t.Context(), want, 1, cluster.Primary)
			if err != nil {
				t.Fatal(err)
			}
			b.op.LosePrimary(object(want.ID))
			var seen platform.Observed
			await.True(t, "another is the primary", func() bool {
				seen, err = d.Observe(t.Context(), want.ID)
				return err == nil && seen.Settled && seen.Failovers == 1
			})
			mustNotBeAhead(t, seen)
			if seen.LastFailover.IsZero() || seen.LastChange.Planned || seen.Hosts != before.Hosts {
				t.Errorf("seen: %+v", seen)
			}
			want.Switchover = new(seen.Nodes[0].Ordinal)
			seen = settle(t, d, &want)
			mustNotBeAhead(t, seen)
			if seen.Failovers != 2 || !seen.LastChange.Planned || !strings.Contains(seen.FailoverReason, "as was asked for") {
				t.Errorf("handed over: %+v", seen)
			}
			want.Switchover = nil
			b.hold(t, want.Cluster, "two")
			from := platform.KeptSource{Backup: 1, Ref: kept.Ref, Of: want.Cluster, Token: "1"}
			if _, err := d.RestoreKept(t.Context(), want, from, func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			seen = settle(t, d, &want)
			mustNotBeAhead(t, seen)
			if held := b.held(t, want.Cluster); held != "one" || seen.Failovers != 2 {
				t.Errorf("it holds %q after %d failovers", held, seen.Failovers)
			}
			if err := d.Undo(t.Context(), want); err != nil { // what a restore has set aside is of our own clock
				t.Fatal(err)
			}
			settle(t, d, &want)
			if held := b.held(t, want.Cluster); held != "two" {
				t.Errorf("undone, it holds %q", held)
			}
			if err := d.Remove(t.Context(), want.Cluster); err != nil {
				t.Error(err)
			}
		})
	}
}

// mustNotBeAhead demands that nothing is told that has yet to happen.
func mustNotBeAhead(t *testing.T, seen platform.Observed) {
	t.Helper()
	now := time.Now()
	if seen.LastFailover.After(now) {
		t.Errorf("the primary will have changed at %v", seen.LastFailover)
	}
	for _, n := range seen.Nodes {
		if n.Started.After(now) || n.Started.IsZero() {
			t.Errorf("node %d will have been started at %v", n.Ordinal, n.Started)
		}
	}
}
