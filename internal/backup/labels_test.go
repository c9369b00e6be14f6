package backup

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	for label, good := range map[string]bool{
		"a": true, "snap1": true, "Snap1": true, strings.Repeat("x", 30): true,
		"": false, strings.Repeat("x", 31): false, "a-b": false, "a b": false, "b_2": false, "ä": false,
	} {
		if faults := ValidateLabel(label); (len(faults) == 0) != good {
			t.Errorf("%q: %v", label, faults)
		}
	}
	if len(ValidateTarget(FromSecondary)) != 0 || len(ValidateTarget("tertiary")) != 1 {
		t.Error("targets")
	}
}

func TestAutoLabel(t *testing.T) {
	var all []Backup
	seen := map[string]bool{}
	for i := range 60 {
		label := AutoLabel(at("2026-01-31 00:00"), all)
		if len(ValidateLabel(label)) > 0 || seen[label] {
			t.Errorf("the %d. is %q", i+1, label)
		}
		if i < 3 && label != []string{"auto20260131", "auto20260131b", "auto20260131c"}[i] {
			t.Errorf("the %d. is %q", i+1, label)
		}
		seen[label] = true
		all = append(all, Backup{Label: label})
	}
}
