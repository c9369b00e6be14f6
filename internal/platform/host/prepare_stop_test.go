package host_test

import (
	"context"
	"sync"
	"testing"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
)

// countedStops counts how often a stop is prepared, by node and the role that it has then.
type countedStops struct {
	engine.Driver
	mu       sync.Mutex
	prepared map[int]map[cluster.Role]int
}

// PrepareStop implements engine.Administrator.
func (c *countedStops) PrepareStop(ctx context.Context, n engine.Node) error {
	c.mu.Lock()
	if c.prepared[n.Ordinal] == nil {
		c.prepared[n.Ordinal] = map[cluster.Role]int{}
	}
	c.prepared[n.Ordinal][n.Role]++
	c.mu.Unlock()
	return c.Driver.PrepareStop(ctx, n)
}

// TestStopsArePrepared: a change that every server restarts for has the stop of each prepared, replicas' too.
func TestStopsArePrepared(t *testing.T) {
	t.Parallel()
	s := newSite(t, distributionOf(t, engine.FlavourPostgreSQL))
	stops := &countedStops{Driver: s.o.Engines[cluster.PostgreSQL], prepared: map[int]map[cluster.Role]int{}}
	s.o.Engines[cluster.PostgreSQL] = stops
	d := s.open(t) // without Start nothing else looks at the nodes
	want := s.wanted(t, 1)
	want.Size, want.Replication = 3, cluster.Asynch
	settles := func(what string) {
		t.Helper()
		await.True(t, what, func() bool {
			seen, err := d.Apply(t.Context(), want)
			return err == nil && seen.Settled
		})
	}
	settles("a settled cluster")
	before, err := d.Observe(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	clear(stops.prepared)
	want.Plan.MemoryMB *= 2
	settles("the change on every node")
	for _, n := range before.Nodes {
		if !gone(n.Pid) {
			t.Errorf("node %d wasn't restarted: nothing is proven", n.Ordinal)
		}
		if got := stops.prepared[n.Ordinal]; got[n.Role] == 0 {
			t.Errorf("node %d, a %s, was stopped unprepared; prepared %v", n.Ordinal, n.Role, got)
		}
	}
}
