package converge

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/cluster"
	"steward/internal/platform"
)

func TestTrigger(t *testing.T) {
	t.Parallel()
	const grace = 3 * time.Second
	serving := platform.Observed{Exists: true, Serving: true, Settled: true}
	unsettled := platform.Observed{Exists: true, Serving: true}
	down := platform.Observed{Exists: true, Problem: "the server isn't running"}
	hopeless := platform.Observed{Exists: true, Problem: "no engine", Permanent: true}
	fewer := platform.Observed{Exists: true, Serving: true, Degraded: true, Healthy: 2}
	copying := platform.Observed{Exists: true, Serving: true, Degraded: true, Settled: true, Healthy: 2}
	hurt := platform.Observed{Exists: true, Serving: true, Degraded: true, Healthy: 1, Problem: "node 1 has no room", Permanent: true}
	leaderless := platform.Observed{Exists: true, Healthy: 2, Problem: "no node can take over"}
	crashing := platform.Observed{Exists: true, Serving: true, Settled: true, Problem: "the server exited 5 times"}
	for _, c := range []struct {
		name   string
		status cluster.Status
		seen   platform.Observed
		lasts  time.Duration
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
		{"a node that comes back at once doesn't flap", cluster.Active, fewer, grace - 1, ""},
		{"a node lost for longer than the grace", cluster.Active, fewer, grace, cluster.NodeLost},
		{"also when nothing more can be applied", cluster.Active, copying, grace, cluster.NodeLost},
		{"what can't be mended of a node is told at once", cluster.Active, hurt, 0, cluster.NodeLost},
		{"and once", cluster.Degraded, fewer, time.Hour, ""},
		{"it isn't healed while fewer serve", cluster.Degraded, copying, 0, ""},
		{"nor does a lasting problem of a replica fail it", cluster.Degraded, hurt, time.Hour, ""},
		{"a failed one in which a replica took over", cluster.Failed, fewer, 0, cluster.NodeLost},
		{"a failed one that serves again with a lasting problem", cluster.Failed, hurt, 0, cluster.NodeLost},
		{"a primary lost may have a successor soon", cluster.Active, leaderless, grace - 1, ""},
		{"a primary lost without a successor", cluster.Active, leaderless, grace, cluster.Down},
		{"the same when it was degraded", cluster.Degraded, leaderless, grace, cluster.Down},
		{"a failed one without a primary stays", cluster.Failed, leaderless, time.Hour, ""},
	} {
		if got := trigger(c.status, c.seen, c.lasts, grace); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTriggerIsLegal: whatever is seen, the table of statuses has the change.
func TestTriggerIsLegal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		status := rapid.SampledFrom([]cluster.Status{cluster.Active, cluster.Degraded, cluster.Failed}).Draw(t, "status")
		seen := platform.Observed{
			Exists: rapid.Bool().Draw(t, "exists"), Serving: rapid.Bool().Draw(t, "serving"), Settled: rapid.Bool().Draw(t, "settled"),
			Degraded: rapid.Bool().Draw(t, "degraded"), Healthy: rapid.IntRange(0, 3).Draw(t, "healthy"),
			Permanent: rapid.Bool().Draw(t, "permanent"), Problem: rapid.SampledFrom([]string{"", "x"}).Draw(t, "problem"),
		}
		found := trigger(status, seen, time.Duration(rapid.Int64Range(0, 100).Draw(t, "down")), 50)
		if found == "" {
			return
		}
		to, ok := cluster.Next(status, found)
		want := cluster.Failed
		switch {
		case seen.Serving && seen.Degraded:
			want = cluster.Degraded
		case seen.Serving:
			want = cluster.Active
		}
		if !ok || to != want {
			t.Fatalf("%s on %s: %s, %v; want %s", status, found, to, ok, want)
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

// inner is what servers and hosts say of themselves, and customers don't read.
const inner = "connect as steward to /var/lib/steward/1/socket: pid 4711 (postgres)"

func TestMessagesOfLostNodes(t *testing.T) {
	t.Parallel()
	three := cluster.Cluster{Spec: cluster.Spec{Size: 3}}
	const want = "The database takes writes, but only 2 of 3 nodes serve."
	for _, seen := range []platform.Observed{
		{Healthy: 2},
		{Healthy: 2, Problem: inner},
		{Healthy: 2, Problem: inner, Nodes: []platform.Node{{Problem: inner}, {}, {Problem: inner}}},
	} {
		if got := fewerServe(three, seen); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	blocked := platform.Observed{Healthy: 2, Problem: inner, CustomerProblem: "The database x is in the way."}
	if got := fewerServe(three, blocked); got != want+" The database x is in the way." {
		t.Errorf("what only the customer can mend: %q", got)
	}
	for _, seen := range []platform.Observed{{}, {Problem: inner}, {Problem: platform.LostReason}} {
		if got := doesntServe(seen); !strings.HasPrefix(got, "The database doesn't serve") || strings.Contains(got, inner) {
			t.Errorf("%q", got)
		}
	}
	if got := problems(platform.Observed{Problem: inner, Nodes: []platform.Node{{}, {Ordinal: 1, Problem: "lag"}}}); len(got) != 2 || got[0] != inner || got[1] != "node 1: lag" {
		t.Errorf("the log is told %q", got)
	}
	for want, got := range map[string]string{
		"Node 0 died.": failoverMessage(1, "Node 0 died."),
		"The primary changed 2 times. The last time: Node 0 died.": failoverMessage(2, "Node 0 died."),
		"Another node has taken over as primary.":                  failoverMessage(1, ""),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
