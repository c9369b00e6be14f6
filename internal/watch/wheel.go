package watch

import (
	"hash/fnv"
	"time"

	"steward/internal/monitor"
)

// tick is how often due checks are released, all that are due at once.
const tick = 100 * time.Millisecond

// wheel holds entries by the tick they are due in. It is not safe for use by
// several goroutines at once.
type wheel struct {
	due map[int64][]*entry
	// advanced is the last tick that was released.
	advanced int64
}

func newWheel(now time.Time) *wheel {
	return &wheel{due: map[int64][]*entry{}, advanced: tickOf(now)}
}

func tickOf(t time.Time) int64 { return t.UnixNano() / int64(tick) }

// put has the entry come up at the time given, or with the next tick when that
// is past; where it was put before no longer counts.
func (w *wheel) put(e *entry, at time.Time) {
	e.at = max(tickOf(at.Add(tick-1)), w.advanced+1) // never early
	w.due[e.at] = append(w.due[e.at], e)
}

// advance takes off what has come up since it was last called, and until now.
func (w *wheel) advance(now time.Time) []*entry {
	var up []*entry
	for last := tickOf(now); w.advanced < last; {
		w.advanced++
		for _, e := range w.due[w.advanced] {
			if e.at == w.advanced { // else it was put elsewhere, or away, since
				e.at = 0
				up = append(up, e)
			}
		}
		delete(w.due, w.advanced)
	}
	return up
}

// slotOf is a service's slot within its interval, the same on every server and
// after every start, so that the load is even and nothing stampedes.
func slotOf(id monitor.ServiceID, interval time.Duration) time.Duration {
	return time.Duration(hash(id) % uint64(interval))
}

func hash(id monitor.ServiceID) uint64 {
	h := fnv.New64a()
	var bytes [8]byte
	for i := range bytes {
		bytes[i] = byte(id >> (8 * i))
	}
	_, _ = h.Write(bytes[:]) // never fails
	// The low bits of FNV alone spread small numbers badly over an interval.
	sum := h.Sum64()
	return sum ^ sum>>29
}

// nextSlot is the first slot of a service after the time given.
func nextSlot(id monitor.ServiceID, interval time.Duration, after time.Time) time.Time {
	slot := slotOf(id, interval)
	since := time.Duration(after.UnixNano()) - slot
	return time.Unix(0, int64(since-since%interval+interval+slot))
}

// spread is a part of most that is the service's own.
func spread(id monitor.ServiceID, most time.Duration) time.Duration {
	return time.Duration(hash(id) >> 17 % uint64(most))
}
