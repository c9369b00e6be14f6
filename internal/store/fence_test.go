package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/store"
)

// TestAStaleHolderOfALeaseWritesNothing: somebody else has taken the lease, and the
// old holder, which doesn't know, goes on.
func TestAStaleHolderOfALeaseWritesNothing(t *testing.T) {
	t.Parallel()
	a, b := servers(t)
	u := newAccount(t, a, "a")
	c, err := create(t.Context(), a, u.Account, spec("one"))
	if err != nil {
		t.Fatal(err)
	}
	op := newOperation(t, a, operation.Operation{Account: u.Account, Cluster: c.ID, Action: operation.Create, Status: operation.Scheduled})
	seen := platform.Observed{Hosts: cluster.Hosts{Primary: "stale"}, ServerVersion: "stale"}
	writes := map[string]func(ctx context.Context, s *store.Store) error{
		"an observation": func(ctx context.Context, s *store.Store) error { return s.RecordObserved(ctx, c.ID, seen) },
		"parameters": func(ctx context.Context, s *store.Store) error {
			return s.SaveParams(ctx, op.ID, operation.Params{Touched: true})
		},
		"progress": func(ctx context.Context, s *store.Store) error {
			return s.ProgressOperation(ctx, op.ID, 50, "stale", time.Minute)
		},
		"an operation's begin": func(ctx context.Context, s *store.Store) error {
			_, err := s.StartOperation(ctx, op.ID, time.Minute)
			return err
		},
		"a secret": func(ctx context.Context, s *store.Store) error {
			return s.SaveSecret(ctx, c.ID, platform.Keyring, []byte("stale"))
		},
		"an operation's end": func(ctx context.Context, s *store.Store) error {
			return s.InTx(ctx, func(tx *store.Tx) error { return tx.FinishOperation(ctx, op.ID, operation.Finished, "") })
		},
		"a change of the status": func(ctx context.Context, s *store.Store) error {
			return s.InTx(ctx, func(tx *store.Tx) error { _, err := tx.Transition(ctx, c, cluster.Ready); return err })
		},
	}
	for kind, take := range map[string]func(*store.Store) (context.Context, func(), bool, error){
		"work":   func(s *store.Store) (context.Context, func(), bool, error) { return s.Lease(t.Context(), c.ID) },
		"backup": func(s *store.Store) (context.Context, func(), bool, error) { return s.LeaseBackup(t.Context(), c.ID) },
	} {
		stale, release, ok, err := take(a)
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", kind, ok, err)
		}
		release()
		unaware := context.WithoutCancel(stale)
		if err := a.ProgressOperation(unaware, op.ID, 1, "", time.Minute); err != nil {
			t.Errorf("%s: while nobody else has the lease: %v", kind, err)
		}
		held, release, ok, err := take(b)
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", kind, ok, err)
		}
		for what, write := range writes {
			if err := write(unaware, a); !errors.Is(err, store.ErrLeaseLost) {
				t.Errorf("%s: %s: %v", kind, what, err)
			}
		}
		if now, err := a.ClusterForWork(t.Context(), c.ID); err != nil || now.Status != cluster.Provisioning || now.ServerVersion != "" {
			t.Errorf("%s: the row is %+v, %v", kind, now, err)
		}
		if now, err := a.OperationForWork(t.Context(), op.ID); err != nil || now.Percent != 1 || now.Status != operation.Scheduled {
			t.Errorf("%s: the operation is %+v, %v", kind, now, err)
		}
		if err := b.ProgressOperation(held, op.ID, 1, "", time.Minute); err != nil {
			t.Errorf("%s: the holder can't write: %v", kind, err)
		}
		release()
	}
}

// TestALeaseWaitsForWhatIsBeingWritten: what an old holder writes is there before the
// next one reads.
func TestALeaseWaitsForWhatIsBeingWritten(t *testing.T) {
	t.Parallel()
	a, b := servers(t)
	u := newAccount(t, a, "a")
	c, err := create(t.Context(), a, u.Account, spec("one"))
	if err != nil {
		t.Fatal(err)
	}
	stale, release := lease(t, a, c.ID)
	release()
	unaware := context.WithoutCancel(stale)
	err = a.InTx(unaware, func(tx *store.Tx) error {
		refused(t, b, c.ID)
		other, release := lease(t, b, c.ID+1) // others aren't held up
		defer release()
		return errors.Join(other.Err(), tx.RecordObserved(unaware, c.ID, platform.Observed{ServerVersion: "15.1"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	held, release := lease(t, b, c.ID)
	defer release()
	if now, err := b.ClusterForWork(held, c.ID); err != nil || now.ServerVersion != "15.1" {
		t.Errorf("the next holder reads %q, %v", now.ServerVersion, err)
	}
}

// TestARemovedClusterLeavesNoLease.
func TestARemovedClusterLeavesNoLease(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	c, err := create(t.Context(), s, u.Account, spec("one"))
	if err != nil {
		t.Fatal(err)
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.MarkDeleted(t.Context(), c) })
	held, release := lease(t, s, c.ID)
	defer release()
	if err := s.InTx(held, func(tx *store.Tx) error { return tx.RemoveCluster(held, c.ID) }); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM leases").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d leases are left, %v", left, err)
	}
}
