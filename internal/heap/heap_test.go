package heap

import (
	"runtime/debug"
	"testing"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: most, 1 << 20: most, 4 << 20: most, 10 << 20: 200, 16 << 20: 125, 20 << 20: 100, 40 << 20: least, 1 << 30: least} {
		if got := percent(live); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d %%", live>>20, got, want)
		}
	}
}

// TestLimit has copies that overlap, and a choice in between.
func TestLimit(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(150))
	current := func() int {
		p := debug.SetGCPercent(-1)
		debug.SetGCPercent(p)
		return p
	}
	want := func(when string, percent int) {
		t.Helper()
		if got := current(); got != percent {
			t.Errorf("%s: %d %%, want %d %%", when, got, percent)
		}
	}
	first, second := Limit(), Limit()
	want("two copies", copyPercent)
	first()
	first()
	choose(120)
	want("one copy", copyPercent)
	second()
	want("no copy", 120)
	debug.SetGCPercent(5)
	third := Limit()
	want("the operator chose less", 5)
	third()
	want("the operator's choice again", 5)
}
