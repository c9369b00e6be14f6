package mysql

import (
	"context"
	"fmt"

	"steward/internal/engine"
)

// writerLockWait is how long a writer may hold up the guard before its session
// is ended, in seconds.
const writerLockWait = 1

// SetReadOnly is part of engine.Driver. It is read_only, not super_read_only:
// we must still be able to change passwords, and nobody else has the privilege
// to write on. Statements that run and tables that are locked hold the switch
// up, so their sessions are ended; so are those with uncommitted changes, which
// could never commit. Turned on again, it also lets old binary logs go.
func (d *Driver) SetReadOnly(ctx context.Context, n engine.Node, on bool) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	if !on {
		return s.exec(ctx, "SET GLOBAL read_only = OFF")
	}
	if err := s.exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", writerLockWait)); err != nil {
		return err
	}
	err = s.exec(ctx, "SET GLOBAL read_only = ON")
	for tries := 0; is(err, errLockWaitTimeout) && tries < 5; tries++ {
		if err := s.kill(ctx, allSessions); err != nil {
			return err
		}
		err = s.exec(ctx, "SET GLOBAL read_only = ON")
	}
	if err != nil {
		return err
	}
	if err := s.kill(ctx, dialectOf(n.Installation.Flavour).openTransactions); err != nil {
		return err
	}
	return s.exec(ctx, "FLUSH LOCAL BINARY LOGS")
}

const allSessions = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() " +
	"AND USER NOT IN ('steward', 'system user', 'event_scheduler', 'unauthenticated user')"

// kill ends the sessions whose ids the query answers.
func (s *session) kill(ctx context.Context, query string) error {
	ids, err := s.rows(ctx, query)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.exec(ctx, "KILL "+id[0]); err != nil && !is(err, errNoSuchThread) {
			return err
		}
	}
	return nil
}
