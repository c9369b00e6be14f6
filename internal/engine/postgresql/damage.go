package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/wait"
)

// mostDamage is how many findings are reported; there may be millions.
const mostDamage = 20

// Check has the server verify the checksum of every page of its files as if for
// a backup, which reaches indexes and catalogs of every kind in every database.
// Then amcheck, where the build has it, looks whether tables and B-trees fit
// together. A replica can't be asked for the second part.
func (Driver) Check(ctx context.Context, n engine.Node, within func(bytes int64) time.Duration) error {
	if err := checkPages(ctx, n); err != nil {
		return fmt.Errorf("check pages: %w", err)
	}
	rows, err := ask(ctx, n, `SELECT datname FROM pg_database WHERE datallowconn AND NOT pg_is_in_recovery()
		AND EXISTS (SELECT FROM pg_available_extensions WHERE name = 'amcheck') ORDER BY datname`)
	if err != nil {
		return fmt.Errorf("check: list databases: %w", err)
	}
	var unchecked []string
	for _, row := range rows {
		c := &databaseCheck{n: n, database: row[0], within: within, most: engine.MostUnchecked - len(unchecked)}
		if err := c.run(ctx); err != nil {
			return fmt.Errorf("check database %s: %w", row[0], err)
		}
		if unchecked = append(unchecked, c.unchecked...); len(unchecked) >= engine.MostUnchecked {
			break
		}
	}
	if len(unchecked) > 0 {
		return fmt.Errorf("%w: %s", engine.ErrUnchecked, strings.Join(unchecked, ", "))
	}
	return nil
}

// checkPages has a base backup made that nobody keeps.
func checkPages(ctx context.Context, n engine.Node) error {
	b, err := startBackupStream(ctx, n, false)
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

// databaseCheck looks through one database.
type databaseCheck struct {
	n        engine.Node
	database string
	within   func(bytes int64) time.Duration
	conn     *pgconn.PgConn
	// unchecked are the relations that took too long, most of them at most.
	unchecked []string
	most      int
}

func (c *databaseCheck) run(ctx context.Context) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	defer func() { c.conn.Close(context.WithoutCancel(ctx)) }()
	tables, indexes, err := relations(ctx, c.conn)
	if err != nil {
		return err
	}
	findings, err := c.findings(ctx, append(tables, indexes...))
	if len(findings) > 0 {
		return errors.New(strings.Join(findings, "; "))
	}
	return err
}

// open begins a transaction that is rolled back, so that nothing is left of the
// extension. A savepoint gives the locks back after each relation.
func (c *databaseCheck) open(ctx context.Context) error {
	parameters := ownParameters()
	parameters["statement_timeout"] = "0"
	var err error
	if c.conn, err = asAdminIn(ctx, c.n, c.database, parameters); err != nil {
		return err
	}
	// There customers can put nothing but trusted extensions, of which none has
	// anything that our statements would take for what they name.
	const start = "BEGIN; CREATE EXTENSION amcheck SCHEMA pg_catalog; SAVEPOINT relation"
	if _, err := query(ctx, c.conn, start); err != nil {
		return errors.Join(err, c.conn.Close(context.WithoutCancel(ctx)))
	}
	return nil
}

// relation is one to check, by the SQL that fails or returns a row per finding.
type relation struct {
	oid, name, check string
	// checks is a check of several of its kind, whose oids it takes: it fails or returns a row if anything is found.
	checks string
	// bytes are all that is read for it.
	bytes int64
}

// Relations are checked together while they are small: a database without any tables has some three hundred.
const (
	mostCheckedTogether = 100
	mostBytesTogether   = 16 << 20
)

// together has relations that can be checked together beside each other.
func together(all []relation) (groups [][]relation) {
	var bytes int64
	for i, r := range all {
		bytes += r.bytes
		if i == 0 || bytes > mostBytesTogether || r.checks != all[i-1].checks || len(groups[len(groups)-1]) == mostCheckedTogether {
			groups, bytes = append(groups, nil), r.bytes
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], r)
	}
	return groups
}

