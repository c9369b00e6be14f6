package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"steward/internal/cluster"
)

// leaseClass is the first key of the advisory locks that are leases.
const leaseClass = 7002

// leaseCheck is how often the holder makes sure its connection still holds the lock.
const leaseCheck = 2 * time.Second

// leases are those held by this process. The database's lock is tied to the
// connection; when the store itself restarts, its locks are gone while our
// workers may still act. The map keeps this process from acting twice.
type leases struct {
	mu   *sync.Mutex
	held map[cluster.ID]bool
}

func newLeases() leases { return leases{new(sync.Mutex), map[cluster.ID]bool{}} }

func (l leases) take(id cluster.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[id] {
		return false
	}
	l.held[id] = true
	return true
}

func (l leases) drop(id cluster.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
}

// Lease makes the caller the only one who acts on the cluster, until release or
// until the returned context ends because the lease was lost. ok is false when
// somebody else holds it.
func (s *Store) Lease(ctx context.Context, id cluster.ID) (leased context.Context, release func(), ok bool, err error) {
	if !s.leases.take(id) {
		return nil, nil, false, nil
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		s.leases.drop(id)
		return nil, nil, false, fmt.Errorf("lease cluster %d: %w", id, err)
	}
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", leaseClass, int32(id)).Scan(&ok); err != nil || !ok {
		conn.Release()
		s.leases.drop(id)
		if err != nil {
			return nil, nil, false, fmt.Errorf("lease cluster %d: %w", id, err)
		}
		return nil, nil, false, nil
	}
	leased, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { watchLease(leased, conn, cancel) })
	return leased, func() {
		cancel()
		watching.Wait()
		s.unlock(context.WithoutCancel(ctx), conn, id)
		s.leases.drop(id)
	}, true, nil
}

// watchLease ends the work when the connection that holds the lock is lost.
func watchLease(ctx context.Context, conn *pgxpool.Conn, lost context.CancelFunc) {
	tick := time.NewTicker(leaseCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := ping(ctx, conn); err != nil {
				lost()
				return
			}
		}
	}
}

func (s *Store) unlock(ctx context.Context, conn *pgxpool.Conn, id cluster.ID) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", leaseClass, int32(id)); err != nil {
		// A connection of unknown state must not go back into the pool: closing
		// it is what lets go of the lock for certain.
		_ = conn.Hijack().Close(ctx)
		return
	}
	conn.Release()
}

// ping asks the connection for a sign of life, also while the work is ending.
func ping(ctx context.Context, conn *pgxpool.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseCheck)
	defer cancel()
	return conn.Ping(ctx)
}
