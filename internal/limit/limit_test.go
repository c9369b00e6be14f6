package limit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/limit"
	"steward/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// board is a shared count in memory that tells how often it was asked.
type board struct {
	mu    sync.Mutex
	sums  map[string]int
	asked int
}

func newBoard() *board { return &board{sums: map[string]int{}} }

func (b *board) TakeRate(_ context.Context, key string, minute time.Time, n int) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	b.sums[key+minute.String()] += n
	return b.sums[key+minute.String()], nil
}

func TestOneServer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 18, 4, 5, 0, time.UTC)
	l := limit.New(limit.Options{Kind: "token", Limit: 3, Now: func() time.Time { return now }})
	for i, want := range []limit.State{
		{Limit: 3, Left: 2, Reset: now.Add(55 * time.Second), After: 55, OK: true},
		{Limit: 3, Left: 1, Reset: now.Add(55 * time.Second), After: 55, OK: true},
		{Limit: 3, Left: 0, Reset: now.Add(55 * time.Second), After: 55, OK: true},
		{Limit: 3, Left: 0, Reset: now.Add(55 * time.Second), After: 55},
	} {
		if got := l.Take(t.Context(), "a"); got != want {
			t.Errorf("request %d: %+v, want %+v", i, got, want)
		}
	}
	if l.Peek("a").OK || !l.Peek("b").OK || !l.Take(t.Context(), "b").OK {
		t.Error("one key's limit is another's")
	}
	now = now.Add(55 * time.Second)
	if got := l.Take(t.Context(), "a"); !got.OK || got.Left != 2 {
		t.Errorf("in the next minute: %+v", got)
	}
	if off := limit.New(limit.Options{Now: func() time.Time { return now }}); !off.Take(t.Context(), "a").OK || !off.Peek("a").OK {
		t.Error("a limit of 0 limits")
	}
}

// TestServersTogether: however requests spread over servers, all of them together
// let exactly the limit through once each has been asked often enough, never more.
func TestServersTogether(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 18, 4, 5, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		most, shared := rapid.IntRange(1, 900).Draw(t, "limit"), newBoard()
		servers := make([]*limit.Limiter, rapid.IntRange(1, 5).Draw(t, "servers"))
		for i := range servers {
			servers[i] = limit.New(limit.Options{Kind: "token", Limit: most, Shared: shared, Now: func() time.Time { return now }})
		}
		passed, ctx := 0, context.Background()
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(servers)-1), 0, 1000).Draw(t, "requests") {
			if servers[i].Take(ctx, "a").OK {
				passed++
			}
		}
		if passed > most {
			t.Fatalf("%d of %d let through", passed, most)
		}
		for _, s := range servers {
			for s.Take(ctx, "a").OK {
				passed++
			}
		}
		if passed != most {
			t.Fatalf("in the end %d of %d let through", passed, most)
		}
	})
}

// TestFewQuestions: what a shared count costs.
func TestFewQuestions(t *testing.T) {
	t.Parallel()
	now, shared := time.Date(2026, 1, 31, 18, 4, 5, 0, time.UTC), newBoard()
	l := limit.New(limit.Options{Limit: 800, Shared: shared, Now: func() time.Time { return now }})
	for range 400 {
		if !l.Take(t.Context(), "a").OK {
			t.Fatal("refused below the limit")
		}
	}
	if shared.asked > 20 {
		t.Errorf("%d of 400 requests waited for the store", shared.asked)
	}
	for range 800 {
		l.Take(t.Context(), "a")
	}
	before := shared.asked
	for range 100 {
		if l.Take(t.Context(), "a").OK {
			t.Fatal("let through beyond the limit")
		}
	}
	if shared.asked != before {
		t.Error("a caller beyond its limit costs the store something")
	}
}

type away struct{}

func (away) TakeRate(context.Context, string, time.Time, int) (int, error) {
	return 0, errors.New("away")
}

func TestStoreAway(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 18, 4, 5, 0, time.UTC)
	l := limit.New(limit.Options{Limit: 10, Shared: away{}, Now: func() time.Time { return now }})
	passed := 0
	for range 50 {
		if l.Take(t.Context(), "a").OK {
			passed++
		}
	}
	if passed != 10 {
		t.Errorf("%d of 10 let through", passed)
	}
}

// TestStore: two servers over one store, at once.
func TestStore(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	now := time.Date(2026, 1, 31, 18, 4, 5, 0, time.UTC)
	for _, exact := range []bool{false, true} {
		var passed atomic.Int64
		var group sync.WaitGroup
		for range 2 {
			l := limit.New(limit.Options{Kind: "token", Limit: 60, Exact: exact, Shared: s, Now: func() time.Time { return now }})
			for range 4 {
				group.Go(func() {
					for range 30 {
						if l.Take(t.Context(), "a").OK {
							passed.Add(1)
						}
					}
				})
			}
		}
		group.Wait()
		if passed.Load() != 60 {
			t.Errorf("exact %v: %d of 60 let through", exact, passed.Load())
		}
		now = now.Add(time.Minute)
	}
	if err := s.PurgeRates(t.Context(), now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM rate_counts").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows left, %v", left, err)
	}
}

func TestAddressKey(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64", "nonsense": "nonsense",
	} {
		if got := limit.AddressKey(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
