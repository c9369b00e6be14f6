package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pool opens a connection more only when those that there are have been in use for a moment. To open one takes longer than
// nearly all statements do, and costs the server a process, which has yet to plan each statement: without a pause the loops that
// begin at a start would open one each, for a single statement.
type pool struct {
	*pgxpool.Pool
	// turn is had by who waits until one is free: others wait behind, so that each that is opened may serve several.
	turn chan struct{}
	// within is how long one that is in use is waited for.
	within time.Duration
}

const (
	// connsAtOnce are opened without a pause.
	connsAtOnce = 4
	freeWithin  = 25 * time.Millisecond
	// freeLook is how often it is looked whether one is free.
	freeLook = time.Millisecond
)

func newPool(p *pgxpool.Pool) pool { return pool{p, make(chan struct{}, 1), freeWithin} }

// Exec implements dbsqlc.DBTX.
func (p pool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.awaitFree(ctx)
	return p.Pool.Exec(ctx, sql, args...)
}

// Query implements dbsqlc.DBTX.
func (p pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	p.awaitFree(ctx)
	return p.Pool.Query(ctx, sql, args...)
}

// QueryRow implements dbsqlc.DBTX.
func (p pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	p.awaitFree(ctx)
	return p.Pool.QueryRow(ctx, sql, args...)
}

// Begin begins a transaction.
func (p pool) Begin(ctx context.Context) (pgx.Tx, error) {
	p.awaitFree(ctx)
	return p.Pool.Begin(ctx)
}

// awaitFree returns once a connection is free, or may be opened.
func (p pool) awaitFree(ctx context.Context) {
	if p.free() {
		return
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return
	}
	enough := time.After(p.within)
	look := time.NewTicker(freeLook)
	defer look.Stop()
	for !p.free() {
		select {
		case <-look.C:
		case <-enough:
			return
		case <-ctx.Done():
			return
		}
	}
}

// free reports whether a statement needn't wait: when all that may be opened are, to wait for one is the pool's.
func (p pool) free() bool {
	stat := p.Stat()
	return stat.IdleConns() > 0 || stat.TotalConns() < connsAtOnce || stat.TotalConns() == stat.MaxConns()
}
