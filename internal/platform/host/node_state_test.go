package host

import (
	"strings"
	"testing"
	"time"
)

func TestRepeatedCrashesWaitLongerAndBecomeAProblem(t *testing.T) {
	ns := newClusterState(1).node(0)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var waits []time.Duration
	for range 12 {
		waits = append(waits, ns.crashed(now, "out of memory"))
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
	if wait := ns.crashed(later, ""); wait != 0 {
		t.Errorf("first crash in an hour waits %v", wait)
	}
}

func TestASingleCrashIsNoProblem(t *testing.T) {
	ns := newClusterState(1).node(0)
	now := time.Now()
	ns.crashed(now, "")
	if problem := ns.crashProblem(now); problem != "" {
		t.Errorf("problem: %q", problem)
	}
}
