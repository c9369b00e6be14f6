package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/measure"
)

// tablesIn is how many databases are looked into, the largest first: each takes a session of its own.
const tablesIn = 20

// tablesQuery takes the tables and indexes with the most pages, as they were counted last, and looks how large they are now. To look at one that somebody holds
// for themselves is to wait for them: of such, and of all when the last argument is true, the count is told.
const tablesQuery = `WITH held AS (
	SELECT relation FROM pg_lock_status() WHERE mode = 'AccessExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
SELECT c.nspname, c.relname, c.index, CASE WHEN c.held THEN c.pages * current_setting('block_size')::bigint
	ELSE pg_relation_size(c.oid) + CASE WHEN c.toast = 0 THEN 0 ELSE coalesce(pg_total_relation_size(c.toast), 0) END END, c.rows
FROM (SELECT r.oid, r.relpages::bigint + coalesce(o.relpages, 0) AS pages, %[2]t OR r.oid IN (SELECT relation FROM held) OR r.reltoastrelid IN (SELECT relation FROM held) AS held, n.nspname, coalesce(t.relname, r.relname) AS relname, CASE WHEN t.oid IS NULL THEN '' ELSE r.relname END AS index,
		r.reltoastrelid AS toast, CASE WHEN r.relkind = 'i' THEN 0 ELSE greatest(r.reltuples, 0)::bigint END AS rows
	FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace
	LEFT JOIN pg_index i ON i.indexrelid = r.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
	LEFT JOIN pg_class o ON o.oid = r.reltoastrelid
	WHERE r.relkind IN ('r', 'i', 'm') AND r.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema', 'steward')
	ORDER BY r.relpages + coalesce(o.relpages, 0) DESC, r.oid DESC LIMIT %[1]d) c`

// lockNotAvailable is the server's code for a lock that was waited for in vain.
const lockNotAvailable = "55P03"

// Tables implements engine.Metered.
func (Driver) Tables(ctx context.Context, n engine.Node, most int) ([]measure.Table, error) {
	databases, err := ask(ctx, n, fmt.Sprintf(
		"SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY pg_database_size(oid) DESC LIMIT %d", tablesIn))
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	var all []measure.Table
	var failed error
	for _, row := range databases {
		found, err := tablesOf(ctx, n, row[0], most)
		if err != nil { // it may have been dropped meanwhile, and hides no other
			failed = fmt.Errorf("look at the tables of a database: %w", err)
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, failed
	}
	return measure.Largest(all, most), nil
}

func tablesOf(ctx context.Context, n engine.Node, database string, most int) ([]measure.Table, error) {
	parameters := ownParameters()
	parameters["lock_timeout"], parameters["statement_timeout"] = "1s", meterTimeout
	parameters["client_encoding"] = "UTF8" // else names come as the database has them
	conn, err := asAdminIn(ctx, n, database, parameters)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := query(ctx, conn, fmt.Sprintf(tablesQuery, most, false))
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == lockNotAvailable { // held since the look at who holds what
		rows, err = query(ctx, conn, fmt.Sprintf(tablesQuery, most, true))
	}
	if err != nil {
		return nil, err
	}
	all := make([]measure.Table, 0, len(rows))
	for _, row := range rows {
		size, err := strconv.ParseInt(row[3], 10, 64)
		if err != nil {
			continue
		}
		count, _ := strconv.ParseInt(row[4], 10, 64) // none is 0
		all = append(all, measure.Table{Database: database, Schema: row[0], Table: row[1], Index: row[2], Bytes: size, Rows: count})
	}
	return all, nil
}
