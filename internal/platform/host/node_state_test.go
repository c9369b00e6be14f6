package host

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/engine"
	"steward/internal/process"
)

func TestRepeatedCrashesWaitLongerAndBecomeAProblem(t *testing.T) {
	ns := newClusterState(1).node(0)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var waits []time.Duration
	for range 12 {
		waits = append(waits, ns.crashed(now, time.Second, "out of memory"))
		now = now.Add(time.Second)
	}
	if waits[0] != 0 || waits[1] != 50*time.Millisecond || waits[2] != 100*time.Millisecond || waits[11] != 30*time.Second {
		t.Errorf("waits: %v", waits)
	}
	problem := ns.crashProblem(now)
	if !strings.Contains(problem, "12 times") || !strings.Contains(problem, "out of memory") {
		t.Errorf("problem: %q", problem)
	}
	later := now.Add(time.Hour)
	if problem := ns.crashProblem(later); problem != "" {
		t.Errorf("an hour later still: %q", problem)
	}
	if wait := ns.crashed(later, time.Hour, ""); wait != 0 {
		t.Errorf("first crash in an hour waits %v", wait)
	}
}

// TestWhoEndsSoonIsStartedLater: a server that has ended several times waits for its turn, unless it is started for something new, has run for a while, or was stopped.
func TestWhoEndsSoonIsStartedLater(t *testing.T) {
	ns := newClusterState(1).node(0)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	may := func(want bool, purpose, when string) {
		t.Helper()
		if err := ns.mayStart(now, purpose, nil); (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
	}
	may(true, "small", "at first")
	if pause := ns.crashed(now, time.Second, "no room"); pause != 0 {
		t.Errorf("after the first end: %v", pause)
	}
	may(true, "small", "after one end")
	var pause time.Duration
	for range 8 {
		pause = ns.crashed(now, time.Second, "no room")
	}
	may(false, "small", "after many ends")
	may(true, "large", "for something new")
	if pause := ns.crashed(now, time.Second, "no room"); pause != 0 {
		t.Errorf("after the first end of what is new: %v", pause)
	}
	for range 8 {
		pause = ns.crashed(now, time.Second, "no room")
	}
	may(false, "large", "after many ends of that, too")
	now = now.Add(pause)
	may(true, "large", "when its time has come")
	if pause := ns.crashed(now, time.Minute, "no room"); pause != 0 {
		t.Errorf("after it had run for a while: %v", pause)
	}
	for range 8 {
		ns.crashed(now, time.Second, "no room")
	}
	ns.startsAnew()
	may(true, "large", "after it was stopped on purpose")
}

// TestEndThatNobodyHasCounted: who is to start a server counts its end, if that is so new that nobody has, and once. They tell
// what it said, not what the one before it did: each end is told of once.
func TestEndThatNobodyHasCounted(t *testing.T) {
	ns := newClusterState(1).node(0)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for range 8 {
		if err := ns.mayStart(now, "small", nil); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
		ns.crashed(now, time.Second, "no room")
		now = now.Add(time.Minute)
	}
	dir := t.TempDir()
	p, err := process.Start(process.Spec{
		Identity: process.Identity{Dir: dir}, Argv: []string{"/bin/true"}, Env: []string{"PATH=/usr/bin:/bin"}, WorkDir: dir, Output: outputFile(dir), PidFile: filepath.Join(dir, "pid"),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	ns.setProcess(p)
	before := ns.crashCount()
	words := func() string { return "no memory" }
	if err := ns.mayStart(now, "small", words); err == nil || !strings.HasSuffix(err.Error(), "no memory") {
		t.Errorf("a server that has just ended may be started at once, or says something else: %v", err)
	}
	pause, said := ns.exited(now, p, words)
	if n := ns.crashCount(); n != before+1 {
		t.Errorf("its end is counted %d times", n-before)
	}
	if err := ns.mayStart(now.Add(pause), "small", words); err != nil || said != "no memory" {
		t.Errorf("after %v: %v, said %q", pause, err, said)
	}
}

func TestASingleCrashIsNoProblem(t *testing.T) {
	ns := newClusterState(1).node(0)
	now := time.Now()
	ns.crashed(now, time.Second, "")
	if problem := ns.crashProblem(now); problem != "" {
		t.Errorf("problem: %q", problem)
	}
}

// TestCaughtUp asks a primary and its replica in different orders around a start.
func TestCaughtUp(t *testing.T) {
	ns := newClusterState(1).node(1)
	streams := func(received uint64, asked time.Time) {
		ns.setReplicationStatus(engine.ReplicationStatus{Streaming: true, Received: received}, asked, asked)
	}
	want := func(caughtUp bool, when string) {
		t.Helper()
		if got := ns.hasCaughtUp(); got != caughtUp {
			t.Fatalf("%s it is taken for caught up: %v", when, got)
		}
	}
	before := time.Now()
	ns.setProcess(nil)
	now := time.Now().Add(time.Second)
	streams(7, now)
	ns.noteCaughtUp(7, before)
	want(false, "with a position of the primary's from before the start")
	ns.noteCaughtUp(8, now)
	want(false, "behind the primary")
	streams(8, before)
	ns.noteCaughtUp(8, now)
	want(false, "with a position of its own from before the start")
	streams(8, now)
	ns.noteCaughtUp(8, now)
	want(true, "with what the primary had")
	ns.noteCaughtUp(9, now)
	want(true, "and while it lags behind again")
	ns.setProcess(nil)
	want(false, "after another start")
	streams(9, time.Now().Add(time.Second))
	ns.noteCaughtUp(9, time.Now().Add(time.Second))
	want(true, "with what the primary had")
	for _, afresh := range []bool{false, true} {
		if err := ns.follow(t.Context(), follower{afresh: afresh}, engine.Node{}); err != nil {
			t.Fatal(err)
		}
		want(!afresh, "after it was told to follow, which it began to afresh or not")
	}
}

// follower is a replica that follows its source already, or begins to afresh.
type follower struct {
	engine.Replicator
	afresh bool
}

func (f follower) Follow(context.Context, engine.Node) (bool, error) { return f.afresh, nil }
