package mysql

import (
	"context"
	"fmt"

	"steward/internal/engine"
)

// writerLockWait is how long a writer may hold up the guard before its session
// is ended, in seconds.
const writerLockWait = 1

// guardTries bounds how often the guard is tried before the caller has to come back.
const guardTries = 5

// SetReadOnly implements engine.Driver. It is read_only, not super_read_only:
// we must still be able to change passwords, and nobody else has the privilege
// to write on. Uncommitted changes, running statements and locked tables hold
// the switch up, so their sessions are ended: first those with changes, which
// could never commit, then all. Repeated, it also lets old binary logs go. A
// replica stays read-only whatever the guard says.
func (d *Driver) SetReadOnly(ctx context.Context, n engine.Node, on bool) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	if !on && isReplica(n) {
		return nil
	}
	if !on {
		return s.exec(ctx, "SET GLOBAL read_only = OFF")
	}
	if err := s.guard(ctx, guardTries); err != nil {
		return err
	}
	return s.exec(ctx, "FLUSH LOCAL BINARY LOGS")
}

func (s *session) guard(ctx context.Context, tries int) error {
	if err := s.exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", writerLockWait)); err != nil {
		return err
	}
	victims := s.customers + withChanges
	for try := 1; ; try++ {
		if err := s.kill(ctx, victims); err != nil {
			return err
		}
		err := s.exec(ctx, "SET GLOBAL read_only = ON")
		if !is(err, errLockWaitTimeout) || try == tries {
			return err
		}
		victims = s.customers
	}
}

// Customers come over TCP and so have a port; their events run with neither,
// but under their own names. A name alone tells nothing: they may call a user
// of theirs steward. Replicas read the log and hold nothing up.
const (
	othersSessions  = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND NOT LIKE 'Binlog Dump%' AND "
	customersByHost = othersSessions + "(HOST LIKE '%:%' OR USER NOT IN ('steward', 'system user', 'event_scheduler'))"
	// Where we come over TCP ourselves, no customer can have one of our names, or of an operator's.
	customersByName = othersSessions + "USER NOT IN ('steward', 'root', 'repl', 'healthcheck', 'mariadb.sys', 'system user', 'event_scheduler')"
	withChanges     = " AND ID IN (SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0)"
)

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
