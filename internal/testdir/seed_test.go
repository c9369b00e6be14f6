package testdir

import (
	"fmt"
	"slices"
	"testing"
)

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

// recorder keeps what a test logs, which is shown when it fails.
type recorder struct {
	testing.TB
	logged []string
}

func (r *recorder) Logf(format string, args ...any) {
	r.logged = append(r.logged, fmt.Sprintf(format, args...))
}

// TestSeedIsLogged: who sees a test fail that draws can repeat what it drew.
func TestSeedIsLogged(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	Rand(r, "something")
	if want := fmt.Sprintf("STEWARD_TEST_SEED=%d repeats what is tried", seed); !slices.Equal(r.logged, []string{want}) {
		t.Errorf("logged: %q, want %q", r.logged, want)
	}
}
