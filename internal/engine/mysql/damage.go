package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"steward/internal/engine"
)

// mostDamage is how many findings are reported; there may be one per table.
const mostDamage = 20

// Check implements engine.Archiver. A page with a wrong checksum makes MySQL
// itself end, which is an answer as well.
func (d *Driver) Check(ctx context.Context, n engine.Node, within func(bytes int64) time.Duration) error {
	c := &tablesCheck{d: d, n: n, within: within}
	if err := c.open(ctx); err != nil {
		return err
	}
	defer func() { c.session.close() }()
	tables, err := c.tables(ctx)
	if err != nil {
		return fmt.Errorf("check: list tables: %w", err)
	}
	for _, t := range tables {
		if err := c.look(ctx, t); err != nil {
			return errors.Join(fmt.Errorf("check %s: %w", t.name, err), damaged(c.found))
		}
		if len(c.found) >= mostDamage {
			return damaged(append(c.found, "and maybe more"))
		}
		if len(c.unchecked) >= engine.MostUnchecked {
			break
		}
	}
	if len(c.found) == 0 && len(c.unchecked) > 0 {
		return fmt.Errorf("check: %w: %s", engine.ErrUnchecked, strings.Join(c.unchecked, ", "))
	}
	return damaged(c.found)
}

func damaged(found []string) error {
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("check: %s", strings.Join(found, "; "))
}

// tablesCheck looks through all tables of a server.
type tablesCheck struct {
	d       *Driver
	n       engine.Node
	within  func(bytes int64) time.Duration
	session *session
	// found is what is damaged, unchecked what took too long.
	found, unchecked []string
}

// open begins a session that waits for locks for a moment only: transactions that
// were prepared when the data was copied hold theirs for ever.
func (c *tablesCheck) open(ctx context.Context) (err error) {
	if c.session, err = c.d.admin(ctx, c.n); err != nil {
		return err
	}
	if err := c.session.exec(ctx, "SET SESSION lock_wait_timeout = 10"); err != nil {
		c.session.close()
		return err
	}
	return nil
}

// table is one to check, by its quoted name, and about how many bytes it has.
type table struct {
	name  string
	bytes int64
}

func (c *tablesCheck) tables(ctx context.Context) ([]table, error) {
	const list = "SELECT CONCAT('`', REPLACE(TABLE_SCHEMA, '`', '``'), '`.`', REPLACE(TABLE_NAME, '`', '``'), '`'), " +
		"CAST(COALESCE(DATA_LENGTH, 0) + COALESCE(INDEX_LENGTH, 0) AS CHAR) " +
		"FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') " +
		"AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema') ORDER BY 1"
	rows, err := c.session.rows(ctx, list)
	if err != nil {
		return nil, err
	}
	tables := make([]table, len(rows))
	for i, row := range rows {
		bytes, err := strconv.ParseInt(row[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("size of %s: %w", row[0], err)
		}
		tables[i] = table{row[0], bytes}
	}
	return tables, nil
}

// look checks one table, and ends the server's work on it when it takes too long.
func (c *tablesCheck) look(ctx context.Context, t table) error {
	id, err := c.session.text(ctx, "SELECT CONNECTION_ID()")
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, c.within(t.bytes))
	defer cancel()
	report, err := c.session.rows(limited, "CHECK TABLE "+t.name+" EXTENDED")
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		c.unchecked = append(c.unchecked, t.name)
		return c.anew(ctx, id)
	}
	if is(err, errLockWaitTimeout) || locked(report) {
		c.unchecked = append(c.unchecked, t.name)
		return nil
	}
	if err != nil {
		return err
	}
	c.found = append(c.found, findings(report)...)
	return nil
}

// anew ends a session, which the server would go on with, and begins another.
func (c *tablesCheck) anew(ctx context.Context, id string) error {
	c.session.close()
	if err := c.open(ctx); err != nil {
		return err
	}
	err := c.session.exec(ctx, "KILL "+id)
	if is(err, errNoSuchThread) {
		return nil
	}
	return err
}

// locked tells of a table that somebody held.
func locked(report [][]string) bool {
	for _, row := range report {
		if strings.Contains(row[3], "Lock wait timeout exceeded") {
			return true
		}
	}
	return false
}

// findings are the errors among the rows (table, operation, kind, text). A
// table that was dropped meanwhile is none.
func findings(report [][]string) []string {
	var found []string
	for _, row := range report {
		if row[2] == "Error" || row[2] == "error" {
			if strings.HasSuffix(row[3], "doesn't exist") {
				return nil
			}
			found = append(found, row[0]+": "+row[3])
		}
	}
	return found
}
