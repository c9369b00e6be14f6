package control

import (
	"context"
	"sync"
	"time"
)

// What is past its limit is looked at one by one, lanePace apart, and waits
// lanePatience at most, laneLength of them at a time.
const (
	lanePace     = 5 * time.Second
	lanePatience = 20 * time.Second
	laneLength   = 32
)

// slowLane lets log-ins past their limit be tried still, so that nobody who knows the
// password is locked out by those who guess, and so seldom that guessing gains nothing.
// An address has one place in it.
type slowLane struct {
	lock chan struct{}

	mu      sync.Mutex
	waiting map[string]bool
}

func newSlowLane() *slowLane {
	return &slowLane{lock: make(chan struct{}, 1), waiting: map[string]bool{}}
}

// enter waits for the lock, which leave releases. It is false for whom there is no place.
func (l *slowLane) enter(ctx context.Context, address string) (leave func(), ok bool) {
	if !l.queue(address) {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, lanePatience)
	defer cancel()
	select {
	case l.lock <- struct{}{}:
	case <-ctx.Done():
		l.forget(address)
		return nil, false
	}
	return func() {
		l.forget(address)
		time.AfterFunc(lanePace, func() { <-l.lock })
	}, true
}

func (l *slowLane) queue(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[address] || len(l.waiting) >= laneLength {
		return false
	}
	l.waiting[address] = true
	return true
}

func (l *slowLane) forget(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, address)
}
