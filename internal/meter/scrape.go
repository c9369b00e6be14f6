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
	// scrapeFresh is how long what exporters show of a database counts: whoever else asks meanwhile gets the same.
	scrapeFresh = time.Second
	// scrapeTime bounds a reading for it. Prometheus waits for ten seconds unless told otherwise.
	scrapeTime = 8 * time.Second
	// scrapesAtOnce bounds the readings of all databases together.
	scrapesAtOnce = 8
	// tablesTime bounds a look at tables, which are looked at one database at a time.
	tablesTime = 20 * time.Second
)

// Scraper asks servers for what isn't kept. Of each database one reading goes on at a time, whoever asks.
type Scraper struct {
	platform platform.Measurer
	slots    chan struct{}
	tables   chan struct{}

	mu      sync.Mutex
	scrapes map[cluster.ID]*scrape
}

// scrape is one reading; done is closed when it has ended.
type scrape struct {
	done  chan struct{}
	ended time.Time
	nodes []platform.NodeFamilies
	err   error
}

// NewScraper makes one.
func NewScraper(p platform.Measurer) *Scraper {
	return &Scraper{platform: p, slots: make(chan struct{}, scrapesAtOnce), tables: make(chan struct{}, 1), scrapes: map[cluster.ID]*scrape{}}
}

// Families are what exporters show of a database's nodes: what was read within the last second, or is being read.
func (s *Scraper) Families(ctx context.Context, id cluster.ID) ([]platform.NodeFamilies, error) {
	s.mu.Lock()
	now := time.Now()
	one := s.scrapes[id]
	if one == nil || !one.ended.IsZero() && now.Sub(one.ended) >= scrapeFresh {
		s.forget(now)
		one = &scrape{done: make(chan struct{})}
		s.scrapes[id] = one
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), scrapeTime)
		go func() { // not the caller's: others may wait for it, too; it ends in time
			defer cancel()
			s.read(reading, id, one)
		}()
	}
	s.mu.Unlock()
	select {
	case <-one.done:
		return one.nodes, one.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Scraper) read(ctx context.Context, id cluster.ID, one *scrape) {
	var nodes []platform.NodeFamilies
	var err error
	select {
	case s.slots <- struct{}{}:
		nodes, err = s.platform.Families(ctx, id)
		<-s.slots
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	one.nodes, one.err, one.ended = nodes, err, time.Now()
	s.mu.Unlock()
	close(one.done)
}

// forget drops readings that don't count any more.
func (s *Scraper) forget(now time.Time) {
	for id, one := range s.scrapes {
		if !one.ended.IsZero() && now.Sub(one.ended) >= scrapeFresh {
			delete(s.scrapes, id)
		}
	}
}

// Tables are a database's largest tables and indexes.
func (s *Scraper) Tables(ctx context.Context, id cluster.ID, most int) ([]measure.Table, error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTime)
	defer cancel()
	select {
	case s.tables <- struct{}{}:
		defer func() { <-s.tables }()
		return s.platform.Tables(ctx, id, most)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
