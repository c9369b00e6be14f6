package mysql

import (
	"context"
	"fmt"
	"strconv"

	"steward/internal/engine"
	"steward/internal/measure"
)

// tablesQuery has sizes as the servers' statistics have them. A table that can't be opened in time is left out.
const tablesQuery = `SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(TABLE_ROWS, 0)
FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema', 'steward')
ORDER BY COALESCE(DATA_LENGTH, 0) + COALESCE(INDEX_LENGTH, 0) DESC LIMIT %d`

// allIndexes stands for a table's indexes together, but for the primary key, which the rows lie in.
const allIndexes = "*"

// Tables implements engine.Metered.
func (d *Driver) Tables(ctx context.Context, n engine.Node, most int) ([]measure.Table, error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("look at the tables: %w", err)
	}
	defer s.close()
	limit := "SET SESSION max_execution_time = 5000"
	if n.Installation.Flavour == engine.FlavourMariaDB {
		limit = "SET SESSION max_statement_time = 5"
	}
	if err := s.exec(ctx, limit, "SET SESSION lock_wait_timeout = 1"); err != nil {
		return nil, fmt.Errorf("look at the tables: %w", err)
	}
	rows, err := s.rows(ctx, fmt.Sprintf(tablesQuery, most))
	if err != nil {
		return nil, fmt.Errorf("look at the tables: %w", err)
	}
	var all []measure.Table
	for _, row := range rows {
		t := measure.Table{Database: row[0], Table: row[1]}
		data, errData := strconv.ParseInt(row[2], 10, 64)
		index, errIndex := strconv.ParseInt(row[3], 10, 64)
		count, errCount := strconv.ParseInt(row[4], 10, 64)
		if errData != nil || errIndex != nil || errCount != nil {
			continue
		}
		t.Bytes, t.Rows = data, count
		all = append(all, t)
		if index > 0 {
			t.Bytes, t.Rows, t.Index = index, 0, allIndexes
			all = append(all, t)
		}
	}
	return measure.Largest(all, most), nil
}