// relations leaves other sessions' temporary tables out: nobody else can read
// them. verify_heapam came with 14; in 13 the index check reads all rows of the
// tables that have one. That returns nothing but void, which is not null.
func relations(ctx context.Context, conn *pgconn.PgConn) (tables, indexes []relation, err error) {
	const list = `SELECT c.oid, c.oid::regclass, c.relkind IN ('r', 'm', 't'),
		pg_relation_size(c.oid) + coalesce(pg_table_size(i.indrelid), 0) + coalesce(pg_table_size(nullif(c.reltoastrelid, 0)), 0)
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
		r := relation{oid: row[0], name: row[1]}
		if r.bytes, err = strconv.ParseInt(row[3], 10, 64); err != nil {
			return nil, nil, fmt.Errorf("size of %s: %w", r.name, err)
		}
		if row[2] == "t" {
			r.check = "SELECT blkno, msg FROM verify_heapam(" + r.oid + ", check_toast := true) LIMIT 3"
			r.checks = "SELECT 1 FROM unnest('{%s}'::regclass[]) AS one, verify_heapam(one, check_toast := true) LIMIT 1"
			tables = append(tables, r)
		} else {
			r.check = "SELECT '', '' FROM bt_index_check(" + r.oid + ", true) AS done WHERE done IS NULL"
			r.checks = "SELECT 1 FROM unnest('{%s}'::regclass[]) AS one WHERE bt_index_check(one, true) IS NULL"
			indexes = append(indexes, r)
		}
	}
	return tables, indexes, nil
}

// findings goes on after a relation that is damaged or takes too long, up to a bound.
func (c *databaseCheck) findings(ctx context.Context, all []relation) ([]string, error) {
	var found []string
	for _, group := range together(all) {
		if sound, err := c.sound(ctx, group); err != nil {
			return found, err
		} else if sound {
			continue
		}
		more, err := c.oneByOne(ctx, group)
		if found = append(found, more...); err != nil || len(c.unchecked) >= c.most {
			return found, err
		}
		if len(found) >= mostDamage {
			return append(found, "and maybe more"), nil
		}
	}
	return found, nil
}

// sound reports whether nothing is found in any relation of a group, and none takes too long: else they have to be looked at
// one by one.
func (c *databaseCheck) sound(ctx context.Context, group []relation) (bool, error) {
	if len(group) == 1 {
		return false, nil
	}
	all, oids := relation{}, make([]string, len(group))
	for i, r := range group {
		oids[i], all.bytes = r.oid, all.bytes+r.bytes
	}
	all.check = fmt.Sprintf(group[0].checks, strings.Join(oids, ","))
	rows, err := c.look(ctx, all)
	if errors.Is(err, engine.ErrUnchecked) {
		if err := c.abandon(ctx); err != nil {
			return false, fmt.Errorf("end the check of %s and others: %w", group[0].name, err)
		}
		return false, c.open(ctx)
	}
	if _, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || c.conn.IsClosed()) {
		return false, err
	}
	_, undone := query(ctx, c.conn, "ROLLBACK TO relation")
	return err == nil && len(rows) == 0, undone
}

func (c *databaseCheck) oneByOne(ctx context.Context, group []relation) ([]string, error) {
	var found []string
	for _, r := range group {
		rows, err := c.look(ctx, r)
		if errors.Is(err, engine.ErrUnchecked) {
			if err := c.skip(ctx, r); err != nil || len(c.unchecked) >= c.most {
				return found, err
			}
			continue
		}
		damage, err := c.damage(r, rows, err)
		found = append(found, damage...)
		if err != nil || len(found) >= mostDamage {
			return found, err
		}
		if _, err := query(ctx, c.conn, "ROLLBACK TO relation"); err != nil {
			return found, err
		}
	}
	return found, nil
}

// damage is what the answer to the check of a relation tells of it. The error is one that
// isn't the relation's.
func (c *databaseCheck) damage(r relation, rows [][]string, err error) (found []string, _ error) {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if err != nil && (!ok || c.conn.IsClosed()) {
		return nil, err
	}
	if err != nil && !dropped(refused) {
		found = append(found, r.name+": "+refused.Message)
	}
	for _, row := range rows {
		found = append(found, fmt.Sprintf("%s: page %s: %s", r.name, row[0], row[1]))
	}
	return found, nil
}

// look checks one relation; ErrUnchecked when that takes too long.
func (c *databaseCheck) look(ctx context.Context, r relation) ([][]string, error) {
	limited, cancel := context.WithTimeout(ctx, c.within(r.bytes))
	defer cancel()
	rows, err := query(limited, c.conn, r.check)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, engine.ErrUnchecked
	}
	return rows, err
}

// skip ends the check of a relation and begins anew behind it.
func (c *databaseCheck) skip(ctx context.Context, r relation) error {
	c.unchecked = append(c.unchecked, r.name)
	if err := c.abandon(ctx); err != nil {
		return fmt.Errorf("end the check of %s: %w", r.name, err)
	}
	if len(c.unchecked) >= c.most {
		return nil
	}
	return c.open(ctx)
}

// abandon ends the session from outside: an index's check runs the functions that it is made of, which can catch a cancelled
// statement and go on.
func (c *databaseCheck) abandon(ctx context.Context) error {
	return errors.Join(endSession(ctx, c.n, c.conn.PID()), c.conn.Close(context.WithoutCancel(ctx)))
}

// endSession ends a session of the server, whatever it does, and waits until it
// is gone. One in which a language goes round in circles without ever asking the
// server is there until its process is killed.
func endSession(ctx context.Context, n engine.Node, pid uint32) error {
	const patience = 5 * time.Second
	end := fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %d", pid)
	for until := time.Now().Add(patience); ; {
		rows, err := ask(ctx, n, end)
		if err != nil || len(rows) == 0 {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%w: session %d doesn't end", engine.ErrUnchecked, pid)
		}
		if wait.Sleep(ctx, 20*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
}

// dropped tells of a relation that went away since it was listed.
func dropped(e *pgconn.PgError) bool {
	return e.Code == "42P01" || strings.HasPrefix(e.Message, "could not open relation with OID")
}
