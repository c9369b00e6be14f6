package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrAway is returned when the store couldn't be reached, or didn't answer in time. Nothing has been done.
var ErrAway = errors.New("the store doesn't answer")

// ErrInDoubt is returned when the store went away, or ran out of time, while it was writing: whether it has written isn't known.
var ErrInDoubt = errors.New("the store hasn't said whether it wrote")

type withinKey struct{}

// Within bounds what each statement, and each begin and end of a transaction, may take under the context that it returns, waiting for a
// connection included: a store that stands still holds up nobody for longer. What else is done under the context has all the time it wants.
func Within(ctx context.Context, most time.Duration) context.Context {
	return context.WithValue(ctx, withinKey{}, most)
}

// bounded is ctx with the bound that Within set, which begins now.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if most, ok := ctx.Value(withinKey{}).(time.Duration); ok {
		return context.WithTimeout(ctx, most)
	}
	return context.WithCancel(ctx)
}

// away marks an error of a store that is gone, or didn't answer within its bound; doubtful: it may have written by then.
func away(ctx context.Context, doubtful bool, err error) error {
	late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil // it isn't the caller's own deadline
	switch {
	case err == nil || errors.Is(err, ErrAway) || errors.Is(err, ErrInDoubt) || !late && !lostAtAll(err):
		return err
	case doubtful && !lostUnsent(err) && !pgconn.SafeToRetry(err) && (!late || pgconn.Timeout(err)): // who was too late for a connection has sent nothing
		return fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// reads reports whether a statement only reads.
func reads(sql string) bool {
	for line := range strings.Lines(sql) {
		if !strings.HasPrefix(line, "--") {
			return strings.HasPrefix(line, "SELECT ")
		}
	}
	return false
}

// boundTx is a transaction each of whose statements is bounded.
type boundTx struct{ pgx.Tx }

// Exec implements dbsqlc.DBTX.
func (t boundTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	short, end := bounded(ctx)
	defer end()
	tag, err := t.Tx.Exec(short, sql, args...)
	return tag, away(ctx, false, err)
}

// Query implements dbsqlc.DBTX.
func (t boundTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	short, end := bounded(ctx)
	rows, err := t.Tx.Query(short, sql, args...)
	if err != nil {
		end() // nobody closes them then
	}
	return boundRows{rows, ctx, end, false}, away(ctx, false, err)
}

// QueryRow implements dbsqlc.DBTX.
func (t boundTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return boundRow{func(to ...any) error {
		short, end := bounded(ctx)
		defer end()
		return away(ctx, false, t.Tx.QueryRow(short, sql, args...).Scan(to...))
	}}
}

// boundRow asks when it is scanned.
type boundRow struct{ scan func(to ...any) error }

// Scan implements pgx.Row.
func (r boundRow) Scan(to ...any) error { return r.scan(to...) }

// boundRows are rows of a bounded statement, which is over when they are closed.
type boundRows struct {
	pgx.Rows
	ctx      context.Context //nolint:containedctx // pgx.Rows are a call in many parts
	end      context.CancelFunc
	doubtful bool
}

// Next implements pgx.Rows.
func (r boundRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.end() // nobody has to close rows that have been read to their end
	return false
}

// Close implements pgx.Rows.
func (r boundRows) Close() {
	r.Rows.Close()
	r.end()
}

// Err implements pgx.Rows.
func (r boundRows) Err() error { return away(r.ctx, r.doubtful, r.Rows.Err()) }
