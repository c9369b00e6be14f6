package store_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func TestOperationLife(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	ctx := t.Context()
	u := newAccount(t, s, "a")
	want := newOperation(t, s, operation.Operation{
		Account: u.Account, Cluster: 7, Label: "db", Engine: cluster.MySQL, Action: operation.Resize, Status: operation.Scheduled,
		Username: "a", Params: operation.Params{Type: "big", OldType: "small"},
	})
	check := func(when string) {
		t.Helper()
		viewed, err := s.Operation(ctx, store.Viewer{Account: u.Account}, want.ID)
		if diff := cmp.Diff(want, viewed, sameInstant); err != nil || diff != "" {
			t.Errorf("%s: %v -want +got\n%s", when, err, diff)
		}
		if worked, err := s.OperationForWork(ctx, want.ID); err != nil || !cmp.Equal(viewed, worked) {
			t.Errorf("%s: for work %+v, %v", when, worked, err)
		}
		unfinished, err := s.UnfinishedOperations(ctx, 7)
		if err != nil || (len(unfinished) == 1) == want.Status.Done() {
			t.Errorf("%s: unfinished %v, %v", when, unfinished, err)
		}
	}
	check("scheduled")
	begun := now.Add(time.Second)
	for attempt := 1; attempt <= 2; attempt++ {
		now = now.Add(time.Second)
		if ok, err := s.StartOperation(ctx, want.ID, time.Minute); !ok || err != nil {
			t.Fatalf("start: %v, %v", ok, err)
		}
		want.Status, want.Started, want.Attempt = operation.Started, &begun, attempt
		check("started")
	}
	for _, percent := range []int{30, 10} { // never backwards
		if err := s.ProgressOperation(ctx, want.ID, percent, "on its way", time.Minute); err != nil {
			t.Fatal(err)
		}
		want.Percent, want.Message = 30, "on its way"
		check("progress")
	}
	now = now.Add(time.Second)
	finished := now
	for _, status := range []operation.Status{operation.FailedStatus, operation.Finished} { // the first end counts
		inTx(t, s, func(tx *store.Tx) error { return tx.FinishOperation(ctx, want.ID, status, "reason "+string(status)) })
		want.Status, want.Finished, want.Percent, want.Message = operation.FailedStatus, &finished, 100, "reason failed"
		check("finished")
		now = now.Add(time.Second)
	}
	if ok, err := s.StartOperation(ctx, want.ID, time.Minute); ok || err != nil {
		t.Errorf("a finished one was started: %v, %v", ok, err)
	}
	if err := s.ProgressOperation(ctx, want.ID, 50, "late", time.Minute); err != nil {
		t.Fatal(err)
	}
	check("late progress")
}

func TestOperationBornDone(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	for _, status := range []operation.Status{operation.Finished, operation.Notification} {
		o := newOperation(t, s, operation.Operation{Account: u.Account, Action: operation.Update, Status: status})
		got, err := s.OperationForWork(t.Context(), o.ID)
		if err != nil || got.Percent != 100 || got.Started == nil || got.Finished == nil {
			t.Errorf("%s: %+v, %v", status, got, err)
		}
	}
}

// TestCompanionGoesAlong: what carries another operation along begins, proceeds
// and ends for both, and only the one that leads is ever woken for.
func TestCompanionGoesAlong(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	ctx := t.Context()
	u := newAccount(t, s, "a")
	scheduled := operation.Operation{Account: u.Account, Cluster: 1, Action: operation.Update, Status: operation.Scheduled}
	for _, end := range []operation.Status{operation.Finished, operation.FailedStatus} {
		var companion operation.Operation
		inTx(t, s, func(tx *store.Tx) (err error) {
			companion, err = tx.CreateCompanion(ctx, scheduled)
			return err
		})
		alone := scheduled
		alone.Action, alone.Params = operation.Resize, operation.Params{Type: "big", Companion: companion.ID}
		leader, other := newOperation(t, s, alone), newOperation(t, s, operation.Operation{Account: u.Account, Cluster: 2, Action: operation.Update, Status: operation.Scheduled})
		check := func(status operation.Status, percent int, message string) {
			t.Helper()
			for _, id := range []operation.ID{leader.ID, companion.ID} {
				got, err := s.OperationForWork(ctx, id)
				if err != nil || got.Status != status || got.Percent != percent || got.Message != message || (got.Finished != nil) != status.Done() {
					t.Errorf("%d is %+v, %v; want %s, %d %%, %q", id, got, err, status, percent, message)
				}
			}
			if got, err := s.OperationForWork(ctx, other.ID); err != nil || got.Status != operation.Scheduled {
				t.Errorf("another one: %+v, %v", got, err)
			}
		}
		wantDue := func(when string) {
			t.Helper()
			if err := s.WakeAll(ctx); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Hour)
			ids, err := s.DueOperations(ctx, 10)
			if slices.Sort(ids); err != nil || !slices.Equal(ids, []operation.ID{leader.ID, other.ID}) {
				t.Errorf("%s: due %v, %v; want %d and %d", when, ids, err, leader.ID, other.ID)
			}
		}
		wantDue("scheduled")
		if ok, err := s.StartOperation(ctx, leader.ID, time.Minute); !ok || err != nil {
			t.Fatal(ok, err)
		}
		check(operation.Started, 0, "")
		wantDue("started")
		if err := s.ProgressOperation(ctx, leader.ID, 30, "on its way", time.Minute); err != nil {
			t.Fatal(err)
		}
		check(operation.Started, 30, "on its way")
		wantDue("on its way")
		inTx(t, s, func(tx *store.Tx) error { return tx.FinishOperation(ctx, leader.ID, end, "over") })
		check(end, 100, "over")
		inTx(t, s, func(tx *store.Tx) error { return tx.FinishOperation(ctx, other.ID, end, "") })
	}
}

