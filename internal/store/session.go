package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// session is a connection that advisory locks are held on. One goroutine owns
// it and listens whenever it has nothing to ask, so that a connection that dies
// is noticed at once.
type session struct {
	conn     *pgx.Conn
	requests chan request
	// alive ends with the connection.
	alive context.Context
	close context.CancelFunc
	locks int
}

// request is one statement that answers with a number.
type request struct {
	sql    string
	key    int64
	answer chan answer
}

type answer struct {
	value int64
	err   error
}

const (
	tryLockSQL = "SELECT pg_try_advisory_lock($1)::int::bigint"
	unlockSQL  = "SELECT pg_advisory_unlock($1)::int::bigint"
	pingSQL    = "SELECT $1::bigint"
	// tokenSQL waits for what an earlier holder of the lease is writing.
	tokenSQL = `INSERT INTO leases (key, token) VALUES ($1, nextval('lease_tokens'))
		ON CONFLICT (key) DO UPDATE SET token = excluded.token RETURNING token`
)

// lockNotAvailable is PostgreSQL's code for a lock that was waited for in vain.
const lockNotAvailable = "55P03"

var errSessionLost = errors.New("the connection that holds the leases was lost")

func openSession(ctx context.Context, config *pgx.ConnConfig) (*session, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, requests: make(chan request)}
	s.alive, s.close = context.WithCancel(context.Background())
	go s.run()
	return s, nil
}

func (s *session) tryLock(ctx context.Context, key int64) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	locked, err := s.ask(tryLockSQL, key)
	return locked == 1, err
}

// token is a new one for a lease that is held; 0 when an earlier holder goes on
// writing for too long. This connection draws it, since it can only as long as it
// holds the lease.
func (s *session) token(key int64) (int64, error) { return s.ask(tokenSQL, key) }

// unlock lets go. When that fails the connection ends, and the lock with it.
func (s *session) unlock(key int64) {
	_, _ = s.ask(unlockSQL, key)
}

// ask doesn't take a context: to give up on a statement would cost the
// connection, and everybody's locks. The session's own time limit bounds it.
func (s *session) ask(sql string, key int64) (int64, error) {
	r := request{sql, key, make(chan answer, 1)}
	select {
	case s.requests <- r:
	case <-s.alive.Done():
		return 0, errSessionLost
	}
	a := <-r.answer
	return a.value, a.err
}

// run serves requests until the connection is lost or closed.
func (s *session) run() {
	defer func() {
		s.close()
		ctx, cancel := context.WithTimeout(context.Background(), sessionTimeout)
		defer cancel()
		_ = s.conn.Close(ctx) // whatever its state, it isn't used any more
	}()
	for {
		r, ok := s.await()
		if !ok {
			return
		}
		a := s.carryOut(r)
		r.answer <- a
		if a.err != nil {
			return
		}
	}
}

// await listens on the connection until there is a request; false when the
// connection is lost or closed.
func (s *session) await() (request, bool) {
	ctx, interrupt := context.WithCancel(s.alive)
	defer interrupt()
	ended := make(chan error, 1)
	go func() { ended <- s.conn.PgConn().WaitForNotification(ctx) }()
	var ping <-chan time.Time
	if s.locks > 0 {
		ping = time.After(sessionPing)
	}
	var r request
	select {
	case r = <-s.requests:
	case <-ping:
		r = request{sql: pingSQL, answer: make(chan answer, 1)}
	case <-ended: //nolint:errcheck // whatever the error: nobody notifies this connection, so it's lost, or closed by us
		return r, false
	}
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) || s.conn.IsClosed() {
		r.answer <- answer{err: errSessionLost}
		return r, false
	}
	return r, true
}

func (s *session) carryOut(r request) answer {
	ctx, cancel := context.WithTimeout(context.Background(), sessionTimeout)
	defer cancel()
	var a answer
	a.err = s.conn.QueryRow(ctx, r.sql, r.key).Scan(&a.value)
	if pg, ok := errors.AsType[*pgconn.PgError](a.err); ok && pg.Code == lockNotAvailable {
		return answer{}
	}
	switch {
	case a.err != nil || a.value == 0:
	case r.sql == tryLockSQL:
		s.locks++
	case r.sql == unlockSQL:
		s.locks--
	}
	return a
}
