package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/cluster"
)

// The classes of leases.
const (
	workLease   = 7002
	backupLease = 7003
	verifyLease = 7004
	importLease = 7005
	rotateLease = 7010
)

// leaseKey is the advisory lock that is a cluster's lease. The classes keep
// clear of the keys that the job queue and the migrations lock.
func leaseKey(class int64, id cluster.ID) int64 { return class<<40 + int64(id) }

// leases are those held by this process. All of their locks are on one
// connection of its own: holding many costs no more than holding one, and
// workers can't use up the pool that the holders need to get on. The map keeps
// this process from acting twice: when the store restarts its locks are gone,
// while our workers may not have noticed yet.
type leases struct {
	config *pgx.ConnConfig

	mu      sync.Mutex
	held    map[int64]bool
	opening sync.Mutex
	session *session
}

// newLeases take connections like the pool's.
func newLeases(config *pgx.ConnConfig) *leases {
	config = config.Copy()
	config.Tracer = nil
	config.RuntimeParams["application_name"] = "steward leases"
	config.RuntimeParams["lock_timeout"] = "1s"
	return &leases{config: config, held: map[int64]bool{}}
}

func (l *leases) take(key int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[key] {
		return false
	}
	l.held[key] = true
	return true
}

func (l *leases) drop(key int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
}

// connected is the session for new leases, opened anew when the last was lost.
func (l *leases) connected(ctx context.Context) (*session, error) {
	l.opening.Lock()
	defer l.opening.Unlock()
	if l.session == nil || l.session.alive.Err() != nil {
		s, err := openSession(ctx, l.config)
		if err != nil {
			return nil, err
		}
		l.session = s
	}
	return l.session, nil
}

func (l *leases) close() {
	l.opening.Lock()
	defer l.opening.Unlock()
	if l.session != nil {
		l.session.close()
	}
}

// Lease makes the caller the only one who acts on the cluster, until release or
// until the returned context ends because the lease was lost. ok is false when
// somebody else holds it. Nothing is written under that context once somebody else
// has taken the lease, also while its holder doesn't know: that is ErrLeaseLost.
func (s *Store) Lease(ctx context.Context, id cluster.ID) (leased context.Context, release func(), ok bool, err error) {
	return s.leaseFenced(ctx, leaseKey(workLease, id))
}

// LeaseBackup makes the caller the only one who takes a backup of the cluster,
// which may take hours: others act on the cluster meanwhile. Writes are as with Lease.
func (s *Store) LeaseBackup(ctx context.Context, id cluster.ID) (leased context.Context, release func(), ok bool, err error) {
	return s.leaseFenced(ctx, leaseKey(backupLease, id))
}

// LeaseImport makes the caller the only one who brings databases over into the cluster, which may take hours: others act on the
// cluster meanwhile. Writes are as with Lease.
func (s *Store) LeaseImport(ctx context.Context, id cluster.ID) (leased context.Context, release func(), ok bool, err error) {
	return s.leaseFenced(ctx, leaseKey(importLease, id))
}

// LeaseVerify makes the caller the only one of all servers that tries out backups.
func (s *Store) LeaseVerify(ctx context.Context) (leased context.Context, release func(), ok bool, err error) {
	return s.lease(ctx, leaseKey(verifyLease, 0))
}

// LeaseRotation makes the caller the only one that changes the master keys.
func (s *Store) LeaseRotation(ctx context.Context) (leased context.Context, release func(), ok bool, err error) {
	return s.lease(ctx, leaseKey(rotateLease, 0))
}

func (s *Store) lease(ctx context.Context, key int64) (leased context.Context, release func(), ok bool, err error) {
	_, leased, release, ok, err = s.leaseOn(ctx, key)
	return leased, release, ok, err
}

// leaseFenced is lease with a token that all writes under the context come with.
func (s *Store) leaseFenced(ctx context.Context, key int64) (leased context.Context, release func(), ok bool, err error) {
	on, leased, release, ok, err := s.leaseOn(ctx, key)
	if err != nil || !ok {
		return nil, nil, false, err
	}
	token, err := on.token(key)
	if err != nil || token == 0 {
		release()
		if err != nil {
			return nil, nil, false, fmt.Errorf("take a lease: %w", err)
		}
		return nil, nil, false, nil
	}
	return withFence(leased, fence{key, token}), release, true, nil
}

func (s *Store) leaseOn(ctx context.Context, key int64) (on *session, leased context.Context, release func(), ok bool, err error) {
	if !s.leases.take(key) {
		return nil, nil, nil, false, nil
	}
	on, ok, err = s.leases.lock(ctx, key)
	if err != nil || !ok {
		s.leases.drop(key)
		return nil, nil, nil, false, err
	}
	leased, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(on.alive, cancel)
	return on, leased, sync.OnceFunc(func() {
		cancel()
		unlink()
		on.unlock(key)
		s.leases.drop(key)
	}), true, nil
}

func (l *leases) lock(ctx context.Context, key int64) (*session, bool, error) {
	on, err := l.connected(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("take a lease: %w", err)
	}
	ok, err := on.tryLock(ctx, key)
	if err != nil {
		return nil, false, fmt.Errorf("take a lease: %w", err)
	}
	return on, ok, nil
}

// Timings of a session.
const (
	// sessionPing is how often a silent connection is tried while locks are
	// held: a closed one is noticed at once, one to a vanished machine so.
	sessionPing    = 5 * time.Second
	sessionTimeout = 5 * time.Second
)
