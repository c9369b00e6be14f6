package monitor_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/monitor"
)

// midday is the beginning of a point.
var midday = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func at(after time.Duration, busy, disk, in, out, swap float64) monitor.Reading {
	return monitor.Reading{
		At: midday.Add(after), Busy: monitor.Counters{"0": busy}, Disk: monitor.Counters{"vda": disk},
		In: monitor.Counters{"eth0": in}, Out: monitor.Counters{"eth0": out}, Swap: &swap,
	}
}

func load(cpu, disk, swap, in, out float64) monitor.Load {
	return monitor.Load{CPU: &cpu, Disk: &disk, Swap: &swap, NetIn: &in, NetOut: &out}
}

func points(t *testing.T, readings ...monitor.Reading) []monitor.Point {
	t.Helper()
	var m monitor.Meter
	for _, r := range readings {
		m.Add(r)
	}
	return m.Points(7)
}

// TestPoints: what is expected here is worked out by hand.
func TestPoints(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for _, test := range []struct {
		name     string
		readings []monitor.Reading
		want     []monitor.Point
	}{
		{"one reading says nothing of rates", []monitor.Reading{at(0, 5, 5, 5, 5, 5)}, []monitor.Point{}},
		{
			"two minutes, unevenly loaded",
			// 30 s of a core and 6000 B of a disk in the first, 90 s and 0 B in the second; 1000 B of swap, then 3000 B.
			[]monitor.Reading{at(0, 100, 50, 1000, 2000, 9), at(minute, 130, 6050, 1600, 2000, 1000), at(2*minute, 220, 6050, 2800, 2600, 3000)},
			// 120 s/120 s; 6000 B/120 s; (1000·60 + 3000·60)/120; 1800 B·8/120 s; 600 B·8/120 s.
			[]monitor.Point{{Machine: 7, At: midday, Covered: 2 * minute, Load: load(1, 50, 2000, 120, 40)}},
		},
		{
			"counters that begin anew",
			// The machine was booted between: 15 s, 600 B and so on since then.
			[]monitor.Reading{at(0, 9000, 9000, 9000, 9000, 0), at(minute, 15, 600, 60, 120, 0)},
			[]monitor.Point{{Machine: 7, At: midday, Covered: minute, Load: load(0.25, 10, 0, 8, 16)}},
		},
		{
			"what is between two points counts where most of it lies",
			[]monitor.Reading{at(4*minute, 0, 0, 0, 0, 0), at(5*minute+10*time.Second, 70, 0, 0, 0, 0), at(6*minute+10*time.Second, 100, 0, 0, 0, 0)},
			[]monitor.Point{
				{Machine: 7, At: midday, Covered: 70 * time.Second, Load: load(1, 0, 0, 0, 0)},
				{Machine: 7, At: midday.Add(5 * minute), Covered: minute, Load: load(0.5, 0, 0, 0, 0)},
			},
		},
		{
			"a gap stays one",
			[]monitor.Reading{at(0, 0, 0, 0, 0, 0), at(minute, 30, 0, 0, 0, 0), at(10*minute, 570, 0, 0, 0, 0), at(11*minute, 585, 0, 0, 0, 0)},
			[]monitor.Point{
				{Machine: 7, At: midday, Covered: minute, Load: load(0.5, 0, 0, 0, 0)},
				{Machine: 7, At: midday.Add(10 * minute), Covered: minute, Load: load(0.25, 0, 0, 0, 0)},
			},
		},
		{
			"a clock that goes back",
			[]monitor.Reading{at(3*minute, 0, 0, 0, 0, 0), at(2*minute, 30, 0, 0, 0, 0), at(3*minute, 60, 0, 0, 0, 0)},
			[]monitor.Point{{Machine: 7, At: midday, Covered: minute, Load: load(0.5, 0, 0, 0, 0)}},
		},
	} {
		if diff := cmp.Diff(test.want, points(t, test.readings...)); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.name, diff)
		}
	}
}

func TestDevicesComeAndGo(t *testing.T) {
	t.Parallel()
	got := points(t,
		monitor.Reading{At: midday, Busy: monitor.Counters{"0": 10, "1": 20}, Disk: monitor.Counters{"sda": 100}},
		monitor.Reading{At: midday.Add(time.Minute), Busy: monitor.Counters{"0": 25, "2": 1000}, Disk: monitor.Counters{"sdb": 5000}, In: monitor.Counters{"eth0": 1}},
	)
	// Of the cores only "0" was there both times: 15 s/60 s. No disk was, and nothing is known of the rest.
	want := []monitor.Point{{Machine: 7, At: midday, Covered: time.Minute, Load: monitor.Load{CPU: new(0.25)}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTakenPointsAreForgotten(t *testing.T) {
	t.Parallel()
	var m monitor.Meter
	for i := range 8 {
		m.Add(at(time.Duration(i)*time.Minute, float64(i), 0, 0, 0, 0))
	}
	if early := m.Take(7, midday.Add(5*time.Minute-1)); len(early) > 0 {
		t.Errorf("taken before its end: %+v", early)
	}
	over := m.Take(7, midday.Add(5*time.Minute))
	if len(over) != 1 || !over[0].At.Equal(midday) || over[0].Covered != 5*time.Minute {
		t.Errorf("over: %+v", over)
	}
	if again := m.Take(7, midday.Add(5*time.Minute)); len(again) > 0 {
		t.Errorf("taken twice: %+v", again)
	}
	if rest := m.Points(7); len(rest) != 1 || rest[0].Covered != 2*time.Minute {
		t.Errorf("the running one: %+v", rest)
	}
}

// TestMeterAddsUp: whatever the times and counters, a point covers no more than
// its time, no rate is negative, and without resets nothing is counted twice or lost.
func TestMeterAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var m monitor.Meter
		now, counter, counted, before := midday, 0.0, 0.0, 0.0
		var covered time.Duration
		for i := range rapid.IntRange(0, 40).Draw(t, "readings") {
			pause := time.Duration(rapid.Int64Range(1, int64(3*time.Minute)).Draw(t, "pause"))
			now = now.Add(pause)
			counter += float64(rapid.IntRange(0, 1000).Draw(t, "used"))
			if i > 0 && pause <= 2*time.Minute {
				counted += counter - before
				covered += pause
			}
			before = counter
			m.Add(monitor.Reading{At: now, Disk: monitor.Counters{"vda": counter}})
		}
		sum, total := 0.0, time.Duration(0)
		for _, p := range m.Points(1) {
			if !p.At.Equal(p.At.Truncate(monitor.Spacing)) || p.Covered > monitor.Spacing+2*time.Minute || *p.Disk < 0 {
				t.Fatalf("point %+v", p)
			}
			sum += *p.Disk * p.Covered.Seconds()
			total += p.Covered
		}
		if total != covered || sum < counted-1e-3 || sum > counted+1e-3 {
			t.Fatalf("%v in %s, want %v in %s", sum, total, counted, covered)
		}
	})
}
