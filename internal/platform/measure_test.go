package platform_test

import (
	"math"
	"testing"
	"time"

	"steward/internal/engine"
	"steward/internal/measure"
	"steward/internal/platform"
)

// TestNoteLag: a replica is behind by what it hasn't applied of what the primary had written; what isn't known, and a primary, isn't behind.
func TestNoteLag(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	for _, c := range []struct {
		name                     string
		written, applied         float64
		isPrimary, seconds       float64
		wantBytes, wantLagInTime float64
	}{
		{"behind", 500, 400, 0, 7, 100, 7},
		{"behind nobody, though something came since", 500, 600, 0, 7, 0, 0},
		{"the primary doesn't answer", none, 400, 0, 7, none, 7},
		{"the replica doesn't answer", 500, none, none, none, none, none},
		{"promoted by now", 500, 600, 1, none, none, none},
	} {
		readings := []platform.NodeReading{{Reading: measure.NewReading(time.Now())}, {Reading: measure.NewReading(time.Now())}}
		readings[1].Set(measure.Primary, c.isPrimary)
		readings[1].Set(measure.ReplicationLag, c.seconds)
		platform.NoteLag(readings, []engine.LogPosition{{Written: c.written, Applied: c.written}, {Written: c.applied, Applied: c.applied}})
		got := readings[1].Values
		if same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }; !same(got[measure.ReplicationLagBytes], c.wantBytes) || !same(got[measure.ReplicationLag], c.wantLagInTime) {
			t.Errorf("%s: %v bytes, %v s, want %v, %v", c.name, got[measure.ReplicationLagBytes], got[measure.ReplicationLag], c.wantBytes, c.wantLagInTime)
		}
		if !math.IsNaN(readings[0].Values[measure.ReplicationLagBytes]) {
			t.Errorf("%s: the primary is behind", c.name)
		}
	}
}
