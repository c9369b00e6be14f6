package crash

import (
	"slices"
	"testing"

	"steward/internal/testdir"
)

// offset is where a test begins that tries every stride-th of what there is.
func offset(t *testing.T, what string, stride int) int {
	t.Helper()
	return testdir.Rand(t, what).IntN(stride)
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
