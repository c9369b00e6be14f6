package postgresql

import (
	"context"
	"fmt"
	"strconv"

	"steward/internal/engine"
	"steward/internal/measure"
)

// tablesIn is how many databases are looked into, the largest first: each takes a session of its own.
const tablesIn = 20

// tablesQuery takes the tables and indexes with the most pages, as they were counted last, and looks how large they are now.
const tablesQuery = `SELECT c.nspname, c.relname, c.index, pg_relation_size(c.oid) + CASE WHEN c.toast = 0 THEN 0 ELSE coalesce(pg_total_relation_size(c.toast), 0) END, c.rows
FROM (SELECT r.oid, n.nspname, coalesce(t.relname, r.relname) AS relname, CASE WHEN t.oid IS NULL THEN '' ELSE r.relname END AS index,
		r.reltoastrelid AS toast, CASE WHEN r.relkind = 'i' THEN 0 ELSE greatest(r.reltuples, 0)::bigint END AS rows
	FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace
	LEFT JOIN pg_index i ON i.indexrelid = r.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
	LEFT JOIN pg_class o ON o.oid = r.reltoastrelid
	WHERE r.relkind IN ('r', 'i', 'm') AND r.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema', 'steward')
	ORDER BY r.relpages + coalesce(o.relpages, 0) DESC, r.oid DESC LIMIT %d) c`

// Tables implements engine.Metered.
func (Driver) Tables(ctx context.Context, n engine.Node, most int) ([]measure.Table, error) {
	databases, err := ask(ctx, n, fmt.Sprintf(
		"SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY pg_database_size(oid) DESC LIMIT %d", tablesIn))
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	var all []measure.Table
	for _, row := range databases {
		found, err := tablesOf(ctx, n, row[0], most)
		if err != nil {
			return nil, fmt.Errorf("look at the tables of a database: %w", err)
		}
		all = append(all, found...)
	}
	return measure.Largest(all, most), nil
}

func tablesOf(ctx context.Context, n engine.Node, database string, most int) ([]measure.Table, error) {
	parameters := ownParameters()
	parameters["lock_timeout"], parameters["statement_timeout"] = "1s", meterTimeout
	conn, err := asAdminIn(ctx, n, database, parameters)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// A table that somebody rewrites, or that has just gone, is left out rather than waited for.
	rows, err := query(ctx, conn, fmt.Sprintf(tablesQuery, most))
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
