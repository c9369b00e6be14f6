package main

import (
	"strings"
	"testing"
	"time"
)

func TestSummary(t *testing.T) {
	s := summarise([]Round{
		{Gap: 3 * time.Second, Healthy: 5 * time.Second, Acked: 10, Lost: 1, Errors: map[string]int{"read-only": 2}},
		{Gap: time.Second, Healthy: 4 * time.Second, Acked: 20, Stale: 1},
		{Gap: 2 * time.Second, Healthy: 9 * time.Second, Acked: 30, Duplicates: 1, Errors: map[string]int{"read-only": 1}},
	})
	if s.GapP50 != 2*time.Second || s.GapMax != 3*time.Second || s.HealthyP50 != 5*time.Second || s.HealthyMax != 9*time.Second {
		t.Errorf("times: %+v", s)
	}
	if s.Acked != 60 || s.Lost != 1 || s.Stale != 1 || s.Duplicates != 1 || s.Errors["read-only"] != 3 {
		t.Errorf("counts: %+v", s)
	}
	if empty := summarise(nil); empty.GapMax != 0 {
		t.Errorf("of no round: %+v", empty)
	}
}

func TestCompare(t *testing.T) {
	result := func(target, mode, kind, fault string, gap time.Duration) Result {
		return Result{Target: target, Engine: "postgresql/15", Mode: mode, Fault: fault, kind: kind, Summary: Summary{GapP50: gap}}
	}
	results := []Result{
		result("steward", "asynch local", kill9, "kill9", time.Second),
		result("steward", "asynch on", kill9, "kill9", 2*time.Second),
		result("patroni-tuned", "asynch on", kill9, "kill9-server", 5*time.Second),
		result("patroni-tuned", "asynch on", stopped, "stop-server", 5*time.Second),
	}
	compare(results)
	for i, want := range []float64{0, 0, 2.5, 0} {
		if got := results[i].Summary.Ratio; got != want {
			t.Errorf("%s %s %s: ratio %v, want %v", results[i].Target, results[i].Mode, results[i].Fault, got, want)
		}
	}
	var out strings.Builder
	results[3].Error = "no primary"
	if err := printTable(&out, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kill9-server", "5.00s", "2.5", "patroni-tuned asynch on stop-server: no primary"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
