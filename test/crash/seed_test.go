package crash

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// seedVariable repeats what a run took at random; each test's log has its value.
const seedVariable = "STEWARD_CRASH_SEED"

var seed = newSeed()

func newSeed() uint64 {
	text := os.Getenv(seedVariable)
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, seedVariable+":", err)
		os.Exit(2)
	}
	return n
}

// offset is where a test begins that tries every stride-th of what there is.
func offset(t *testing.T, what string, stride int) int {
	t.Helper()
	t.Logf("%s=%d repeats what is tried", seedVariable, seed)
	return offsetOf(seed, t.Name()+" "+what, stride)
}

func offsetOf(seed uint64, name string, stride int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64())).IntN(stride)
}

// TestSeedRepeatsARun: a seed takes the same parts again, and others take others.
func TestSeedRepeatsARun(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for seed := range uint64(200) {
		n := offsetOf(seed, "create", 7)
		if n < 0 || n >= 7 || n != offsetOf(seed, "create", 7) {
			t.Fatalf("seed %d: %d", seed, n)
		}
		seen[n] = true
	}
	if len(seen) != 7 {
		t.Errorf("only %d of 7 parts are ever tried", len(seen))
	}
}
