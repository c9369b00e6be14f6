package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
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

// request is one statement that answers with a boolean.
type request struct {
	sql    string
	key    int64
	answer chan answer
}

type answer struct {
	ok  bool
	err error
}

const (
	tryLockSQL = "SELECT pg_try_advisory_lock($1)"
	unlockSQL  = "SELECT pg_advisory_unlock($1)"
	pingSQL    = "SELECT $1::bigint = 0"
)

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
	return s.ask(tryLockSQL, key)
}

// unlock lets go. When that fails the connection ends, and the lock with it.
func (s *session) unlock(key int64) {
	_, _ = s.ask(unlockSQL, key)
}

// ask doesn't take a context: to give up on a statement would cost the
// connection, and everybody's locks. The session's own time limit bounds it.
func (s *session) ask(sql string, key int64) (bool, error) {
	r := request{sql, key, make(chan answer, 1)}
	select {
	case s.requests <- r:
	case <-s.alive.Done():
		return false, errSessionLost
	}
	a := <-r.answer
	return a.ok, a.err
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
	a.err = s.conn.QueryRow(ctx, r.sql, r.key).Scan(&a.ok)
	switch {
	case a.err != nil || !a.ok:
	case r.sql == tryLockSQL:
		s.locks++
	case r.sql == unlockSQL:
		s.locks--
	}
	return a
}
