// Package limit bounds what each key (a token, an address, a user) may do in a
// minute, over all servers that share a store.
//
// A request doesn't wait for the store: a server takes allowance from the shared
// count in portions and spends them by itself. What all servers let through
// together never exceeds the limit; portions shrink with what is left, so that
// little of it lies unused on a server that needs no more. Without a shared count
// (one server alone) nothing is asked and the count is exact.
package limit

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Window is the time that a limit is for: a fixed one, as the headers that
// clients read describe it.
const Window = time.Minute

// Shared is a count that several servers add to.
type Shared interface {
	// TakeRate adds n under key in the window that begins at minute, and returns
	// the sum.
	TakeRate(ctx context.Context, key string, minute time.Time, n int) (int, error)
}

// Limiter counts one kind of thing. The zero limit lets everything through.
type Limiter struct {
	kind     string
	limit    int
	portions bool
	now      func() time.Time
	shared   Shared

	mu    sync.Mutex
	start time.Time
	// keys are those of this window; all share it, so forgetting is one assignment.
	keys map[string]*count
}

// count is what this server knows of one key in this window.
type count struct {
	// used of granted allowance was spent here.
	used, granted int
	// taken is what all servers had taken when this one last asked.
	taken int
}

// Options are what a Limiter is made of.
type Options struct {
	// Kind keeps the keys of several limiters apart.
	Kind string
	// Limit is per key and minute; 0: none.
	Limit int
	// Exact has the store asked each time, for what is rare and must not be
	// allowed twice: log-ins.
	Exact bool
	// Shared is nil for a server that is alone.
	Shared Shared
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// New makes a limiter.
func New(o Options) *Limiter {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Limiter{kind: o.Kind, limit: o.Limit, portions: !o.Exact, shared: o.Shared, now: o.Now, keys: map[string]*count{}}
}

// State is how a key stands after a request.
type State struct {
	// Limit is 0 when there is none.
	Limit, Left int
	Reset       time.Time
	// After is the whole seconds, at least one, until more is allowed.
	After int
	OK    bool
}

// Take counts one request of key.
func (l *Limiter) Take(ctx context.Context, key string) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.of(key)
	if c.used >= c.granted && c.taken < l.limit {
		l.ask(ctx, key, c)
		c = l.of(key) // the window may have ended meanwhile
	}
	ok := l.limit == 0 || c.used < c.granted
	if ok {
		c.used++
	}
	return l.state(c, ok)
}

// Peek tells how a key stands without counting anything.
func (l *Limiter) Peek(key string) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.of(key)
	return l.state(c, l.limit == 0 || c.used < c.granted || c.taken < l.limit)
}

func (l *Limiter) state(c *count, ok bool) State {
	reset := l.start.Add(Window)
	left := max(l.limit-c.taken, 0) + c.granted - c.used
	return State{Limit: l.limit, Left: left, Reset: reset, After: int(max(reset.Sub(l.now())+time.Second-1, time.Second) / time.Second), OK: ok}
}

// of is the count of a key in the present window, which it begins when the old
// one is over.
func (l *Limiter) of(key string) *count {
	if now := l.now(); now.Sub(l.start) >= Window || now.Before(l.start) {
		l.start, l.keys = now.Truncate(Window), map[string]*count{}
	}
	c := l.keys[key]
	if c == nil {
		c = &count{}
		l.keys[key] = c
	}
	return c
}

// ask gets a key more allowance. The lock is given back meanwhile. A store that
// doesn't answer must not lock customers out: this server counts alone until it does.
func (l *Limiter) ask(ctx context.Context, key string, c *count) {
	if l.shared == nil {
		c.granted, c.taken = l.limit, l.limit
		return
	}
	n, start := l.portion(c), l.start
	l.mu.Unlock()
	sum, err := l.shared.TakeRate(ctx, l.kind+":"+key, start, n)
	l.mu.Lock()
	if err != nil {
		sum = c.taken + n
	}
	c.granted += min(max(l.limit-(sum-n), 0), n)
	c.taken = max(c.taken, min(sum, l.limit))
}

// portion is how much to ask for: half of what was needed so far, and not more
// than an eighth of what is left, so that another server finds enough.
func (l *Limiter) portion(c *count) int {
	if !l.portions {
		return 1
	}
	return max(1, min(c.used/2, (l.limit-c.taken)/8))
}

// AddressKey is what an address is counted under: an IPv6 one by its /64, since
// whoever has one of those has them all.
func AddressKey(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}
