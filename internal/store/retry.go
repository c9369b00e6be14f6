package store

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"

	"steward/internal/wait"
)

// How long a store that went away is waited for. The embedded one is back in a
// fraction of patience after it was killed, but where the disk or the machine is
// slow or busy: then it says meanwhile that it is starting, and is worth the wait.
// So is one that has just ended a session, as it does when it is killed again.
const (
	patience      = 3 * time.Second
	patienceThere = 10 * time.Second
)

// pause is how long the store is left alone before it is tried again, at least:
// each connection that it has to refuse hinders its recovery.
func pause(waited time.Duration) time.Duration { return max(10*time.Millisecond, waited/8) }

// retrying runs single statements, and again when the connection was lost before
// anything can have come of them. What reads may be repeated whenever; what
// writes only when it was never sent.
type retrying struct{ pool pool }

// Exec implements dbsqlc.DBTX. Under a lease it takes a transaction to see that it holds.
func (p retrying) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	if fenced(ctx) {
		err = inTx(ctx, p.pool, func(tx pgx.Tx) error {
			tag, err = tx.Exec(ctx, sql, args...)
			return err
		})
		return tag, err
	}
	short, end := bounded(ctx)
	defer end()
	err = persist(short, repeatable(sql), func() error {
		tag, err = p.pool.Exec(short, sql, args...)
		return err
	})
	return tag, away(ctx, !reads(sql), err)
}

// Query implements dbsqlc.DBTX. Only what fails before the first row is repeated.
func (p retrying) Query(ctx context.Context, sql string, args ...any) (rows pgx.Rows, err error) {
	short, end := bounded(ctx)
	err = persist(short, repeatable(sql), func() error {
		rows, err = p.pool.Query(short, sql, args...) //nolint:sqlclosecheck // the caller closes them
		return err
	})
	if err != nil {
		end() // nobody closes them then
	}
	return boundRows{rows, ctx, end, !reads(sql)}, away(ctx, !reads(sql), err)
}

// QueryRow implements dbsqlc.DBTX.
func (p retrying) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return boundRow{func(to ...any) error {
		short, end := bounded(ctx)
		defer end()
		err := persist(short, repeatable(sql), func() error { return p.pool.QueryRow(short, sql, args...).Scan(to...) })
		return away(ctx, !reads(sql), err)
	}}
}

// persist does something again, for as long as patience lasts and again allows.
func persist(ctx context.Context, again func(error) bool, do func() error) error {
	for begun := time.Now(); ; {
		err := do()
		waited := time.Since(begun)
		if err == nil || !again(err) || waited >= patienceAfter(err) {
			return err
		}
		if wait.Sleep(ctx, pause(waited)) != nil {
			return err
		}
	}
}

// patienceAfter is how long the store is waited for after its last error, from the first try on.
func patienceAfter(err error) time.Duration {
	if pg, answered := errors.AsType[*pgconn.PgError](err); answered && pg.Code == cannotConnectNow || endedSession(err) {
		return patienceThere
	}
	return patience
}

// endedSession reports whether the connection failed when it had been made: the store was there a moment ago.
func endedSession(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return false
	}
	network, ok := errors.AsType[*net.OpError](err)
	return lostAtAll(err) && !(ok && network.Op == "dial")
}

// repeatable says after which errors a statement may be sent again.
func repeatable(sql string) func(error) bool {
	if reads(sql) {
		return lostAtAll
	}
	return lostUnsent
}

// lostUnsent reports whether the connection failed before the statement was sent.
func lostUnsent(err error) bool {
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		pg, answered := errors.AsType[*pgconn.PgError](connect)
		return !answered || restarting(pg)
	}
	return pgconn.SafeToRetry(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// lostAtAll reports whether the connection failed, before or after.
func lostAtAll(err error) bool {
	if lostUnsent(err) {
		return true
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return restarting(pg)
	}
	_, network := errors.AsType[*net.OpError](err)
	return network && !pgconn.Timeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// restarting reports whether the server ended the session, or doesn't begin one, since it stops or starts.
func restarting(pg *pgconn.PgError) bool {
	switch pg.Code {
	case "57P01", "57P02", cannotConnectNow: // admin shutdown, crash shutdown
		return true
	}
	return false
}

// cannotConnectNow is the SQLSTATE of that name, by which a server refuses a session because it starts.
const cannotConnectNow = "57P03"

// suspect says which idle connections are to be tried before they are used:
// those on which something has arrived unasked, which is their end as a rule.
// A look at the socket costs a microsecond, a question to the server fifty;
// what was in use a moment ago isn't worth even that.
func suspect(_ context.Context, p pgxpool.ShouldPingParams) bool {
	const moment = 20 * time.Millisecond
	if p.IdleDuration < moment {
		return false
	}
	conn := p.Conn.PgConn().Conn()
	if wrapped, ok := conn.(*tls.Conn); ok {
		conn = wrapped.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	readable := true
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		readable = err != nil || n > 0
	})
	_, local := conn.(*net.UnixConn)
	return err != nil || readable || !local && p.IdleDuration > time.Second
}
