package measure

import (
	"math"
	"testing"
	"time"
)

// TestRestarts: a server that has another life was started anew, however long it was down.
func TestRestarts(t *testing.T) {
	t.Parallel()
	var m Meter
	at := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		life string
		want float64
	}{{"a", 0}, {"a", 0}, {"", math.NaN()}, {"", math.NaN()}, {"b", 1}, {"b", 0}, {"c", 1}} {
		r := NewReading(at.Add(time.Duration(i) * Every))
		r.Life = c.life
		r.Set(Connections, 24)
		r.Set(ConnectionsMax, 25)
		v := m.Add(r)
		if v[Restarts] != c.want && !(math.IsNaN(v[Restarts]) && math.IsNaN(c.want)) {
			t.Errorf("reading %d: %v, want %v", i, v[Restarts], c.want)
		}
		if v[ConnectionUsage] != 96 {
			t.Errorf("reading %d: %v %% of the connections", i, v[ConnectionUsage])
		}
	}
}
