package measure

import (
	"math"
	"time"
)

// Reading is what was read of a node at one moment.
type Reading struct {
	At time.Time
	// Life names the life of the server: counters of another one begin anew.
	Life string
	// Place names where the server lives, where that can change: who lives in another one was moved on purpose, and crashes are counted anew there.
	Place string
	// Crashes counts how often the server has ended by itself and was started again; NaN where nobody counts, and each new life is taken for one.
	Crashes float64
	// Values are gauges as they are, and counters as the server counts them.
	Values Values
	// CPUSeconds is the processor time used so far, CPUs how many processors the plan has.
	CPUSeconds, CPUs float64
	// Hits and Misses count the pages that were found in the server's cache, and those that weren't.
	Hits, Misses float64
}

// NewReading is one of which nothing is known yet.
func NewReading(at time.Time) Reading {
	nan := math.NaN()
	return Reading{At: at, Values: Unknown(), Crashes: nan, CPUSeconds: nan, Hits: nan, Misses: nan}
}

// Set sets the value of a metric.
func (r *Reading) Set(m Metric, value float64) { r.Values[m] = value }

// SetShare sets what of a whole is in use, in bytes: as it is, as a share and what is left.
func (r *Reading) SetShare(used, whole float64, as, share, left Metric) {
	r.Set(as, used)
	if whole > 0 {
		r.Set(share, used/whole*100)
		r.Set(left, max(0, whole-used)/(1<<30))
	}
}

// Meter makes values of a node's readings, one after the other.
type Meter struct {
	last Reading
	// life is the last that was seen: while a server is down it has none. crashes is what was counted by then.
	life, place string
	crashes     float64
}

// Add is what the reading says together with the one before. A counter that has gone
// back says nothing: it was reset, or a part of what it sums up is gone.
func (m *Meter) Add(r Reading) Values {
	before := m.last
	m.last = r
	v := r.Values
	v[ConnectionUsage] = v[Connections] / v[ConnectionsMax] * 100
	v[Restarts] = m.restarts(r)
	since := r.At.Sub(before.At).Seconds()
	same := !before.At.IsZero() && before.Life == r.Life && since > 0
	for _, d := range definitions {
		if !d.Counter {
			continue
		}
		v[d.Metric] = math.NaN()
		if same {
			v[d.Metric] = growth(before.Values[d.Metric], r.Values[d.Metric]) / since
		}
	}
	if !same {
		return v
	}
	if r.CPUs > 0 && !math.IsNaN(r.CPUSeconds) {
		v[CPUUsage] = growth(before.CPUSeconds, r.CPUSeconds) / since / r.CPUs * 100
	}
	hits, misses := growth(before.Hits, r.Hits), growth(before.Misses, r.Misses)
	if hits+misses > 0 {
		v[CacheHitRatio] = hits / (hits + misses) * 100
	}
	return v
}

// restarts is 1 when the server has another life than when it was last seen, and wasn't given it on purpose: who changes a
// setting, or wakes what slept, starts it anew, too. It is unknown while the server has no life.
func (m *Meter) restarts(r Reading) float64 {
	life, place, crashes := m.life, m.place, m.crashes
	if r.Life == "" {
		return math.NaN()
	}
	m.life, m.place, m.crashes = r.Life, r.Place, r.Crashes
	if life == "" || life == r.Life || place != r.Place || r.Crashes <= crashes {
		return 0
	}
	return 1
}

// growth is by how much a counter has grown; NaN when that can't be known.
func growth(before, now float64) float64 {
	if now >= before {
		return now - before
	}
	return math.NaN()
}
