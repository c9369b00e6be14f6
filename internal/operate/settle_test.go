package operate

import (
	"testing"

	"steward/internal/platform"
)

func TestReached(t *testing.T) {
	t.Parallel()
	serves := platform.Observed{Settled: true, Serving: true}
	rests := platform.Observed{Settled: true, Suspended: true}
	for _, c := range []struct {
		name    string
		suspend bool
		seen    platform.Observed
		want    bool
	}{
		{"serves", false, serves, true},
		{"rests instead of serving", false, rests, false},
		{"serves, but not all of it", false, platform.Observed{Serving: true, Degraded: true}, false},
		{"rests", true, rests, true},
		{"serves instead of resting", true, serves, false},
		{"not all of it rests", true, platform.Observed{Suspended: true}, false},
	} {
		if got := reached(platform.Wanted{Suspended: c.suspend}, c.seen); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
