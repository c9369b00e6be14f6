package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"steward/internal/engine"
)

const (
	// meetWait is for how long commits on the source may wait at most until the
	// replica has applied what was committed before.
	meetWait = time.Second
	// tableTime bounds the reading of a table, in seconds. Bigger ones are left out.
	tableTime = 10
)

// Numbers of errors that leave a table out of a comparison.
const (
	errTableChanged     = 1412
	errStatementTimeout = 1969
)

// Compare implements engine.Replicator. Rows are what is logged, but statements that
// change a table's columns are logged as they are, and a default that is another
// value each time gives each node other ones. MySQL refuses such statements.
func (d *Driver) Compare(ctx context.Context, n engine.Node) (whole bool, err error) {
	if n.Installation.Flavour != engine.FlavourMariaDB {
		return true, nil
	}
	own, err := d.admin(ctx, n)
	if err != nil {
		return false, err
	}
	defer own.close()
	source, err := d.peer(ctx, n)
	if err != nil {
		return false, err
	}
	defer source.close()
	met, err := d.meet(ctx, n, own, source)
	if err != nil || !met {
		return false, err
	}
	return compareTables(ctx, own, source)
}

// meet begins a transaction on both servers that sees the same commits, and reports
// whether that could be had within meetWait.
func (d *Driver) meet(ctx context.Context, n engine.Node, own, source *session) (bool, error) {
	holder, err := d.peer(ctx, n)
	if err != nil {
		return false, err
	}
	// The end of the session ends what it holds, too.
	defer holder.close()
	for _, q := range []string{"SET SESSION lock_wait_timeout = 1", "BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT"} {
		if err := holder.exec(ctx, q); is(err, errLockWaitTimeout) {
			return false, nil // a backup is being made, or a commit waits
		} else if err != nil {
			return false, err
		}
	}
	want, err := holder.text(ctx, "SELECT @@GLOBAL.gtid_binlog_pos")
	if err != nil {
		return false, err
	}
	for end := time.Now().Add(meetWait); ; {
		have, err := own.text(ctx, "SELECT @@GLOBAL.gtid_slave_pos")
		if err != nil {
			return false, err
		}
		if have == want {
			break
		}
		if time.Now().After(end) {
			return false, nil
		}
		if err := pause(ctx, "wait until the replica has all"); err != nil {
			return false, err
		}
	}
	for _, s := range []*session{own, source} {
		err := s.exec(ctx, fmt.Sprintf("SET SESSION max_statement_time = %d", tableTime), "SET SESSION lock_wait_timeout = 1",
			"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT")
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// comparable are the tables whose transactions see what they saw at their begin.
const comparable = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE = 'InnoDB' " +
	"AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'steward', 'information_schema', 'performance_schema')"

// compareTables goes on until the context ends, in an order of chance: what is left
// out today comes before long.
func compareTables(ctx context.Context, own, source *session) (whole bool, err error) {
	tables, err := source.rows(ctx, comparable)
	if err != nil {
		return false, err
	}
	rand.Shuffle(len(tables), func(i, j int) { tables[i], tables[j] = tables[j], tables[i] })
	whole = true
	for _, t := range tables {
		if ctx.Err() != nil {
			return false, nil
		}
		table := identifier(t[0]) + "." + identifier(t[1])
		here, known, err := own.checksum(ctx, table)
		if err != nil {
			return false, err
		}
		there, knownThere, err := source.checksum(ctx, table)
		if err != nil {
			return false, err
		}
		if !known || !knownThere {
			whole = false
			continue
		}
		if here != there {
			return false, fmt.Errorf("%w: the rows of %s.%s differ", engine.ErrDiverged, t[0], t[1])
		}
	}
	return whole, nil
}

// checksum of a table as the transaction sees it; not known when it can't be read
// now. Afterwards others may change the table's columns again.
func (s *session) checksum(ctx context.Context, table string) (sum int64, known bool, err error) {
	if err := s.exec(ctx, "SAVEPOINT table_begins"); err != nil {
		return 0, false, err
	}
	var name string
	var value sql.NullInt64
	err = s.conn.QueryRowContext(ctx, "CHECKSUM TABLE "+table).Scan(&name, &value)
	leftOut := is(err, errLockWaitTimeout, errNoSuchTable, errTableChanged, errStatementTimeout)
	if err != nil && !leftOut {
		return 0, false, fmt.Errorf("read a table: %w", classify(err))
	}
	if err := s.exec(ctx, "ROLLBACK TO SAVEPOINT table_begins"); err != nil {
		return 0, false, err
	}
	return value.Int64, value.Valid && !leftOut, nil
}
