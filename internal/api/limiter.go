package api

import (
	"sync"
	"time"
)

// limiter counts requests per key and minute: a fixed window, as the headers
// that clients read describe it.
type limiter struct {
	limit int
	now   func() time.Time

	mu     sync.Mutex
	start  time.Time
	counts map[string]int
}

const window = time.Minute

func newLimiter(limit int, now func() time.Time) *limiter {
	return &limiter{limit: limit, now: now, counts: map[string]int{}}
}

// roll begins a new window when the old one is over; all keys share it, so
// forgetting is one assignment.
func (l *limiter) roll() {
	if now := l.now(); now.Sub(l.start) >= window || now.Before(l.start) {
		l.start, l.counts = now.Truncate(window), map[string]int{}
	}
}

// take counts one request: what is left, when the window ends, and whether the
// request is within the limit.
func (l *limiter) take(key string) (left int, reset time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll()
	if l.counts[key] <= l.limit {
		l.counts[key]++
	}
	return max(l.limit-l.counts[key], 0), l.start.Add(window), l.limit == 0 || l.counts[key] <= l.limit
}

// exhausted tells whether a further request would be over the limit.
func (l *limiter) exhausted(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll()
	return l.limit > 0 && l.counts[key] >= l.limit
}
