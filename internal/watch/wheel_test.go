package watch

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/monitor"
)

func TestWheel(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	w := newWheel(start)
	a, b, c := &entry{}, &entry{}, &entry{}
	w.put(a, start.Add(300*time.Millisecond))
	w.put(b, start.Add(-time.Hour)) // late: with the next tick
	w.put(c, start.Add(time.Second))
	w.put(c, start.Add(2*time.Second)) // put elsewhere
	for _, step := range []struct {
		at   time.Duration
		want []*entry
	}{
		{0, nil},
		{100 * time.Millisecond, []*entry{b}},
		{250 * time.Millisecond, nil},
		{299 * time.Millisecond, nil},
		{399 * time.Millisecond, []*entry{a}},
		{time.Second, nil},
		{time.Hour, []*entry{c}}, // this process stood still
	} {
		got := w.advance(start.Add(step.at))
		if len(got) != len(step.want) || len(got) == 1 && got[0] != step.want[0] {
			t.Errorf("at %v: %d entries, want %d", step.at, len(got), len(step.want))
		}
	}
	if len(w.due) != 0 {
		t.Errorf("%d ticks are left behind", len(w.due))
	}
}

// TestSlots: a service's slots are an interval apart, whenever one asks.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := monitor.ServiceID(rapid.Int64Range(1, 1<<40).Draw(t, "id"))
		interval := time.Duration(rapid.IntRange(1, 86400).Draw(t, "interval")) * time.Second
		now := time.Unix(0, rapid.Int64Range(1_700_000_000e9, 1_900_000_000e9).Draw(t, "now"))
		next := nextSlot(id, interval, now)
		if !next.After(now) || next.Sub(now) > interval {
			t.Fatalf("next slot %v after %v", next, now)
		}
		if again := nextSlot(id, interval, next); again.Sub(next) != interval {
			t.Fatalf("the slot after comes %v later", again.Sub(next))
		}
		if same := nextSlot(id, interval, next.Add(-time.Nanosecond)); !same.Equal(next) {
			t.Fatalf("asked later, it is %v", same)
		}
	})
}

// TestSlotsAreEven: the services that follow each other are spread over the interval.
func TestSlotsAreEven(t *testing.T) {
	const services, slots = 10_000, 300
	counts := make([]int, slots)
	for id := range monitor.ServiceID(services) {
		counts[slotOf(id+1, 30*time.Second)/tick]++
	}
	for i, n := range counts {
		if n > 3*services/slots || n < services/slots/3 {
			t.Errorf("tick %d has %d of %d services", i, n, services)
		}
	}
}
