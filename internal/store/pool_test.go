package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"steward/internal/await"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// inUse takes all connections that a store opens without a pause.
func inUse(t *testing.T, s *store.Store) (conns []*pgxpool.Conn) {
	t.Helper()
	for range store.ConnsAtOnce {
		conn, err := s.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return conns
}

// TestFewConnections: many who ask at the same moment are served by the connections that there are, once one is free.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	s.SetFreeWithin(time.Hour)
	conns := inUse(t, s)
	const many = 30
	var asking sync.WaitGroup
	for range many {
		asking.Go(func() {
			if err := s.InTx(t.Context(), func(*store.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	await.True(t, "transactions wait", s.Waits)
	for _, c := range conns {
		c.Release()
	}
	asking.Wait()
	if opened := int(s.Pool().Stat().TotalConns()); opened > many/2 {
		t.Errorf("%d connections were opened for %d transactions of a moment", opened, many)
	}
}

// TestConnectionsForAll: when none becomes free, another is opened.
func TestConnectionsForAll(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	for _, c := range inUse(t, s) {
		defer c.Release()
	}
	if err := s.InTx(t.Context(), func(*store.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
}
