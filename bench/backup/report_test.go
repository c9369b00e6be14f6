package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	results := []Result{
		{Target: floorName, Engine: "a", Backups: []Run{{10, 4, 0}, {30, 8, 0}, {20, 2, 0}}},
		{Target: "steward", Engine: "a", Backups: []Run{{10, 2, 5 << 20}}, Restores: []Run{{1, 1, 7 << 20}}, Loads: []Load{{Kept: .1}, {Kept: 1}, {Kept: .9}}},
		{Target: "steward", Engine: "b", Backups: []Run{{10, 2, 0}}},
	}
	compare(results)
	if want := (Ratio{.5, .5}); results[1].Backup != want {
		t.Errorf("ratio is %v", results[1].Backup)
	}
	for _, i := range []int{0, 2} {
		if results[i].Backup != (Ratio{}) {
			t.Errorf("%s of %s has a ratio: %v", results[i].Target, results[i].Engine, results[i].Backup)
		}
	}
	var out strings.Builder
	if err := printTable(&out, results); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"0.50", "7 MiB", "0.90"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %s in\n%s", text, out.String())
		}
	}
}

func TestParse(t *testing.T) {
	s, err := parse([]string{"-engine", "mysql/10.11", "-size", "0.1"}, &strings.Builder{})
	if err != nil || len(s.engines) != 1 || s.gigabytes != 0.1 {
		t.Errorf("%+v %v", s, err)
	}
	for _, bad := range []string{"-rounds=0", "-size=0", "-writers=-1", "-at-once=0", "more"} {
		if _, err := parse([]string{bad}, &strings.Builder{}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
