package postgresql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
)

// SetReadOnly puts the disk guard of the node's files into effect: Files must
// have been written with the same n.ReadOnly before. Sessions live on, and
// their next transaction is read-only; transactions begun before the guard end
// here. A customer may lift it in a session of theirs, to delete and to vacuum.
func (Driver) SetReadOnly(ctx context.Context, n engine.Node, on bool) error {
	conn, err := guarded(ctx, n)
	if err != nil {
		return fmt.Errorf("set read-only: %w", err)
	}
	defer func() { closeSoon(ctx, conn) }()
	g, err := readGuard(ctx, conn)
	if err != nil {
		return fmt.Errorf("set read-only: %w", err)
	}
	if g.inFiles != onOff(on) {
		return fmt.Errorf("set read-only: the node's files say %s; they have to be written first", g.inFiles)
	}
	if g.effective != onOff(on) {
		since, err := reload(ctx, conn, func() { closeSoon(ctx, conn) }, func() (*pgconn.PgConn, error) { return guarded(ctx, n) })
		if err != nil {
			return fmt.Errorf("set read-only: %w", err)
		}
		conn = since
		if g, err = readGuard(ctx, conn); err != nil {
			return fmt.Errorf("set read-only: %w", err)
		}
		if g.effective != onOff(on) {
			return fmt.Errorf("set read-only: the server stays with %s", g.effective)
		}
	}
	if !on {
		return nil
	}
	if err := endTransactions(ctx, conn, g.since); err != nil {
		return fmt.Errorf("set read-only: %w", err)
	}
	return nil
}

// guard is the disk guard as the files have it and as it is in effect, and a
// time by which every session had been told of that.
type guard struct {
	inFiles, effective, since string
}

// guarded is a session of ours that the guard is in effect for, as for customers': without
// the start-up parameter that would hide the server's own value.
func guarded(ctx context.Context, n engine.Node) (*pgconn.PgConn, error) {
	parameters := ownParameters()
	delete(parameters, "default_transaction_read_only")
	return connectAsOurs(ctx, n, login{password: n.AdminPassword, database: adminDatabase, parameters: parameters})
}

// readGuard asks a guarded session.
func readGuard(ctx context.Context, conn *pgconn.PgConn) (guard, error) {
	row, err := queryOne(ctx, conn, `SELECT
		(SELECT setting FROM pg_catalog.pg_file_settings
			WHERE name = 'default_transaction_read_only' ORDER BY seqno DESC LIMIT 1),
		pg_catalog.current_setting('default_transaction_read_only'),
		pg_catalog.pg_conf_load_time() + '100 milliseconds'`)
	if err != nil {
		return guard{}, err
	}
	return guard{inFiles: row[0], effective: row[1], since: row[2]}, nil
}

// endTransactions ends the sessions whose transaction is older than the guard
// and waits until they are gone. On a replica all of them only read.
func endTransactions(ctx context.Context, conn *pgconn.PgConn, since string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		rows, err := query(ctx, conn, `SELECT pg_catalog.count(pg_catalog.pg_terminate_backend(pid))
			FROM pg_catalog.pg_stat_activity
			WHERE NOT pg_catalog.pg_is_in_recovery() AND backend_type = 'client backend' AND usename NOT IN `+ourRoles+` AND xact_start < '`+since+`'`)
		if err != nil {
			return err
		}
		if rows[0][0] == "0" {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("sessions that write don't end: %w", err)
		}
	}
}

// AfterPatch has nothing to do: within a series the files stay as they are.
func (Driver) AfterPatch(context.Context, engine.Node) error { return nil }
