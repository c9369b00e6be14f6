// Package store keeps steward's own state in PostgreSQL: accounts, databases,
// operations. Status changes only through Transition; every query that a
// customer's request leads to is scoped by account.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"steward/internal/failpoint"
	"steward/internal/store/dbsqlc"
)

// Sealer seals secrets before they reach a row; the context binds a value to its place.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Unseal(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// Options are what a Store is made of.
type Options struct {
	// URL of the PostgreSQL database.
	URL string
	// MaxConns bounds the pool; 0 means 16.
	MaxConns int32
	Sealer   Sealer
	Logger   *slog.Logger
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Tracer sees every query, for tests that count them.
	Tracer pgx.QueryTracer
}

// Store is the database, open and migrated.
type Store struct {
	queries
	pool   pool
	log    *slog.Logger
	leases *leases
}

// queries are the methods that work in a transaction and outside of one alike.
type queries struct {
	db     dbsqlc.DBTX
	q      *dbsqlc.Queries
	sealer Sealer
	now    func() time.Time
}

// Tx is a transaction: all of the store's methods, taking effect together.
type Tx struct {
	queries
	tx pgx.Tx
}

// Pgx is the transaction itself, for what must be enqueued within it.
func (t *Tx) Pgx() pgx.Tx { return t.tx }

// Open connects and brings the schema up to date. Several servers may do so at once.
func Open(ctx context.Context, o Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, errors.New("store URL: not a PostgreSQL connection string") // the parser's error would show the password
	}
	config.MaxConns = o.MaxConns
	if config.MaxConns == 0 {
		config.MaxConns = 16
	}
	config.ShouldPing = suspect
	config.ConnConfig.Tracer = o.Tracer
	config.ConnConfig.RuntimeParams["application_name"] = "steward"
	// The server must let go soon when our machine is gone without a word: of a
	// lease, and of what was being written under it.
	config.ConnConfig.RuntimeParams["tcp_keepalives_idle"] = "10"
	config.ConnConfig.RuntimeParams["tcp_keepalives_interval"] = "5"
	config.ConnConfig.RuntimeParams["tcp_keepalives_count"] = "3"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	unhurried := newPool(pool)
	s := &Store{pool: unhurried, log: o.Logger, leases: newLeases(config.ConnConfig)}
	db := retrying{unhurried}
	s.queries = queries{db: db, q: dbsqlc.New(db), sealer: o.Sealer, now: now}
	return s, nil
}

// Close closes all connections.
func (s *Store) Close() {
	s.leases.close()
	s.pool.Close()
}

// Pool is the connection pool, for the job queue.
func (s *Store) Pool() *pgxpool.Pool { return s.pool.Pool }

// Ping is nil when the store answers.
func (s *Store) Ping(ctx context.Context) error {
	short, end := bounded(ctx)
	defer end()
	return away(ctx, false, s.pool.Ping(short))
}

// InTx runs f in a transaction and commits when f returns nil. When the store
// goes away before the commit was sent, nothing can have come of it: f is run
// again in a new transaction, for as long as patience lasts, and must bear that.
// Under a lease that was lost it is ErrLeaseLost.
func (s *Store) InTx(ctx context.Context, f func(tx *Tx) error) error {
	return inTx(ctx, s.pool, func(tx pgx.Tx) error {
		inner := s.queries
		inner.db, inner.q = tx, dbsqlc.New(tx)
		return f(&Tx{inner, tx})
	})
}

func inTx(ctx context.Context, pool pool, f func(tx pgx.Tx) error) error {
	committing := false
	again := func(err error) bool { return lostUnsent(err) || !committing && lostAtAll(err) }
	return persist(ctx, again, func() error {
		committing = false
		tx, err := begin(ctx, pool)
		if err != nil {
			return fmt.Errorf("begin transaction: %w", err)
		}
		defer rollback(ctx, tx) // no-op after the commit
		if err := checkFence(ctx, tx); err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		failpoint.Here("store: before commit")
		committing = true
		if err := commit(ctx, tx); err != nil {
			return fmt.Errorf("commit: %w", classify(err))
		}
		failpoint.Here("store: after commit")
		return nil
	})
}

func begin(ctx context.Context, pool pool) (pgx.Tx, error) {
	short, end := bounded(ctx)
	defer end()
	tx, err := pool.Begin(short)
	return boundTx{tx}, away(ctx, false, err)
}

func commit(ctx context.Context, tx pgx.Tx) error {
	short, end := bounded(ctx)
	defer end()
	return away(ctx, true, tx.Commit(short))
}

// rollbackTime is what a rollback may take; then the connection is closed, which is one, too.
const rollbackTime = 5 * time.Second

func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer end()
	_ = tx.Rollback(ctx)
}
