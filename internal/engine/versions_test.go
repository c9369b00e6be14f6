package engine

import (
	"slices"
	"testing"
)

func TestCompareVersions(t *testing.T) {
	sorted := []string{"", "8.4.2", "9", "9.7.0", "10.11", "10.11.9", "10.11.19", "15.9", "15.18", "17.0"}
	for i, a := range sorted {
		for j, b := range sorted {
			got := CompareVersions(a, b)
			if want := sign(i - j); sign(got) != want {
				t.Errorf("CompareVersions(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
	shuffled := []string{"15.18", "15.9", "15.10"}
	slices.SortFunc(shuffled, CompareVersions)
	if want := []string{"15.9", "15.10", "15.18"}; !slices.Equal(shuffled, want) {
		t.Errorf("sorted to %v", shuffled)
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}
