package testdir

import "testing"

// TestSeedRepeatsARun: a seed draws the same again, and others draw others.
func TestSeedRepeatsARun(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for seed := range uint64(200) {
		n := drawer(seed, "create").IntN(7)
		if n != drawer(seed, "create").IntN(7) {
			t.Fatalf("seed %d: %d", seed, n)
		}
		seen[n] = true
	}
	if len(seen) != 7 {
		t.Errorf("only %d of 7 parts are ever tried", len(seen))
	}
}
