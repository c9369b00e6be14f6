package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
)

// mostDamage is how many findings are reported; there may be millions.
const mostDamage = 20

// Check has the server verify the checksum of every page of its files as if for
// a backup, which reaches indexes and catalogs of every kind in every database.
// Then amcheck, where the build has it, looks whether tables and B-trees fit
// together. A replica can't be asked for the second part.
func (Driver) Check(ctx context.Context, n engine.Node) error {
	if err := checkPages(ctx, n); err != nil {
		return fmt.Errorf("check pages: %w", err)
	}
	rows, err := ask(ctx, n, `SELECT datname FROM pg_database WHERE datallowconn AND NOT pg_is_in_recovery()
		AND EXISTS (SELECT FROM pg_available_extensions WHERE name = 'amcheck') ORDER BY datname`)
	if err != nil {
		return fmt.Errorf("check: list databases: %w", err)
	}
	for _, row := range rows {
		if err := checkDatabase(ctx, n, row[0]); err != nil {
			return fmt.Errorf("check database %s: %w", row[0], err)
		}
	}
	return nil
}

// checkPages reads a base backup and forgets it.
func checkPages(ctx context.Context, n engine.Node) error {
	b, err := startBaseBackup(ctx, n)
	if err != nil {
		return err
	}
	defer b.close(ctx)
	if err := b.finish(ctx); err != nil {
		if len(b.warnings) > 0 {
			return fmt.Errorf("%w: %s", err, strings.Join(b.warnings, "; "))
		}
		return err
	}
	return nil
}

// checkDatabase works inside a transaction that is rolled back, so that nothing
// is left of the extension. A savepoint gives the locks back after each relation.
func checkDatabase(ctx context.Context, n engine.Node, database string) error {
	parameters := ownParameters()
	parameters["statement_timeout"] = "0"
	conn, err := connect(ctx, login{
		host: n.Run, port: n.Listen.Port(), user: adminRole, password: n.AdminPassword,
		database: database, parameters: parameters,
	})
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// Only there can no customer have put anything.
	const start = "BEGIN; CREATE EXTENSION amcheck SCHEMA pg_catalog; SAVEPOINT relation"
	if _, err := query(ctx, conn, start); err != nil {
		return err
	}
	tables, indexes, err := relations(ctx, conn)
	if err != nil {
		return err
	}
	findings, err := findings(ctx, conn, append(tables, indexes...))
	if err != nil {
		return err
	}
	if len(findings) > 0 {
		return errors.New(strings.Join(findings, "; "))
	}
	return nil
}

// relation is one to check, by the SQL that fails or returns a row per finding.
type relation struct{ name, check string }

// relations leaves other sessions' temporary tables out: nobody else can read
// them. verify_heapam came with 14; in 13 the index check reads all rows of the
// tables that have one. That returns nothing but void, which is not null.
func relations(ctx context.Context, conn *pgconn.PgConn) (tables, indexes []relation, err error) {
	const list = `SELECT c.oid, c.oid::regclass, c.relkind IN ('r', 'm', 't')
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_index i ON i.indexrelid = c.oid
		WHERE c.relpersistence <> 't' AND (
			c.relkind IN ('r', 'm', 't') AND a.amname = 'heap' AND to_regproc('pg_catalog.verify_heapam') IS NOT NULL
			OR c.relkind = 'i' AND a.amname = 'btree' AND i.indisready AND i.indisvalid)
		ORDER BY c.oid`
	rows, err := query(ctx, conn, list)
	if err != nil {
		return nil, nil, fmt.Errorf("list relations: %w", err)
	}
	for _, row := range rows {
		if row[2] == "t" {
			tables = append(tables, relation{row[1], "SELECT blkno, msg FROM verify_heapam(" + row[0] + ", check_toast := true) LIMIT 3"})
		} else {
			indexes = append(indexes, relation{row[1], "SELECT '', '' FROM bt_index_check(" + row[0] + ", true) AS done WHERE done IS NULL"})
		}
	}
	return tables, indexes, nil
}

// findings goes on after a relation that is damaged, up to a bound.
func findings(ctx context.Context, conn *pgconn.PgConn, all []relation) ([]string, error) {
	var found []string
	for _, r := range all {
		rows, err := query(ctx, conn, r.check)
		refused, ok := errors.AsType[*pgconn.PgError](err)
		if err != nil && (!ok || conn.IsClosed()) {
			return nil, errors.Join(err, errors.New(strings.Join(found, "; ")))
		}
		if err != nil && !dropped(refused) {
			found = append(found, r.name+": "+refused.Message)
		}
		for _, row := range rows {
			found = append(found, fmt.Sprintf("%s: page %s: %s", r.name, row[0], row[1]))
		}
		if len(found) >= mostDamage {
			return append(found, "and maybe more"), nil
		}
		if _, err := query(ctx, conn, "ROLLBACK TO relation"); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// dropped tells of a relation that went away since it was listed.
func dropped(e *pgconn.PgError) bool {
	return e.Code == "42P01" || strings.HasPrefix(e.Message, "could not open relation with OID")
}
