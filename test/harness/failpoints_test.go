package harness

import (
	"slices"
	"strings"
	"testing"
)

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

// TestRoundsOfWaitingAreTriedOnce, and transactions that follow one another each.
func TestRoundsOfWaitingAreTriedOnce(t *testing.T) {
	t.Parallel()
	hits := strings.Fields("commit committed commit committed before wrote after before wrote after before wrote after commit committed")
	if got, want := ordinals(hits, true), []int{1, 2, 3, 4, 5, 6, 7, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ordinals(hits, false); len(got) != len(hits) {
		t.Errorf("one that doesn't poll: %v", got)
	}
}

// TestStepsThatAreSaid: an operation that says about how many failpoints it has isn't run to count them for one kill.
func TestStepsThatAreSaid(t *testing.T) {
	t.Setenv("STEWARD_CRASH", "")
	never := func() (int, error) { panic("it was asked for") }
	if got := (&Failpoints{}).steps(t, 1, Operation{Steps: 3, Ask: never}); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("%v are tried", got)
	}
}
