package host

import (
	"strings"
	"testing"
	"time"
)

func TestRepeatedCrashesWaitLongerAndBecomeAProblem(t *testing.T) {
	m := newUnit(1).member(0)
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var waits []time.Duration
	for range 12 {
		waits = append(waits, m.crashed(now, "out of memory"))
		now = now.Add(time.Second)
	}
	if waits[0] != 0 || waits[1] != 50*time.Millisecond || waits[2] != 100*time.Millisecond || waits[11] != 30*time.Second {
		t.Errorf("waits: %v", waits)
	}
	problem := m.trouble(now)
	if !strings.Contains(problem, "12 times") || !strings.Contains(problem, "out of memory") {
		t.Errorf("problem: %q", problem)
	}
	later := now.Add(time.Hour)
	if problem := m.trouble(later); problem != "" {
		t.Errorf("an hour later still: %q", problem)
	}
	if wait := m.crashed(later, ""); wait != 0 {
		t.Errorf("first crash in an hour waits %v", wait)
	}
}

func TestASingleCrashIsNoProblem(t *testing.T) {
	m := newUnit(1).member(0)
	now := time.Now()
	m.crashed(now, "")
	if problem := m.trouble(now); problem != "" {
		t.Errorf("problem: %q", problem)
	}
}