func TestFailOtherOperations(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	scheduled := operation.Operation{Account: u.Account, Cluster: 1, Action: operation.Update, Status: operation.Scheduled}
	first, second := newOperation(t, s, scheduled), newOperation(t, s, scheduled)
	scheduled.Cluster = 2
	elsewhere := newOperation(t, s, scheduled)
	done := newOperation(t, s, operation.Operation{Account: u.Account, Cluster: 1, Action: operation.Update, Status: operation.Finished})
	inTx(t, s, func(tx *store.Tx) error { return tx.FailOtherOperations(t.Context(), 1, second.ID, "deleted") })
	for id, want := range map[operation.ID]operation.Status{
		first.ID: operation.FailedStatus, second.ID: operation.Scheduled, elsewhere.ID: operation.Scheduled, done.ID: operation.Finished,
	} {
		if got, err := s.OperationForWork(t.Context(), id); err != nil || got.Status != want {
			t.Errorf("operation %d: %s, %v; want %s", id, got.Status, err, want)
		}
	}
}

func TestDueOperations(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	u := newAccount(t, s, "a")
	scheduled := operation.Operation{Account: u.Account, Cluster: 1, Action: operation.Create, Status: operation.Scheduled}
	op := newOperation(t, s, scheduled)
	newOperation(t, s, operation.Operation{Account: u.Account, Cluster: 1, Action: operation.Update, Status: operation.Finished})
	wantDue := func(when string, want int) {
		t.Helper()
		ids, err := s.DueOperations(t.Context(), 10)
		if err != nil || len(ids) != want {
			t.Errorf("%s: due %v, %v; want %d", when, ids, err, want)
		}
	}
	wantDue("fresh", 0)
	now = now.Add(store.WakeDelay)
	wantDue("forgotten", 1)
	wantDue("taken by another server", 0)
	now = now.Add(store.WakeDelay)
	if ok, err := s.StartOperation(t.Context(), op.ID, time.Minute); !ok || err != nil {
		t.Fatal(ok, err)
	}
	wantDue("at work", 0)
	now = now.Add(time.Minute)
	wantDue("its worker is gone", 1)
	if err := s.ProgressOperation(t.Context(), op.ID, 10, "", time.Hour); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	wantDue("put off", 0)
	if err := s.WakeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDue("at a server's start", 1)
	inTx(t, s, func(tx *store.Tx) error { return tx.FinishOperation(t.Context(), op.ID, operation.Finished, "") })
	if err := s.WakeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDue("finished", 0)
}

// TestDueOperationsAreDealtOut: servers that sweep at once don't take the same.
func TestDueOperationsAreDealtOut(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	const n = 40
	for range n {
		newOperation(t, s, operation.Operation{Account: u.Account, Cluster: 1, Action: operation.Create, Status: operation.Scheduled})
	}
	if err := s.WakeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	dealt := map[operation.ID]int{}
	var sweeps sync.WaitGroup
	for range 4 {
		sweeps.Go(func() {
			for {
				ids, err := s.DueOperations(context.Background(), 3)
				if err != nil {
					t.Error(err)
				}
				if len(ids) == 0 {
					return
				}
				mu.Lock()
				for _, id := range ids {
					dealt[id]++
				}
				mu.Unlock()
			}
		})
	}
	sweeps.Wait()
	for id, times := range dealt {
		if times != 1 {
			t.Errorf("operation %d was dealt out %d times", id, times)
		}
	}
	if len(dealt) != n {
		t.Errorf("%d of %d were dealt out", len(dealt), n)
	}
}

func TestSeenAndRead(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	ctx := t.Context()
	a, b := newAccount(t, s, "a"), newAccount(t, s, "b")
	c, hidden := newCluster(t, s, a.Account, "one"), newCluster(t, s, a.Account, "hidden")
	r, err := s.CreateUser(ctx, account.User{Account: a.Account, Username: "r", Restricted: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetGrant(ctx, r, c.ID, account.ReadOnly); err != nil {
		t.Fatal(err)
	}
	event := func(owner account.ID, id cluster.ID) operation.ID {
		return newOperation(t, s, operation.Operation{Account: owner, Cluster: id, Action: operation.Update, Status: operation.Finished}).ID
	}
	first, theirs, unseen, second, third := event(a.Account, c.ID), event(b.Account, 0), event(a.Account, hidden.ID), event(a.Account, c.ID), event(a.Account, c.ID)
	check := func(when string, seen, read []operation.ID) {
		t.Helper()
		var gotSeen, gotRead []operation.ID
		for _, id := range []operation.ID{first, theirs, unseen, second, third} {
			o, err := s.OperationForWork(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if o.Seen {
				gotSeen = append(gotSeen, id)
			}
			if o.Read {
				gotRead = append(gotRead, id)
			}
		}
		if diff := cmp.Diff([][]operation.ID{seen, read}, [][]operation.ID{gotSeen, gotRead}); diff != "" {
			t.Errorf("%s: -want +got\n%s", when, diff)
		}
	}
	restricted := store.Viewer{Account: a.Account, User: r.ID}
	if err := s.MarkSeen(ctx, restricted, second); err != nil {
		t.Fatal(err)
	}
	check("seen by a restricted user", []operation.ID{first, second}, nil)
	if err := s.MarkRead(ctx, restricted, unseen); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("read what can't be seen: %v", err)
	}
	if err := s.MarkRead(ctx, restricted, first); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkSeen(ctx, store.Viewer{Account: a.Account}, third); err != nil {
		t.Fatal(err)
	}
	check("seen by an unrestricted user", []operation.ID{first, unseen, second, third}, []operation.ID{first})
}
