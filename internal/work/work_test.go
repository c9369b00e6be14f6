package work_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/await"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/store"
	"steward/internal/work"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bench is a store and the passes that were made over its operations.
type bench struct {
	t     *testing.T
	store *store.Store
	owner account.ID

	mu     sync.Mutex
	passes []operation.ID
	// run is what a pass does; nothing when nil.
	run func(ctx context.Context, id operation.ID) (time.Duration, error)
}

func newBench(t *testing.T, s *store.Store) *bench {
	t.Helper()
	b := &bench{t: t, store: s}
	err := s.InTx(t.Context(), func(tx *store.Tx) error {
		u, err := tx.EnsureAdmin(t.Context())
		b.owner = u.Account
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// start starts a server's workers, stopped at the test's end.
func (b *bench) start(workers int) *work.Work {
	b.t.Helper()
	w, err := work.New(b.store.Pool(), work.Options{Workers: workers, Run: b.pass, Due: b.store.DueOperations, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := w.Start(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = w.Stop(context.Background()) })
	return w
}

func (b *bench) pass(ctx context.Context, id operation.ID) (time.Duration, error) {
	b.mu.Lock()
	b.passes = append(b.passes, id)
	b.mu.Unlock()
	if b.run == nil {
		return 0, nil
	}
	return b.run(ctx, id)
}

// passed are the passes made so far.
func (b *bench) passed() []operation.ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.passes)
}

// record adds an operation; with w its wake-up too. fail takes it all back.
func (b *bench) record(w *work.Work, fail error) (id operation.ID) {
	b.t.Helper()
	id, err := b.tryRecord(w, fail)
	if !errors.Is(err, fail) {
		b.t.Fatal(err)
	}
	return id
}

func (b *bench) tryRecord(w *work.Work, fail error) (id operation.ID, err error) {
	err = b.store.InTx(context.Background(), func(tx *store.Tx) error {
		o, err := tx.CreateOperation(context.Background(), operation.Operation{Account: b.owner, Cluster: 1, Action: operation.Create, Status: operation.Scheduled})
		if err != nil {
			return err
		}
		id = o.ID
		if w != nil {
			if err := w.Enqueue(context.Background(), tx.Pgx(), id); err != nil {
				return err
			}
		}
		return fail
	})
	return id, err
}

// finish ends an operation, so that no sweep wakes it.
func (b *bench) finish(id operation.ID) error {
	return b.store.InTx(context.Background(), func(tx *store.Tx) error {
		return tx.FinishOperation(context.Background(), id, operation.Finished, "")
	})
}

// TestWakesAtCommit: at once, whatever else is recorded, taken back or still
// going on at the same time, and never for what wasn't committed.
func TestWakesAtCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, pgtest.Store(t))
	b.run = func(_ context.Context, id operation.ID) (time.Duration, error) { return 0, b.finish(id) }
	w := b.start(4)
	undone := b.record(w, errors.New("taken back"))
	var mu sync.Mutex
	var took []time.Duration
	var recorders sync.WaitGroup
	for range 5 {
		recorders.Go(func() {
			for range 8 {
				id, at := b.record(w, nil), time.Now()
				await.True(t, "woken", func() bool { return slices.Contains(b.passed(), id) })
				mu.Lock()
				took = append(took, time.Since(at))
				mu.Unlock()
			}
		})
	}
	recorders.Wait()
	slices.Sort(took)
	half, most := took[len(took)/2], took[len(took)-1]
	t.Logf("from commit to pass: median %s, most %s", half, most)
	if half > time.Second/2 { // a poll comes each two seconds
		t.Error("wake-ups waited for a poll")
	}
	if slices.Contains(b.passed(), undone) {
		t.Error("woken for what was never committed")
	}
	if n := len(b.passed()); n != 40 {
		t.Errorf("%d passes for 40 wake-ups", n)
	}
}

// TestComesBack: a pass that wants another, fails or panics is followed by another.
func TestComesBack(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func() (time.Duration, error){
		"wants another": func() (time.Duration, error) { return 10 * time.Millisecond, nil },
		"fails":         func() (time.Duration, error) { return 0, errors.New("on purpose") },
		"panics":        func() (time.Duration, error) { panic("on purpose") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, pgtest.Store(t))
			var begun atomic.Bool
			b.run = func(_ context.Context, id operation.ID) (time.Duration, error) {
				if begun.CompareAndSwap(false, true) {
					return first()
				}
				return 0, b.finish(id)
			}
			b.record(b.start(2), nil)
			await.True(t, "a second pass", func() bool { return len(b.passed()) >= 2 })
		})
	}
}

