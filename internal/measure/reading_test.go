package measure

import (
	"math"
	"testing"
	"time"
)

// TestRestarts: a server that has another life was started anew, however long it was down; on purpose, where crashes are counted and there was none, and
// where it lives elsewhere now.
func TestRestarts(t *testing.T) {
	t.Parallel()
	var m Meter
	nan := math.NaN()
	at := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		life          string
		crashes, want float64
		place         string
	}{
		{"a", nan, 0, ""},
		{"a", nan, 0, ""},
		{"", nan, nan, ""},
		{"", nan, nan, ""},
		{"b", nan, 1, ""},
		{"b", nan, 0, ""},
		{"c", nan, 1, ""},
		{"d", 3, 1, ""},
		{"d", 3, 0, ""},
		{"e", 3, 0, ""},
		{"", nan, nan, ""},
		{"f", 4, 1, ""},
		{"g", 6, 1, ""},
		{"g", 7, 0, ""},
		{"h", 7, 0, ""},
		{"i", 8, 0, "another"}, // as long as one is missing the next has its number
		{"h", 7, 0, ""},
		{"j", 8, 1, ""},
		{"k", 0, 0, "a new one"},
		{"l", 1, 1, "a new one"},
		{"m", 0, 0, "a new one"}, // handed over
		{"n", 3, 1, "a new one"},
	} {
		r := NewReading(at.Add(time.Duration(i) * Every))
		r.Life, r.Crashes, r.Place = c.life, c.crashes, c.place
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
