package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/statement"
)

// statementRead is how much of a statement is read of a session: more of it isn't shown.
const statementRead = 8 << 10

// inspected are customers' sessions, but not replication's while it begins.
func (s *session) inspected() string { return s.customers + " AND USER <> '" + replicaUser + "'" }

// sessionsQuery has the session's own time where the server has it to the millisecond. A session that
// does nothing is of interest while it keeps a transaction open.
const sessionsQuery = `SELECT p.ID, p.USER, p.HOST, p.DB, p.COMMAND, %s, p.STATE, LEFT(p.INFO, %d), CHAR_LENGTH(p.INFO) > %[2]d, p.COMMAND = 'Sleep',
	TIMESTAMPDIFF(MICROSECOND, t.trx_started, SYSDATE(6)), t.trx_id IS NOT NULL
	FROM information_schema.PROCESSLIST p LEFT JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.ID
	WHERE p.ID IN (%s) AND (p.COMMAND <> 'Sleep' OR t.trx_id IS NOT NULL)
	ORDER BY p.TIME DESC LIMIT %d`

// idleQuery counts the sessions that the other leaves out.
const idleQuery = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Sleep' AND ID IN (%s" +
	") AND ID NOT IN (SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX)"

// startedQuery is when the server was started, in seconds since 1970, which may be off by one: ids of sessions
// begin anew with it.
const startedQuery = "SELECT UNIX_TIMESTAMP() - VARIABLE_VALUE FROM %s WHERE VARIABLE_NAME = 'UPTIME'"

// startedSlack is how far two answers to startedQuery of one start may be apart.
const startedSlack = 2

// Sessions implements engine.Inspector.
func (d *Driver) Sessions(ctx context.Context, n engine.Node) ([]insight.Session, int, error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return nil, 0, fmt.Errorf("look at sessions: %w", err)
	}
	defer s.close()
	started, err := s.started(ctx, n)
	if err != nil {
		return nil, 0, fmt.Errorf("look at sessions: %w", err)
	}
	timed := "p.TIME * 1000"
	if n.Installation.Flavour == engine.FlavourMariaDB {
		timed = "p.TIME_MS"
	}
	rows, err := s.rows(ctx, fmt.Sprintf(sessionsQuery, timed, statementRead, s.inspected(), insight.MostSessions))
	if err != nil {
		return nil, 0, fmt.Errorf("look at sessions: %w", err)
	}
	text, err := s.text(ctx, fmt.Sprintf(idleQuery, s.inspected()))
	if err != nil {
		return nil, 0, fmt.Errorf("count sessions: %w", err)
	}
	idle, err := strconv.Atoi(text)
	if err != nil {
		return nil, 0, fmt.Errorf("count sessions: %w", err)
	}
	blocked, err := s.blocked(ctx, n)
	if err != nil {
		return nil, 0, fmt.Errorf("look who waits for whom: %w", err)
	}
	return sessionsIn(n, rows, started, blocked), idle, nil
}

// sessionsIn reads the rows of sessionsQuery.
func sessionsIn(n engine.Node, rows [][]string, started int64, blocked map[int64][]int64) []insight.Session {
	list, shown := []insight.Session{}, map[int64]bool{}
	for _, row := range rows {
		pid, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil || shown[pid] {
			continue
		}
		shown[pid] = true
		one := insight.Session{
			SessionID: insight.SessionID{Node: n.Ordinal, Pid: pid, Started: started}, User: insight.Name(row[1]), Database: insight.Name(row[3]),
			Client: clientOf(row[2]), State: insight.Active, Age: milliseconds(row[5]), Wait: insight.Name(row[6]),
			Text: statement.Normalize(statement.MySQL, row[7], row[8] == "1"),
		}
		if row[9] == "1" {
			one.State, one.Wait = insight.IdleInTransaction, ""
		}
		if row[11] == "1" {
			micros, _ := strconv.ParseInt(row[10], 10, 64) // 0 where the server doesn't know
			one.Transaction = new(max(0, time.Duration(micros)*time.Microsecond))
		}
		list = append(list, one)
	}
	for i, one := range list {
		for _, by := range blocked[one.Pid] {
			if shown[by] {
				list[i].BlockedBy = append(list[i].BlockedBy, by)
			}
		}
	}
	return list
}

func milliseconds(text string) time.Duration {
	ms, _ := strconv.ParseFloat(text, 64) // nothing when it can't be told
	return max(0, time.Duration(ms*float64(time.Millisecond)))
}

// clientOf is the address of address:port.
func clientOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		return insight.Name(host[:i])
	}
	return insight.Name(host)
}

// started is when the server was started.
func (s *session) started(ctx context.Context, n engine.Node) (int64, error) {
	table := "information_schema.GLOBAL_STATUS"
	if n.Installation.Flavour != engine.FlavourMariaDB {
		table = "performance_schema.global_status"
	}
	text, err := s.text(ctx, fmt.Sprintf(startedQuery, table))
	if err != nil {
		return 0, err
	}
	at, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("when the server was started: %w", err)
	}
	return int64(at), nil
}

// blocked returns which sessions wait for which others. MySQL has its lock waits in performance_schema, which is on only where statements are counted: see counts.
func (s *session) blocked(ctx context.Context, n engine.Node) (map[int64][]int64, error) {
	query := `SELECT DISTINCT r.trx_mysql_thread_id, b.trx_mysql_thread_id FROM information_schema.INNODB_LOCK_WAITS w
		JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id`
	if n.Installation.Flavour != engine.FlavourMariaDB {
		query = `SELECT DISTINCT r.trx_mysql_thread_id, b.trx_mysql_thread_id FROM performance_schema.data_lock_waits w
			JOIN information_schema.INNODB_TRX r ON r.trx_id = w.REQUESTING_ENGINE_TRANSACTION_ID
			JOIN information_schema.INNODB_TRX b ON b.trx_id = w.BLOCKING_ENGINE_TRANSACTION_ID`
	}
	rows, err := s.rows(ctx, query)
	if err != nil {
		return nil, err
	}
	all := map[int64][]int64{}
	for _, row := range rows {
		waits, err1 := strconv.ParseInt(row[0], 10, 64)
		by, err2 := strconv.ParseInt(row[1], 10, 64)
		if err1 == nil && err2 == nil {
			all[waits] = append(all[waits], by)
		}
	}
	return all, nil
}

// EndSession implements engine.Inspector.
func (d *Driver) EndSession(ctx context.Context, n engine.Node, id insight.SessionID, how insight.EndMode) (bool, error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return false, fmt.Errorf("%s session: %w", how, err)
	}
	defer s.close()
	started, err := s.started(ctx, n)
	if err != nil {
		return false, fmt.Errorf("%s session: %w", how, err)
	}
	if started < id.Started-startedSlack || started > id.Started+startedSlack {
		return false, nil // the server has been started again since
	}
	found, err := s.rows(ctx, s.inspected()+fmt.Sprintf(" AND ID = %d", id.Pid))
	if err != nil || len(found) == 0 {
		return false, err
	}
	kill := "KILL QUERY "
	if how == insight.End {
		kill = "KILL CONNECTION "
	}
	if err := s.exec(ctx, kill+strconv.FormatInt(id.Pid, 10)); is(err, errNoSuchThread) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("%s session: %w", how, err)
	}
	return true, nil
}
