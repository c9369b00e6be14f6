package testdir

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SeedVariable repeats what a run drew at random; each test that draws has its value in
// its log, which is shown when it fails.
const SeedVariable = "STEWARD_TEST_SEED"

var seed = newSeed()

func newSeed() uint64 {
	text := os.Getenv(SeedVariable)
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, SeedVariable+":", err)
		os.Exit(2)
	}
	return n
}

// Rand draws for what a test chooses at random. It isn't safe for concurrent use: what
// goes on at the same time has one each, by other names.
func Rand(t testing.TB, what string) *rand.Rand {
	t.Helper()
	t.Logf("%s=%d repeats what is tried", SeedVariable, seed)
	return drawer(seed, t.Name()+" "+what)
}

func drawer(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
