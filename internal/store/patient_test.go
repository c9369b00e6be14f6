package store_test

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// TestStoreKilledUnderReaders: readers wait while the store comes back, and
// what was committed is there.
func TestStoreKilledUnderReaders(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t)
	server := e.start()
	s := pgtest.Open(t, store.Options{URL: server.URL(), MaxConns: 8, Sealer: pgtest.Sealer(), Logger: slog.New(slog.DiscardHandler)})
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "kept")
	hash := store.TokenHash(sha256.Sum256([]byte("secret")))
	if _, err := s.CreateToken(t.Context(), account.Token{User: u.ID, Scopes: account.FullScopes()}, hash); err != nil {
		t.Fatal(err)
	}
	held, release := lease(t, s, c.ID)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var reads, commits, lost atomic.Int64
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Principal(context.Background(), hash); err != nil {
					t.Errorf("read: %v", err)
				}
				if _, err := s.Cluster(context.Background(), store.Viewer{Account: u.Account}, "", c.ID); err != nil {
					t.Errorf("read: %v", err)
				}
				reads.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	work.Go(func() { // one that writes sees an error when it is in the middle, and can go on at once
		for ctx.Err() == nil {
			if err := s.InTx(context.Background(), func(tx *store.Tx) error { return tx.SetGrant(ctx, u, c.ID, account.ReadOnly) }); err != nil {
				lost.Add(1)
			} else {
				commits.Add(1)
			}
			time.Sleep(time.Millisecond)
		}
	})
	for range 3 {
		killed, seen, committed := e.postmaster(), reads.Load(), commits.Load()
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "readers and writers go on", func() bool {
			pid := e.postmaster()
			return pid != killed && pid != 0 && reads.Load() > seen+20 && commits.Load() > committed+20
		})
	}
	cancel()
	work.Wait()
	if lost.Load() > 6 {
		t.Errorf("%d transactions failed in 3 restarts", lost.Load())
	}
	<-held.Done() // the lock was gone with the first kill
	release()
	_, release = lease(t, s, c.ID)
	release()
}
