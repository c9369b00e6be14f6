package mysql

import (
	"errors"
	"testing"

	"steward/internal/engine"
)

func TestSegmentName(t *testing.T) {
	p := segment{term: 3, from: 1 << 40, to: 1<<40 + 12}
	if p.String() != "00000003.0000010000000000.000001000000000C" {
		t.Error(p)
	}
	if back, err := parseSegment(p.String()); err != nil || back != p {
		t.Errorf("%v, %v", back, err)
	}
	for _, bad := range []string{"", "1.2", "1.2.3.4", "1.2.x", "0000000100000000000000F1", "1.2.-3"} {
		if _, err := parseSegment(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestFollowing goes on from a position to the end, or to a gap.
func TestFollowing(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []segment
		at   uint64
		want []uint64 // the positions reached
		gap  bool
	}{
		{"nothing", nil, 5, nil, false},
		{"one after the other, whatever the order", []segment{{0, 20, 30}, {0, 10, 20}, {0, 0, 10}}, 5, []uint64{10, 20, 30}, false},
		{"all of it is there already", []segment{{0, 0, 10}}, 10, nil, false},
		{"a gap", []segment{{0, 0, 10}, {0, 20, 30}}, 5, []uint64{10}, true},
		{"a gap at the beginning", []segment{{0, 20, 30}}, 5, nil, true},
		{"two primaries' logs cover each other", []segment{{0, 0, 10}, {1, 7, 20}}, 5, []uint64{7, 20}, false},
		{"what only the dead primary had doesn't count", []segment{{0, 0, 13}, {1, 8, 10}, {1, 10, 20}}, 5, []uint64{8, 10, 20}, false},
		{"nor when the new one has written nothing", []segment{{0, 0, 13}, {1, 8, 10}}, 5, []uint64{8, 10}, false},
		{"nor where it was going on", []segment{{0, 0, 13}, {0, 13, 15}, {1, 8, 10}}, 10, nil, false},
		{"two failovers", []segment{{0, 0, 10}, {1, 5, 20}, {2, 15, 30}}, 1, []uint64{5, 15, 30}, false},
		{"a gap after a failover isn't filled by the dead one's", []segment{{0, 0, 30}, {1, 5, 10}, {1, 20, 40}}, 1, []uint64{5, 10}, true},
	} {
		at, got := c.at, []uint64(nil)
		var err error
		for {
			_, until, found, problem := following(c.all, at)
			if err = problem; err != nil || !found {
				break
			}
			if until <= at {
				t.Fatalf("%s: from %d to %d", c.name, at, until)
			}
			at = until
			got = append(got, at)
		}
		if len(got) != len(c.want) || errors.Is(err, engine.ErrGap) != c.gap {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}
