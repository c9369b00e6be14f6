package mysql

import (
	"context"
	"fmt"
	"strconv"

	"steward/internal/engine"
	"steward/internal/measure"
)

// tableColumns are sizes as the servers' statistics have them, which are told of tables that the server has to open for it.
const tableColumns = `SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(TABLE_ROWS, 0) FROM information_schema.TABLES `

// tablesQuery opens all tables. One that can't be opened in time is left out.
const tablesQuery = tableColumns + `WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema', 'steward')
ORDER BY COALESCE(DATA_LENGTH, 0) + COALESCE(INDEX_LENGTH, 0) DESC LIMIT %d`

// manyTables are more than are all opened to find the largest. MariaDB opens some thousands in a second; MySQL has their sizes in its dictionary.
const manyTables = 1000

// filesQuery has the tables with the largest files, which the server knows without opening any, and how many there are. What comes behind a # in
// a file's name is a partition's: in a table's name it is written in another way, as all is that file systems may not take.
const filesQuery = `SELECT CONVERT(CONVERT(BINARY SUBSTRING_INDEX(name, '/', 1) USING filename) USING utf8mb4), CONVERT(CONVERT(BINARY SUBSTRING_INDEX(name, '/', -1) USING filename) USING utf8mb4), COUNT(*) OVER ()
FROM (SELECT SUBSTRING_INDEX(NAME, '#', 1) AS name, SUM(FILE_SIZE) AS size FROM information_schema.INNODB_SYS_TABLESPACES
	WHERE NAME LIKE '%%/%%' AND NAME NOT LIKE 'mysql/%%' AND NAME NOT LIKE 'sys/%%' AND NAME NOT LIKE 'steward/%%' GROUP BY 1) files
ORDER BY size DESC LIMIT %d`

// largest are the rows of tableColumns of the largest tables.
func (s *session) largest(ctx context.Context, flavour engine.Flavour, most int) ([][]string, error) {
	if flavour != engine.FlavourMariaDB {
		return s.rows(ctx, fmt.Sprintf(tablesQuery, most))
	}
	// A file may have room that its table doesn't use: there are twice as many to choose from.
	candidates, err := s.rows(ctx, fmt.Sprintf(filesQuery, 2*most))
	if err != nil {
		return nil, err
	}
	if len(candidates) == 0 || float(candidates[0][2]) <= manyTables {
		return s.rows(ctx, fmt.Sprintf(tablesQuery, most))
	}
	var rows [][]string
	for _, table := range candidates {
		// By both names the server opens this table alone.
		found, err := s.rows(ctx, tableColumns+"WHERE TABLE_SCHEMA = "+literalText(table[0])+" AND TABLE_NAME = "+literalText(table[1]))
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

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
	rows, err := s.largest(ctx, n.Installation.Flavour, most)
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
