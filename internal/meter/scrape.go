package meter

import (
	"context"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/platform"
)

const (
	// scrapeFresh is for how long what exporters show of a database counts: whoever else asks meanwhile gets the same.
	scrapeFresh = time.Second
	// scrapeTime bounds a reading for it. Prometheus waits for ten seconds unless told otherwise.
	scrapeTime = 8 * time.Second
	// tablesFresh and tablesTime are the same for a look at tables, which may go through many files.
	tablesFresh = 10 * time.Second
	tablesTime  = 20 * time.Second
)

// Scraper asks servers for what isn't kept. Of each database one reading goes on at a time, whoever asks: one that
// hangs keeps nobody waiting but those who ask for it.
type Scraper struct {
	platform platform.Measurer
	families readings[[]platform.NodeFamilies]
	tables   readings[[]measure.Table]
}

// NewScraper makes one.
func NewScraper(p platform.Measurer) *Scraper { return &Scraper{platform: p} }

// Families are what exporters show of a database's nodes: what was read within the last second, or is being read.
func (s *Scraper) Families(ctx context.Context, id cluster.ID) ([]platform.NodeFamilies, error) {
	return s.families.get(ctx, id, scrapeFresh, scrapeTime, func(ctx context.Context) ([]platform.NodeFamilies, error) {
		return s.platform.Families(ctx, id)
	})
}

// Tables are a database's largest tables and indexes, at most so many: always as many from the same caller.
func (s *Scraper) Tables(ctx context.Context, id cluster.ID, most int) ([]measure.Table, error) {
	return s.tables.get(ctx, id, tablesFresh, tablesTime, func(ctx context.Context) ([]measure.Table, error) {
		return s.platform.Tables(ctx, id, most)
	})
}

// readings are those of databases that are under way, or count still.
type readings[T any] struct {
	mu  sync.Mutex
	all map[cluster.ID]*reading[T]
}

// reading is one; done is closed when it has ended.
type reading[T any] struct {
	done  chan struct{}
	until time.Time // zero while it is under way
	value T
	err   error
}

func (r *reading[T]) over(now time.Time) bool { return !r.until.IsZero() && !now.Before(r.until) }

// get waits for a reading, which it begins when there is none.
func (r *readings[T]) get(ctx context.Context, id cluster.ID, fresh, most time.Duration, read func(context.Context) (T, error)) (T, error) {
	r.mu.Lock()
	now := time.Now()
	one := r.all[id]
	if one == nil || one.over(now) {
		r.forget(now)
		one = &reading[T]{done: make(chan struct{})}
		r.all[id] = one
		// Not the caller's: others may wait for it, too. It ends in time.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		go func() {
			defer cancel()
			value, err := read(limited)
			r.mu.Lock()
			one.value, one.err, one.until = value, err, time.Now().Add(fresh)
			r.mu.Unlock()
			close(one.done)
		}()
	}
	r.mu.Unlock()
	select {
	case <-one.done:
		return one.value, one.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// forget drops those that don't count any more.
func (r *readings[T]) forget(now time.Time) {
	if r.all == nil {
		r.all = map[cluster.ID]*reading[T]{}
	}
	for id, one := range r.all {
		if one.over(now) {
			delete(r.all, id)
		}
	}
}
