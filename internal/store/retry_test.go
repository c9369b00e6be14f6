package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/account"
	"steward/internal/await"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// TestStoreKilledUnderReaders: readers wait while the store comes back, and
// what was committed is there.
func TestStoreKilledUnderReaders(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t)
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
	work.Go(func() { // one that writes sees an error only when its commit is on the way
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
		seen, committed := reads.Load(), commits.Load()
		killed := server.Kill()
		await.True(t, "readers and writers go on", func() bool {
			pid := server.PID()
			return pid != killed && pid != 0 && reads.Load() > seen+20 && commits.Load() > committed+20
		})
	}
	cancel()
	work.Wait()
	if lost.Load() > 3 {
		t.Errorf("%d transactions failed in 3 restarts", lost.Load())
	}
	<-held.Done() // the lock was gone with the first kill
	release()
	_, release = lease(t, s, c.ID)
	release()
}

// TestTransactionRunAgain: one that the store left in the middle is made whole
// by itself, once.
func TestTransactionRunAgain(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	runs := 0
	err := s.InTx(t.Context(), func(tx *store.Tx) error {
		runs++
		if _, err := tx.EnsureAdmin(t.Context()); err != nil {
			return err
		}
		if runs == 1 {
			var pid int
			if err := tx.Pgx().QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			if _, err := s.Pool().Exec(t.Context(), "SELECT pg_terminate_backend($1, 10000)", pid); err != nil {
				return err
			}
		}
		u, err := tx.EnsureAdmin(t.Context())
		if err != nil {
			return err
		}
		_, err = tx.CreateToken(t.Context(), account.Token{User: u.ID, Scopes: account.FullScopes()}, store.TokenHash{1})
		return err
	})
	if err != nil || runs != 2 {
		t.Fatalf("run %d times: %v", runs, err)
	}
	p, err := s.Principal(t.Context(), store.TokenHash{1})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.TokenCount(t.Context(), p.User.ID); err != nil || n != 1 {
		t.Errorf("%d tokens, %v; want 1", n, err)
	}
}

// TestPatience: a store that is away is waited for, one that says it is starting or has just ended a session for longer, and none is
// asked without a pause, which would hinder it; what the store refuses isn't asked for again.
func TestPatience(t *testing.T) {
	t.Parallel()
	gone, starts := error(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), error(&pgconn.PgError{Code: "57P03"})
	ended := error(&pgconn.PgError{Code: "57P01"})
	for name, c := range map[string]struct {
		first, then error
		back        time.Duration // when the store answers
		want        error
		within      time.Duration // after which Persist has returned, at most
	}{
		"back at once":         {gone, gone, 40 * time.Millisecond, nil, 50 * time.Millisecond},
		"back, not at once":    {gone, gone, 2 * time.Second, nil, 2500 * time.Millisecond},
		"gone":                 {gone, gone, time.Minute, gone, 3500 * time.Millisecond},
		"starts, in time":      {gone, starts, 9 * time.Second, nil, 10500 * time.Millisecond},
		"starts, for too long": {gone, starts, time.Minute, starts, 11500 * time.Millisecond},
		"starts, and is gone":  {starts, gone, time.Minute, gone, 3500 * time.Millisecond},
		"killed again":         {starts, ended, 9 * time.Second, nil, 10500 * time.Millisecond},
		"killed, for too long": {ended, ended, time.Minute, ended, 11500 * time.Millisecond},
		"killed, and is gone":  {ended, gone, time.Minute, gone, 3500 * time.Millisecond},
		"refuses":              {errRefused, errRefused, time.Minute, errRefused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun, tries := time.Now(), 0
				err := store.Persist(t.Context(), func() error {
					tries++
					switch waited := time.Since(begun); {
					case waited >= c.back:
						return nil
					case waited < time.Second:
						return c.first
					}
					return c.then
				})
				took := time.Since(begun)
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || took > c.within || c.want == nil && took < c.back {
					t.Errorf("%v after %v; want %v within %v", err, took, c.want, c.within)
				}
				if tries > 60 {
					t.Errorf("asked %d times in %v", tries, took)
				}
			})
		})
	}
}

var errRefused = errors.New("refused")
