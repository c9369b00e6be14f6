package crash

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
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

// TestACaseThatDiesNowhereFails, while one that misses single failpoints, because the
// background shifted their count, doesn't.
func TestACaseThatDiesNowhereFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                 string
		found, first, stride int
		reached              func(ordinal int) bool
		tried                []int
		fails                bool
	}{
		{"all are reached", 9, 2, 3, func(int) bool { return true }, []int{2, 5, 8}, false},
		{"the last isn't", 9, 2, 3, func(n int) bool { return n < 8 }, []int{2, 5, 8}, false},
		{"none but the first of all", 9, 9, 9, func(n int) bool { return n == 1 }, []int{9, 1}, false},
		{"none", 9, 2, 3, func(int) bool { return false }, []int{2, 5, 8, 1}, true},
	} {
		var tried []int
		err := killAtEach(c.found, c.first, c.stride, func(ordinal int) bool {
			tried = append(tried, ordinal)
			return c.reached(ordinal)
		})
		if !slices.Equal(tried, c.tried) || (err != nil) != c.fails {
			t.Errorf("%s: tried %v, %v", c.name, tried, err)
		}
	}
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
