package postgresql

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/statement"
)

// statementsLibrary is PostgreSQL's module that counts what statements cost.
const statementsLibrary = "pg_stat_statements"

// statementsCounted is how many statements are told apart; about 400 bytes of shared memory each.
const statementsCounted = 2000

// statementSettings have the server count statements. Those that aren't queries stay out: a CREATE USER
// has a password in it.
func statementSettings(n engine.Node) []setting {
	if !n.Installation.Loads(statementsLibrary) {
		return nil
	}
	return []setting{
		{name: "pg_stat_statements.max", value: strconv.Itoa(statementsCounted)},
		{name: "pg_stat_statements.track", value: "top"},
		{name: "pg_stat_statements.track_utility", value: "off"},
		{name: "pg_stat_statements.save", value: "on"},
	}
}

// statementsSchema holds the module's functions, in our own database: customers' have none of it.
const statementsSchema = "steward_statements"

// statementRead is how much of a statement is read: more of it isn't shown.
const statementRead = 8 << 10

// orders are what statements can be ordered by.
var orders = map[insight.StatementOrder]string{
	insight.ByTotalTime: "total_exec_time", insight.ByCalls: "calls", insight.ByMean: "mean_exec_time", insight.ByRows: "rows",
}

// countedStatements are customers': our own account's are left out.
const countedStatements = "FROM " + statementsSchema + ".pg_stat_statements(%t) AS s WHERE s.userid <> (SELECT oid FROM pg_authid WHERE rolname = '" + adminRole + "')"

// Statements implements engine.Inspector.
func (Driver) Statements(ctx context.Context, n engine.Node, order insight.StatementOrder, first, most int) (insight.Statements, error) {
	var found insight.Statements
	conn, missing, err := withStatements(ctx, n)
	if err != nil || missing != "" {
		return insight.Statements{Missing: missing}, err
	}
	defer closeSoon(ctx, conn)
	rows, err := query(ctx, conn, fmt.Sprintf(`SELECT s.queryid, coalesce(r.rolname, ''), coalesce(d.datname, ''), s.calls, s.total_exec_time, s.mean_exec_time, s.rows,
		s.total_exec_time / greatest(sum(s.total_exec_time) OVER (), 0.000001), count(*) OVER (), left(s.query, %d), length(s.query) > %[1]d
		FROM (SELECT s.* `+countedStatements+`) AS s LEFT JOIN pg_roles r ON r.oid = s.userid LEFT JOIN pg_database d ON d.oid = s.dbid
		ORDER BY s.%s DESC, s.queryid, s.userid, s.dbid LIMIT %d OFFSET %d`, statementRead, true, orders[order], most, first))
	if err != nil {
		return found, fmt.Errorf("look at statements: %w", err)
	}
	for _, row := range rows {
		one := insight.Statement{
			ID: row[0], User: insight.Name(row[1]), Database: insight.Name(row[2]), Text: statement.Normalize(statement.PostgreSQL, row[9], row[10] == "t"),
		}
		figures := make([]float64, 6)
		for i := range figures {
			if figures[i], err = strconv.ParseFloat(row[3+i], 64); err != nil {
				return found, fmt.Errorf("look at statements: %w", err)
			}
		}
		one.Calls, one.Rows, one.Share = int64(figures[0]), int64(figures[3]), figures[4]
		one.Total, one.Mean = milliseconds(figures[1]), milliseconds(figures[2])
		found.Count = int(figures[5])
		found.List = append(found.List, one)
	}
	if len(rows) == 0 && first > 0 {
		counted, err := query(ctx, conn, "SELECT count(*) "+fmt.Sprintf(countedStatements, false))
		if err != nil {
			return found, fmt.Errorf("count statements: %w", err)
		}
		if found.Count, err = strconv.Atoi(counted[0][0]); err != nil {
			return found, fmt.Errorf("count statements: %w", err)
		}
	}
	return found, nil
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// withStatements connects to where statements are counted, making what that needs. missing says why
// they aren't, for customers.
func withStatements(ctx context.Context, n engine.Node) (conn *pgconn.PgConn, missing string, err error) {
	if !n.Installation.Loads(statementsLibrary) {
		return nil, "This build of PostgreSQL doesn't count statements.", nil
	}
	conn, err = asAdmin(ctx, n, n.AdminPassword)
	if err != nil {
		return nil, "", fmt.Errorf("look at statements: %w", err)
	}
	rows, err := query(ctx, conn, "SELECT '"+statementsLibrary+"' <> ALL (string_to_array(current_setting('shared_preload_libraries'), ',')), NOT EXISTS (SELECT FROM pg_extension WHERE extname = '"+statementsLibrary+"')")
	if err == nil && rows[0][0] == "t" {
		missing = "The server counts statements from its next restart on: in the maintenance window, or by a patch."
	} else if err == nil && rows[0][1] == "t" {
		_, err = query(ctx, conn, "CREATE SCHEMA IF NOT EXISTS "+statementsSchema+"; CREATE EXTENSION IF NOT EXISTS "+statementsLibrary+" SCHEMA "+statementsSchema)
	}
	if err != nil || missing != "" {
		closeSoon(ctx, conn)
		conn = nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("look at statements: %w", err)
	}
	return conn, missing, nil
}

// ResetStatements implements engine.Inspector.
func (Driver) ResetStatements(ctx context.Context, n engine.Node) (missing string, err error) {
	conn, missing, err := withStatements(ctx, n)
	if err != nil || missing != "" {
		return missing, err
	}
	defer closeSoon(ctx, conn)
	if _, err := query(ctx, conn, "SELECT "+statementsSchema+".pg_stat_statements_reset()"); err != nil {
		return "", fmt.Errorf("reset statements: %w", err)
	}
	return "", nil
}

// StatementText implements engine.Inspector.
func (Driver) StatementText(ctx context.Context, n engine.Node, id string) (text, database string, err error) {
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return "", "", nil
	}
	conn, missing, err := withStatements(ctx, n)
	if err != nil || missing != "" {
		return "", "", err
	}
	defer closeSoon(ctx, conn)
	rows, err := query(ctx, conn, fmt.Sprintf(`SELECT s.query, d.datname FROM (SELECT s.* `+countedStatements+`) AS s JOIN pg_database d ON d.oid = s.dbid
		WHERE s.queryid = %d AND length(s.query) <= %d ORDER BY s.calls DESC LIMIT 1`, true, number, insight.MostPlanned))
	if err != nil || len(rows) == 0 {
		return "", "", err
	}
	return rows[0][0], rows[0][1], nil
}
