package postgresql

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

// customers' sessions: backends that serve clients, as anybody but us. Those that replicate serve none.
const customersSessions = "backend_type = 'client backend' AND usename NOT IN " + ourRoles

// ourRoles are those that no customer can be, or make: our own, and with an operator of Kubernetes that one's.
const ourRoles = "(SELECT rolname FROM pg_catalog.pg_roles WHERE rolsuper OR rolreplication)"

// sessionsQuery doesn't ask who blocks whom of those that don't wait for a lock: to tell that, the server
// stops its lock manager for a moment.
var sessionsQuery = `SELECT pid, (extract(epoch FROM backend_start) * 1e6)::bigint, usename, datname, coalesce(host(client_addr), ''), state,
	coalesce(extract(epoch FROM clock_timestamp() - CASE state WHEN 'active' THEN query_start ELSE state_change END), 0),
	coalesce(extract(epoch FROM clock_timestamp() - xact_start)::text, ''),
	CASE WHEN state = 'active' AND wait_event_type IS NOT NULL THEN wait_event_type || ': ' || wait_event ELSE '' END,
	query, octet_length(query) >= pg_size_bytes(current_setting('track_activity_query_size')) - 4,
	CASE WHEN wait_event_type = 'Lock' THEN array_to_string(pg_blocking_pids(pid), ',') ELSE '' END
	FROM pg_stat_activity WHERE ` + customersSessions + ` AND state <> 'idle' AND state <> 'disabled'
	ORDER BY coalesce(xact_start, query_start) LIMIT ` + strconv.Itoa(insight.MostSessions)

// Sessions implements engine.Inspector.
func (Driver) Sessions(ctx context.Context, n engine.Node) ([]insight.Session, int, error) {
	conn, err := asOurs(ctx, n)
	if err != nil {
		return nil, 0, fmt.Errorf("look at sessions: %w", err)
	}
	defer closeSoon(ctx, conn)
	rows, err := query(ctx, conn, sessionsQuery)
	if err != nil {
		return nil, 0, fmt.Errorf("look at sessions: %w", err)
	}
	counted, err := query(ctx, conn, "SELECT count(*) FROM pg_stat_activity WHERE "+customersSessions+" AND state = 'idle'")
	if err != nil {
		return nil, 0, fmt.Errorf("count sessions: %w", err)
	}
	idle, err := strconv.Atoi(counted[0][0])
	if err != nil {
		return nil, 0, fmt.Errorf("count sessions: %w", err)
	}
	list := make([]insight.Session, len(rows))
	shown := map[int64]bool{}
	for i, row := range rows {
		if list[i], err = sessionOf(n, row); err != nil {
			return nil, 0, fmt.Errorf("look at sessions: %w", err)
		}
		shown[list[i].Pid] = true
	}
	for i, row := range rows {
		list[i].BlockedBy = pids(row[11], shown)
	}
	return list, idle, nil
}

// sessionOf reads a row of sessionsQuery.
func sessionOf(n engine.Node, row []string) (insight.Session, error) {
	s := insight.Session{
		SessionID: insight.SessionID{Node: n.Ordinal}, User: insight.Name(row[2]), Database: insight.Name(row[3]), Client: row[4],
		State: insight.Active, Wait: row[8], Text: statement.Normalize(statement.PostgreSQL, row[9], row[10] == "t"),
	}
	switch row[5] {
	case "idle in transaction":
		s.State = insight.IdleInTransaction
	case "idle in transaction (aborted)":
		s.State = insight.Aborted
	}
	var err error
	if s.Pid, err = strconv.ParseInt(row[0], 10, 64); err != nil {
		return s, err
	}
	if s.Started, err = strconv.ParseInt(row[1], 10, 64); err != nil {
		return s, err
	}
	if s.Age, err = secondsOf(row[6]); err != nil {
		return s, err
	}
	if row[7] != "" {
		open, err := secondsOf(row[7])
		if err != nil {
			return s, err
		}
		s.Transaction = &open
	}
	return s, nil
}

func secondsOf(text string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	return max(0, time.Duration(seconds*float64(time.Second))), err
}

// pids are those of a list that are shown, each once.
func pids(text string, shown map[int64]bool) []int64 {
	var all []int64
	seen := map[int64]bool{}
	for one := range strings.SplitSeq(text, ",") {
		if pid, err := strconv.ParseInt(one, 10, 64); err == nil && shown[pid] && !seen[pid] {
			seen[pid] = true
			all = append(all, pid)
		}
	}
	return all
}

// EndSession implements engine.Inspector.
func (Driver) EndSession(ctx context.Context, n engine.Node, id insight.SessionID, how insight.EndMode) (bool, error) {
	call := "pg_cancel_backend"
	if how == insight.End {
		call = "pg_terminate_backend"
	}
	conn, err := asOurs(ctx, n)
	if err != nil {
		return false, fmt.Errorf("%s session: %w", how, err)
	}
	defer closeSoon(ctx, conn)
	rows, err := query(ctx, conn, fmt.Sprintf("SELECT %s(pid) FROM pg_stat_activity WHERE %s AND pid = %d AND (extract(epoch FROM backend_start) * 1e6)::bigint = %d",
		call, customersSessions, id.Pid, id.Started))
	if err != nil {
		return false, fmt.Errorf("%s session: %w", how, err)
	}
	return len(rows) == 1 && rows[0][0] == "t", nil
}
