package postgresql

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
)

// wayIn are the statements that let a customer in again who locked themselves
// out by what an owner may do to a database, or a role to itself.
func wayIn(ctx context.Context, conn *pgconn.PgConn) ([]string, error) {
	rows, err := query(ctx, conn, closedDatabases)
	if err != nil {
		return nil, fmt.Errorf("look for closed databases: %w", err)
	}
	statements := make([]string, 0, len(rows))
	for _, row := range rows {
		statements = append(statements, row[0])
	}
	rows, err = query(ctx, conn, givenSettings)
	if err != nil {
		return nil, fmt.Errorf("look for customers' settings: %w", err)
	}
	for _, row := range rows {
		if name, value, _ := strings.Cut(row[1], "="); locksOut(name, value) {
			statements = append(statements, row[0]+" RESET "+name)
		}
	}
	return statements, nil
}

// closedDatabases are statements that open customers' databases. One whose limit
// is -2 was being dropped when the server died, and can't be opened.
const closedDatabases = `
	SELECT format('ALTER DATABASE %I ALLOW_CONNECTIONS true', datname) FROM pg_database
		WHERE datdba <> 'steward'::regrole AND NOT datallowconn
	UNION ALL SELECT format('ALTER DATABASE %I CONNECTION LIMIT -1', datname) FROM pg_database
		WHERE datdba <> 'steward'::regrole AND datconnlimit = 0
	UNION ALL SELECT format('GRANT CONNECT ON DATABASE %I TO dbadmin', datname) FROM pg_database
		WHERE datdba = 'dbadmin'::regrole AND NOT has_database_privilege('dbadmin', oid, 'CONNECT')`

// givenSettings are those that hold for dbadmin, by the statement that changes
// them.
const givenSettings = `
	SELECT CASE WHEN setrole = 0 THEN format('ALTER DATABASE %I', datname)
			WHEN setdatabase = 0 THEN 'ALTER ROLE dbadmin'
			ELSE format('ALTER ROLE dbadmin IN DATABASE %I', datname) END, given
		FROM pg_db_role_setting LEFT JOIN pg_database d ON d.oid = setdatabase, unnest(setconfig) AS given
		WHERE setrole IN (0, 'dbadmin'::regrole) AND (setrole <> 0 OR setdatabase <> 0) AND datdba IS DISTINCT FROM 'steward'::regrole`

// leastTimeout is one that a person can still work under.
const leastTimeout = time.Second

// locksOut reports whether nobody can work in a session with the setting: it
// can't begin, or ends before the first statement does.
func locksOut(name, value string) bool {
	switch name {
	case "local_preload_libraries":
		return true
	case "statement_timeout", "transaction_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout", "tcp_user_timeout":
		t, err := parseTimeout(value)
		return err != nil || t > 0 && t < leastTimeout
	}
	return false
}

var timeout = regexp.MustCompile(`^\s*([0-9.]+)\s*(us|ms|s|min|h|d)?\s*$`)

// parseTimeout reads a time as a setting has it: in milliseconds, if it doesn't say.
func parseTimeout(text string) (time.Duration, error) {
	units := map[string]time.Duration{
		"us": time.Microsecond, "": time.Millisecond, "ms": time.Millisecond, "s": time.Second,
		"min": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}
	m := timeout.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is no time", text)
	}
	number, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no time: %w", text, err)
	}
	return time.Duration(number * float64(units[m[2]])), nil
}

// ensureDatabase makes defaultdb when there is no database left for dbadmin to
// log in to.
func ensureDatabase(ctx context.Context, n engine.Node, conn *pgconn.PgConn) error {
	rows, err := query(ctx, conn, `SELECT count(*) FROM pg_database WHERE datallowconn AND datconnlimit <> -2
		AND datdba <> 'steward'::regrole AND has_database_privilege('dbadmin', oid, 'CONNECT')`)
	if err != nil {
		return fmt.Errorf("look for a database: %w", err)
	}
	if rows[0][0] != "0" {
		return nil
	}
	major, err := majorOf(n.Installation)
	if err != nil {
		return err
	}
	for _, statement := range createFirstDatabase(major) {
		if _, err := query(ctx, conn, statement); err != nil {
			return fmt.Errorf("make database %s: %w", firstDatabase, err)
		}
	}
	return nil
}