// TestSweepFindsWhatWasForgotten: no wake-up was recorded, or it was lost with
// the process that had it.
func TestSweepFindsWhatWasForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t, pgtest.Store(t))
	b.run = func(_ context.Context, id operation.ID) (time.Duration, error) { return 0, b.finish(id) }
	forgotten, done := b.record(nil, nil), b.record(nil, nil)
	if err := b.finish(done); err != nil {
		t.Fatal(err)
	}
	if err := b.store.WakeAll(t.Context()); err != nil { // as a server does when it starts
		t.Fatal(err)
	}
	at := time.Now()
	b.start(2)
	await.True(t, "found at the start", func() bool { return slices.Contains(b.passed(), forgotten) })
	t.Logf("found %s after the start", time.Since(at).Round(time.Millisecond))
	later := b.record(nil, nil)
	await.True(t, "found by a later sweep", func() bool { return slices.Contains(b.passed(), later) })
	if slices.Contains(b.passed(), done) {
		t.Error("a finished one was woken")
	}
}

// TestServersShareTheWork: each wake-up is one server's, and no server takes
// more at once than it has workers.
func TestServersShareTheWork(t *testing.T) {
	t.Parallel()
	b := newBench(t, pgtest.Store(t))
	const n, workers = 60, 3
	var now, most atomic.Int32
	b.run = func(_ context.Context, id operation.ID) (time.Duration, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		time.Sleep(5 * time.Millisecond)
		return 0, b.finish(id)
	}
	first, second := b.start(workers), b.start(workers)
	for i := range n {
		b.record([]*work.Work{first, second}[i%2], nil)
	}
	await.True(t, "all were passed over", func() bool { return len(b.passed()) >= n })
	seen := map[operation.ID]int{}
	for _, id := range b.passed() {
		if seen[id]++; seen[id] > 1 {
			t.Errorf("operation %d was passed over %d times", id, seen[id])
		}
	}
	if most.Load() > 2*workers {
		t.Errorf("%d at once", most.Load())
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	b := newBench(t, pgtest.Store(t))
	begun, proceed, interrupted := make(chan struct{}, 9), make(chan struct{}), make(chan struct{}, 9)
	b.run = func(ctx context.Context, id operation.ID) (time.Duration, error) {
		begun <- struct{}{}
		select {
		case <-proceed:
			return 0, b.finish(id)
		case <-ctx.Done():
			interrupted <- struct{}{}
			return 0, ctx.Err()
		}
	}
	w := b.start(2)
	b.record(w, nil)
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	close(proceed)
	if err := <-stopped; err != nil {
		t.Errorf("stop with a pass that ends: %v", err)
	}
	if len(interrupted) > 0 {
		t.Error("a pass was interrupted though there was time")
	}
	proceed = make(chan struct{})
	w = b.start(2)
	b.record(w, nil)
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := w.Stop(ctx); err != nil {
		t.Errorf("stop with a pass that goes on: %v", err)
	}
	select {
	case <-interrupted:
	case <-time.After(10 * time.Second):
		t.Error("a pass that goes on wasn't interrupted")
	}
	if err := w.Stop(t.Context()); err != nil {
		t.Errorf("stopped twice: %v", err)
	}
}

// TestStopWhileBeingElected: River's election of a client that stops may be committed only once the client is gone.
func TestStopWhileBeingElected(t *testing.T) {
	t.Parallel()
	b := newBench(t, pgtest.Store(t))
	pool := b.store.Pool()
	count := func(query string) (n int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	w := b.start(2)
	await.True(t, "it is elected", func() bool { return count("SELECT count(*) FROM river_leader") == 1 })
	var id string
	if err := pool.QueryRow(t.Context(), "DELETE FROM river_leader RETURNING leader_id").Scan(&id); err != nil {
		t.Fatal(err)
	}
	election, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = election.Rollback(context.Background()) }()
	if _, err := election.Exec(t.Context(), "INSERT INTO river_leader (leader_id, elected_at, expires_at) VALUES ($1, now(), now() + interval '1 minute')", id); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	await.True(t, "the stop waits for the election", func() bool {
		select {
		case err := <-stopped:
			t.Fatalf("it is stopped with %v while its election is on its way", err)
		default:
		}
		return count("SELECT count(*) FROM pg_locks WHERE relation = 'river_leader'::regclass AND NOT granted") > 0
	})
	if err := errors.Join(election.Commit(t.Context()), <-stopped); err != nil {
		t.Fatal(err)
	}
	if count("SELECT count(*) FROM river_leader") != 0 {
		t.Error("who is gone looks after the queue")
	}
}

// TestGoesOnAfterTheStoreWasKilled: workers find their way back by themselves.
func TestGoesOnAfterTheStoreWasKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t)
	b := newBench(t, pgtest.Open(t, store.Options{URL: server.URL()}))
	b.run = func(_ context.Context, id operation.ID) (time.Duration, error) { return 0, b.finish(id) }
	w := b.start(2)
	before := b.record(w, nil)
	await.True(t, "woken", func() bool { return slices.Contains(b.passed(), before) })
	server.Kill()
	at := time.Now()
	var after operation.ID
	await.True(t, "recorded", func() bool { // at the first try, but for a commit that was on its way
		var err error
		after, err = b.tryRecord(w, nil)
		return err == nil
	})
	t.Logf("recorded %s after the kill", time.Since(at).Round(time.Millisecond))
	await.True(t, "woken after the store was killed", func() bool { return slices.Contains(b.passed(), after) })
	t.Logf("woken %s after the kill", time.Since(at).Round(time.Millisecond))
}
