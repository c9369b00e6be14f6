package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// short is a bound that a statement keeps on a connection that is open, if nothing holds it up; a new connection may take longer.
const short = 300 * time.Millisecond

// TestWithin: who asks within a bound isn't held up for longer by a store that keeps waiting, and learns whether something may have been written.
func TestWithin(t *testing.T) {
	t.Parallel()
	s := pgtest.Open(t, store.Options{URL: pgtest.MigratedURL(t), MaxConns: 3, Sealer: pgtest.Sealer(), Logger: pgtest.Logger(t)})
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "kept")
	ctx := store.Within(t.Context(), short)
	find := func(ctx context.Context) error {
		_, err := s.Cluster(ctx, store.Viewer{Account: u.Account}, "", c.ID)
		return err
	}
	list := func(ctx context.Context) error {
		_, err := s.ClustersForWork(ctx)
		return err
	}
	write := func(ctx context.Context) error {
		_, err := s.CreateUser(ctx, account.User{Account: u.Account, Username: "b", Email: "b@example.org"})
		return err
	}
	inside := func(f func(context.Context, *store.Tx) error) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.InTx(ctx, func(tx *store.Tx) error { return f(ctx, tx) })
		}
	}
	roomy := store.Within(t.Context(), time.Minute)
	if err := errors.Join(find(roomy), list(roomy), s.Ping(roomy)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cluster(roomy, store.Viewer{Account: u.Account}, "", c.ID+1); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("what isn't there: %v", err)
	}
	err := inside(func(context.Context, *store.Tx) error {
		<-time.After(2 * short) // the bound is the store's, and not of what goes on meanwhile
		return nil
	})(ctx)
	if err != nil {
		t.Errorf("a transaction that takes its time elsewhere: %v", err)
	}

	lock, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := lock.Exec(t.Context(), "LOCK TABLE clusters, users IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	waits := func(name string, ask func(context.Context) error, want, other error) {
		t.Helper()
		if err := ask(ctx); !errors.Is(err, want) || errors.Is(err, other) || t.Context().Err() != nil {
			t.Errorf("%s while the store waits: %v; want %v", name, err, want)
		}
	}
	connected := func(name string, ask func(context.Context) error, want, other error) {
		t.Helper()
		if err := s.Ping(t.Context()); err != nil { // those before have given theirs up
			t.Fatal(err)
		}
		waits(name, ask, want, other)
	}
	connected("a row", find, store.ErrAway, store.ErrInDoubt)
	connected("rows", list, store.ErrAway, store.ErrInDoubt)
	connected("rows in a transaction", inside(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.ClustersForWork(ctx)
		return err
	}), store.ErrAway, store.ErrInDoubt)
	connected("a write", write, store.ErrInDoubt, store.ErrAway)
	connected("a write in a transaction", inside(func(ctx context.Context, tx *store.Tx) error {
		return tx.SetGrant(ctx, u, c.ID, account.ReadOnly)
	}), store.ErrAway, store.ErrInDoubt)

	own, end := context.WithTimeout(t.Context(), short)
	defer end()
	if err := find(own); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrAway) {
		t.Errorf("the caller's own deadline: %v", err)
	}

	for range 2 { // the rest of the pool
		conn, err := s.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	waits("a row without a connection", find, store.ErrAway, store.ErrInDoubt)
	waits("a write without a connection", write, store.ErrAway, store.ErrInDoubt)
	waits("a transaction without a connection", inside(func(context.Context, *store.Tx) error { return nil }), store.ErrAway, store.ErrInDoubt)
	waits("a ping without a connection", s.Ping, store.ErrAway, store.ErrInDoubt)
}
