package host

import (
	"strings"
	"testing"
	"time"
)

func TestRepeatedCrashesWaitLongerAndBecomeAProblem(t *testing.T) {
	u := newUnit(1)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var waits []time.Duration
	for range 12 {
		waits = append(waits, u.crashed(now, "out of memory"))
		now = now.Add(time.Second)
	}
	if waits[0] != 0 || waits[1] != 50*time.Millisecond || waits[2] != 100*time.Millisecond || waits[11] != 30*time.Second {
		t.Errorf("waits: %v", waits)
	}
	problem, permanent := u.trouble(now)
	if !strings.Contains(problem, "12 times") || !strings.Contains(problem, "out of memory") || permanent {
		t.Errorf("problem: %q, permanent %v", problem, permanent)
	}
	later := now.Add(time.Hour)
	if problem, _ := u.trouble(later); problem != "" {
		t.Errorf("an hour later still: %q", problem)
	}
	if wait := u.crashed(later, ""); wait != 0 {
		t.Errorf("first crash in an hour waits %v", wait)
	}
}

func TestASingleCrashIsNoProblem(t *testing.T) {
	u := newUnit(1)
	now := time.Now()
	u.crashed(now, "")
	if problem, _ := u.trouble(now); problem != "" {
		t.Errorf("problem: %q", problem)
	}
}
