package statuspage

import (
	"context"
	"errors"
	"sync"
	"time"

	"steward/internal/monitor"
)

const (
	// keep is how old a page may be that is shown.
	keep = 15 * time.Second
	// most is how many pages are kept; whoever tries slugs makes none of them go.
	most = 1000
	// patience bounds what reading a page takes.
	patience = 10 * time.Second
	// atOnce leaves most of the store's connections to others.
	atOnce = 4
)

// errBusy is told while too many pages are being read.
var errBusy = errors.New("too many status pages are being read")

// cache keeps pages for some seconds. Of all who ask for a page at once one reads it.
type cache struct {
	read func(context.Context, string) (monitor.PublicPage, error)
	now  func() time.Time
	// turns are those who may read at once.
	turns chan struct{}

	mu    sync.Mutex
	pages map[string]*entry
}

type entry struct {
	// done is closed when the page has been read.
	done chan struct{}
	page monitor.PublicPage
	err  error
	at   time.Time
}

func newCache(read func(context.Context, string) (monitor.PublicPage, error), now func() time.Time) *cache {
	return &cache{read: read, now: now, turns: make(chan struct{}, atOnce), pages: map[string]*entry{}}
}

func (c *cache) get(ctx context.Context, slug string) (monitor.PublicPage, error) {
	e, mine := c.entry(slug)
	if mine {
		// Whoever else waits for it must not lose it when this reader leaves.
		go c.fill(context.WithoutCancel(ctx), slug, e)
	}
	select {
	case <-e.done:
		return e.page, e.err
	case <-ctx.Done():
		return monitor.PublicPage{}, ctx.Err()
	}
}

// entry is that of a slug; mine: the caller is to fill it.
func (c *cache) entry(slug string) (e *entry, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if e := c.pages[slug]; e != nil && (e.at.IsZero() || now.Sub(e.at) < keep) {
		return e, false
	}
	if len(c.pages) >= most {
		for name, old := range c.pages {
			if !old.at.IsZero() && now.Sub(old.at) >= keep {
				delete(c.pages, name)
			}
		}
	}
	e = &entry{done: make(chan struct{})}
	if len(c.pages) < most {
		c.pages[slug] = e
	}
	return e, true
}

func (c *cache) fill(ctx context.Context, slug string, e *entry) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case c.turns <- struct{}{}:
		e.page, e.err = c.read(ctx, slug)
		<-c.turns
	case <-ctx.Done():
		e.err = errBusy
	}
	c.mu.Lock()
	e.at = c.now()
	if e.err != nil && c.pages[slug] == e { // what isn't there may be there the next moment
		delete(c.pages, slug)
	}
	c.mu.Unlock()
	close(e.done)
}
