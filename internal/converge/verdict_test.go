package converge

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/cluster"
	"steward/internal/platform"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	const grace = 3 * time.Second
	serving := platform.Observed{Exists: true, Serving: true, Settled: true}
	unsettled := platform.Observed{Exists: true, Serving: true}
	down := platform.Observed{Exists: true, Problem: "the server isn't running"}
	hopeless := platform.Observed{Exists: true, Problem: "no engine", Permanent: true}
	crashing := platform.Observed{Exists: true, Serving: true, Settled: true, Problem: "the server exited 5 times"}
	for _, c := range []struct {
		name   string
		status cluster.Status
		seen   platform.Observed
		down   time.Duration
		want   cluster.Trigger
	}{
		{"all is well", cluster.Active, serving, 0, ""},
		{"serving but not settled is no reason to change", cluster.Active, unsettled, 0, ""},
		{"a crash restart doesn't flap", cluster.Active, down, 2900 * time.Millisecond, ""},
		{"down for longer than the grace", cluster.Active, down, grace, cluster.Down},
		{"a degraded one that goes down", cluster.Degraded, down, grace, cluster.Down},
		{"what can't be mended is told at once", cluster.Active, hopeless, 0, cluster.Down},
		{"a failed one fails once", cluster.Failed, down, time.Hour, ""},
		{"a failed one with a lasting problem fails once", cluster.Failed, hopeless, time.Hour, ""},
		{"a failed one that serves", cluster.Failed, serving, 0, cluster.Healed},
		{"a degraded one that is settled", cluster.Degraded, serving, 0, cluster.Healed},
		{"a degraded one that isn't settled yet", cluster.Degraded, unsettled, 0, ""},
		{"one that crashes again and again isn't healed", cluster.Failed, crashing, 0, ""},
		{"but serves meanwhile", cluster.Active, crashing, 0, ""},
	} {
		if got := verdict(c.status, c.seen, c.down, grace); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestVerdictIsLegal: whatever is seen, the table of statuses has the change.
func TestVerdictIsLegal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		status := rapid.SampledFrom([]cluster.Status{cluster.Active, cluster.Degraded, cluster.Failed}).Draw(t, "status")
		seen := platform.Observed{
			Exists: rapid.Bool().Draw(t, "exists"), Serving: rapid.Bool().Draw(t, "serving"), Settled: rapid.Bool().Draw(t, "settled"),
			Permanent: rapid.Bool().Draw(t, "permanent"), Problem: rapid.SampledFrom([]string{"", "x"}).Draw(t, "problem"),
		}
		trigger := verdict(status, seen, time.Duration(rapid.Int64Range(0, 100).Draw(t, "down")), 50)
		if trigger == "" {
			return
		}
		to, ok := cluster.Next(status, trigger)
		if !ok || (to == cluster.Active) != seen.Serving {
			t.Fatalf("%s on %s: %s, %v", status, trigger, to, ok)
		}
	})
}

func TestGuard(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := int64(rapid.IntRange(1, 1<<20).Draw(t, "limit")) << 20
		used := rapid.Int64Range(0, limit+limit/4).Draw(t, "used")
		isOn := rapid.Bool().Draw(t, "is on")
		on, due := guard(&used, limit, isOn)
		if due != (on != isOn) {
			t.Fatalf("on %v, was %v, due %v", on, isOn, due)
		}
		share := float64(used) / float64(limit)
		switch {
		case share >= 0.9501 && !on:
			t.Fatalf("%.4f full and writable", share)
		case share < 0.8999 && on:
			t.Fatalf("%.4f full and read-only", share)
		case share > 0.9001 && share < 0.9499 && due:
			t.Fatalf("%.4f full and it changes", share)
		}
	})
	if on, due := guard(nil, 100, true); !on || due {
		t.Error("an unknown use changes the guard")
	}
}

func TestWorthRecording(t *testing.T) {
	t.Parallel()
	used := func(n int64) *int64 { return &n }
	row := cluster.Cluster{
		Hosts: cluster.Hosts{Primary: "a", Secondary: "b"}, Members: map[string]string{"m": "primary"},
		Installation: "i", ServerVersion: "15.1", UsedBytes: used(100 << 20),
	}
	same := platform.Observed{Hosts: row.Hosts, Members: row.Members, Installation: "i", ServerVersion: "15.1", UsedBytes: used(100 << 20)}
	for _, c := range []struct {
		name   string
		change func(*platform.Observed)
		want   bool
	}{
		{"nothing new", func(*platform.Observed) {}, false},
		{"down: what can't be seen is kept", func(o *platform.Observed) { *o = platform.Observed{} }, false},
		{"a little more in use", func(o *platform.Observed) { o.UsedBytes = used(110 << 20) }, false},
		{"much more in use", func(o *platform.Observed) { o.UsedBytes = used(140 << 20) }, true},
		{"much less in use", func(o *platform.Observed) { o.UsedBytes = used(40 << 20) }, true},
		{"another version", func(o *platform.Observed) { o.ServerVersion = "15.2" }, true},
		{"read-only", func(o *platform.Observed) { o.ReadOnly = true }, true},
		{"other members", func(o *platform.Observed) { o.Members = map[string]string{"n": "primary"} }, true},
	} {
		seen := same
		c.change(&seen)
		if got := worthRecording(row, seen); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	row.UsedBytes = used(1<<30 - 1)
	same.UsedBytes = used(1<<30 + 1)
	if !worthRecording(row, same) {
		t.Error("another gigabyte, as the API shows it")
	}
}
