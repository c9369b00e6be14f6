package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// proof tells a restored server from one that was left as it was.
type proof struct {
	// rows are those of each table.
	rows [tables]int
}

// later is a table that is made after the backup.
const later = "later"

// newProof counts what a backup of the server has, and adds what it doesn't have.
func newProof(ctx context.Context, s Server) (p proof, err error) {
	db, err := s.open()
	if err != nil {
		return p, err
	}
	defer db.Close()
	if p.rows, err = count(ctx, db); err != nil {
		return p, err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+later+" (n int)"); err != nil {
		return p, fmt.Errorf("write after the backup: %w", err)
	}
	return p, nil
}

// restored is nil when the server has the backup's rows and nothing that is later.
func (p proof) restored(ctx context.Context, s Server) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := count(ctx, db)
	if err != nil {
		return err
	}
	if rows != p.rows {
		return fmt.Errorf("the tables have %d rows after the restore, %d before", rows, p.rows)
	}
	var n int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+later).Scan(&n); err == nil {
		return errors.New("what was written after the backup is still there: nothing was restored")
	}
	return nil
}

// count counts all tables' rows: each has some.
func count(ctx context.Context, db *sql.DB) (rows [tables]int, err error) {
	for n := range rows {
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+tableName(n)).Scan(&rows[n]); err != nil {
			return rows, fmt.Errorf("count the rows of %s: %w", tableName(n), err)
		}
		if rows[n] == 0 {
			return rows, fmt.Errorf("%s is empty", tableName(n))
		}
	}
	return rows, nil
}
