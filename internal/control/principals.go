package control

import (
	"sync"
	"time"

	"steward/internal/account"
	"steward/internal/store"
)

// principals remembers whom tokens stand for, so that a request costs one query
// instead of two. That is only sound while this process is the only one that
// takes tokens and rights away: with a store that several servers share there
// is none (nil), and every request asks. Whatever takes something away calls
// forget after its commit and before its answer, so that the next request sees it.
// An operator's command, which is another process, can't: what it takes away is
// gone after rememberFor, or when the hub tells of it.
type principals struct {
	mu sync.Mutex
	// generation counts calls of forget: what was read before the last one must
	// not be remembered after it.
	generation int
	known      map[store.TokenHash]seenPrincipal
}

// seenPrincipal is a principal that was read at since.
type seenPrincipal struct {
	account.Principal
	since time.Time
}

// rememberFor bounds what an operator's command waits for.
const rememberFor = time.Second

// mostPrincipals bounds the memory; beyond it everything is forgotten.
const mostPrincipals = 10_000

func newPrincipals() *principals {
	return &principals{known: map[store.TokenHash]seenPrincipal{}}
}

// find is the principal of a token that hasn't expired, and the generation to
// hand to remember when there is none.
func (c *principals) find(hash store.TokenHash, now time.Time) (p account.Principal, generation int, ok bool) {
	if c == nil {
		return p, 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.known[hash]
	return r.Principal, c.generation, ok && now.Sub(r.since) < rememberFor && (r.TokenExpiry == nil || r.TokenExpiry.After(now))
}

// remember keeps what was read since generation, unless something was taken
// away meanwhile.
func (c *principals) remember(hash store.TokenHash, p account.Principal, generation int, now time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation != c.generation {
		return
	}
	if len(c.known) >= mostPrincipals {
		clear(c.known)
	}
	c.known[hash] = seenPrincipal{p, now}
}

// forget drops everything: changes of users and tokens are rare.
func (c *principals) forget() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	clear(c.known)
}
