package store_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// servers are two stewards on one store.
func servers(t *testing.T) (a, b *store.Store) {
	t.Helper()
	url := pgtest.URL(t)
	var opening sync.WaitGroup
	for _, s := range []**store.Store{&a, &b} {
		opening.Go(func() { // both at once: one of them migrates
			var err error
			if *s, err = store.Open(context.Background(), store.Options{URL: url, MaxConns: 4, Sealer: pgtest.Sealer()}); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	return a, b
}

// lease takes a lease that must be free.
func lease(t *testing.T, s *store.Store, id cluster.ID) (context.Context, func()) {
	t.Helper()
	held, release, ok, err := s.Lease(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("lease %d: %v, %v", id, ok, err)
	}
	return held, release
}

// refused is a lease that somebody else must hold.
func refused(t *testing.T, s *store.Store, id cluster.ID) {
	t.Helper()
	if _, _, ok, err := s.Lease(t.Context(), id); ok || err != nil {
		t.Errorf("the lease of %d was given twice: %v, %v", id, ok, err)
	}
}

func TestLeaseIsExclusive(t *testing.T) {
	t.Parallel()
	a, b := servers(t)
	const big = cluster.ID(1) << 33 // would be 0 as a 32-bit number
	for _, id := range []cluster.ID{1, 2, big, big + 1} {
		held, release := lease(t, a, id)
		refused(t, a, id)
		refused(t, b, id)
		if held.Err() != nil {
			t.Errorf("lease %d is lost by being refused to others", id)
		}
		defer release()
	}
	_, release := lease(t, b, 3)
	release()
	release() // once more does nothing
	_, again := lease(t, a, 3)
	refused(t, b, 3)
	release() // of the earlier holder: doesn't let go of the later one's
	refused(t, b, 3)
	again()
	_, again = lease(t, b, 3)
	again()
}

func TestLeaseDiesWithItsConnection(t *testing.T) {
	t.Parallel()
	a, b := servers(t)
	one, releaseOne := lease(t, a, 1)
	two, releaseTwo := lease(t, a, 2)
	at := time.Now()
	if _, err := b.Pool().Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); err != nil {
		t.Fatal(err)
	}
	for _, held := range []context.Context{one, two} {
		select {
		case <-held.Done():
		case <-time.After(10 * time.Second):
			t.Fatal("the work isn't told that its lease is lost")
		}
	}
	if took := time.Since(at); took > 4*time.Second { // a ping would find it within five
		t.Errorf("the loss was noticed after %s", took)
	}
	refused(t, a, 1) // the old work hasn't ended yet
	await.True(t, "the store's end of the connection to let go", func() bool {
		_, release, ok, err := b.Lease(t.Context(), 1)
		if ok {
			release()
		}
		return ok && err == nil
	})
	_, releaseB := lease(t, b, 1)
	releaseOne()
	refused(t, a, 1)
	releaseB()
	releaseTwo()
	_, release := lease(t, a, 1) // on a new connection
	release()
	_, release = lease(t, a, 2)
	release()
}

func TestLeaseEndsWithItsStore(t *testing.T) {
	t.Parallel()
	a, b := servers(t)
	held, _ := lease(t, a, 1)
	a.Close()
	<-held.Done()
	await.True(t, "the other takes over", func() bool {
		_, release, ok, err := b.Lease(t.Context(), 1)
		if ok {
			release()
		}
		return ok && err == nil
	})
}

// TestLeasesUnderLoad: never two holders, more leases than connections, and
// callers that give up in the middle do no harm.
func TestLeasesUnderLoad(t *testing.T) {
	t.Parallel()
	a, b := servers(t)
	var holders [8]atomic.Int32
	var taken atomic.Int32
	var workers sync.WaitGroup
	for i := range 24 {
		s := a
		if i%2 == 1 {
			s = b
		}
		workers.Go(func() {
			for n := range 40 {
				id := (i + n) % len(holders)
				ctx, cancel := context.WithCancel(t.Context())
				if n%7 == 0 {
					go cancel()
				}
				_, release, ok, err := s.Lease(ctx, cluster.ID(id))
				if err != nil && ctx.Err() == nil {
					t.Errorf("lease: %v", err)
				}
				if ok {
					taken.Add(1)
					if holders[id].Add(1) != 1 {
						t.Errorf("two hold %d", id)
					}
					holders[id].Add(-1)
					release()
				}
				cancel()
			}
		})
	}
	workers.Wait()
	if taken.Load() < 40 {
		t.Errorf("only %d leases were taken", taken.Load())
	}
}
