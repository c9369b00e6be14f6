package monitor

import (
	"maps"
	"slices"
	"time"
)

// Spacing is what one point of the stats covers; points begin at whole multiples
// of it (docs/rules.md, Managed services).
const Spacing = 5 * time.Minute

// StatsWindow is how far back the stats go.
const StatsWindow = 24 * time.Hour

// maxPause is the longest time between two readings that rates are made of:
// beyond it nobody knows when the load was, and there is a gap.
const maxPause = 2 * time.Minute

// Counters grow with use, per device; nil when they aren't known.
type Counters map[string]float64

// Reading is what a machine's counters and gauges say at one moment.
type Reading struct {
	At time.Time
	// Busy is how long each core has worked, in seconds.
	Busy Counters
	// Disk is what was read from and written to each disk, in bytes.
	Disk Counters
	// In and Out are what each network interface has received and sent, in bytes.
	In, Out Counters
	// Swap is how much of it is in use, in bytes; nil when it isn't known.
	Swap *float64
}

// Load is how much of something is used over some time; nil is what isn't known.
type Load struct {
	// CPU is the number of cores that were busy: 1.5 is one and a half.
	CPU *float64
	// Disk is in bytes a second, Swap in bytes, NetIn and NetOut in bits a second.
	Disk, Swap, NetIn, NetOut *float64
}

// Point is a machine's load in the time from At to At plus Spacing, as far as it
// was measured: for Covered.
type Point struct {
	Machine MachineID
	At      time.Time
	Covered time.Duration
	Load
}

// increase is how much the counters have grown since before, and false when
// that isn't known. One that is smaller than it was has begun anew at 0, at a
// reboot for instance; one that wasn't there before says nothing yet.
func (c Counters) increase(before Counters) (float64, bool) {
	sum, known := 0.0, false
	for _, device := range slices.Sorted(maps.Keys(c)) { // always in the same order: the last digit depends on it
		was, found := before[device]
		if !found {
			continue
		}
		now := c[device]
		if now < was {
			was = 0
		}
		sum, known = sum+(now-was), true
	}
	return sum, known
}

// amount is something that was used, and in how many seconds.
type amount struct{ used, seconds float64 }

func (a *amount) add(used float64, known bool, seconds float64) {
	if known {
		a.used += used
		a.seconds += seconds
	}
}

// rate is what was used a second, times the factor.
func (a amount) rate(factor float64) *float64 {
	if a.seconds == 0 {
		return nil
	}
	return new(a.used * factor / a.seconds)
}

// usage is what was measured within one point's time.
type usage struct {
	covered                         time.Duration
	busy, disk, swap, netIn, netOut amount
}

// Meter makes points of a machine's readings. The zero value is ready.
type Meter struct {
	last   *Reading
	usages map[time.Time]*usage
}

// Add takes the next reading. The time between two readings counts as a part of
// the point that its middle lies in.
func (m *Meter) Add(r Reading) {
	before := m.last
	m.last = &r
	if before == nil {
		return
	}
	between := r.At.Sub(before.At)
	if between <= 0 || between > maxPause {
		return
	}
	at := before.At.Add(between / 2).UTC().Truncate(Spacing)
	if m.usages == nil {
		m.usages = map[time.Time]*usage{}
	}
	u := m.usages[at]
	if u == nil {
		u = &usage{}
		m.usages[at] = u
	}
	u.add(*before, r, between)
}

func (u *usage) add(before, r Reading, between time.Duration) {
	seconds := between.Seconds()
	u.covered += between
	count := func(a *amount, now, was Counters) {
		used, known := now.increase(was)
		a.add(used, known, seconds)
	}
	count(&u.busy, r.Busy, before.Busy)
	count(&u.disk, r.Disk, before.Disk)
	count(&u.netIn, r.In, before.In)
	count(&u.netOut, r.Out, before.Out)
	if r.Swap != nil {
		u.swap.add(*r.Swap*seconds, true, seconds)
	}
}

// bits of a byte.
const bits = 8

func (u *usage) point(of MachineID, at time.Time) Point {
	return Point{Machine: of, At: at, Covered: u.covered, Load: Load{
		CPU: u.busy.rate(1), Disk: u.disk.rate(1), Swap: u.swap.rate(1), NetIn: u.netIn.rate(bits), NetOut: u.netOut.rate(bits),
	}}
}

// Points are all that the meter holds, as far as they are measured, in the order
// of their times.
func (m *Meter) Points(of MachineID) []Point {
	points := make([]Point, 0, len(m.usages))
	for _, at := range slices.SortedFunc(maps.Keys(m.usages), time.Time.Compare) {
		points = append(points, m.usages[at].point(of, at))
	}
	return points
}

// Take is those of Points that are over at a moment; the meter forgets them.
func (m *Meter) Take(of MachineID, now time.Time) []Point {
	all := m.Points(of)
	over := slices.DeleteFunc(all, func(p Point) bool { return p.At.Add(Spacing).After(now) })
	for _, p := range over {
		delete(m.usages, p.At)
	}
	return over
}
