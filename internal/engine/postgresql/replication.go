package postgresql

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
)

// KeepsReceived implements engine.Replicator: WAL is on the disk before it is acknowledged,
// and is replayed from there.
func (Driver) KeepsReceived() bool { return true }

// CanDrain is true: a replica reads WAL files wherever they come from.
func (Driver) CanDrain(engine.Installation) bool { return true }

// StepDown does nothing: a server that is stopped sends all it has, and what it
// couldn't send is drained from its files.
func (Driver) StepDown(context.Context, engine.Node) error { return nil }

// ReplicationStatus asks once, and once more when there is something left to apply: a
// replica that applies it meanwhile isn't behind.
func (Driver) ReplicationStatus(ctx context.Context, n engine.Node) (engine.ReplicationStatus, error) {
	conn, release, err := session(ctx, n)
	if err != nil {
		return engine.ReplicationStatus{}, fmt.Errorf("replication status: %w", err)
	}
	defer release()
	status, err := queryReplicationStatus(ctx, conn, n)
	if err != nil {
		return engine.ReplicationStatus{}, fmt.Errorf("replication status: %w", err)
	}
	if status.Lag == 0 {
		return status, nil
	}
	if err := pause(ctx); err != nil {
		return engine.ReplicationStatus{}, fmt.Errorf("replication status: %w", err)
	}
	later, err := queryReplicationStatus(ctx, conn, n)
	if err != nil {
		return engine.ReplicationStatus{}, fmt.Errorf("replication status: %w", err)
	}
	if later.Applied >= status.Received {
		later.Lag = 0
	}
	return later, nil
}

// replicationStatusQuery looks at the receiver's address, since after a change of the
// source the old connection lives on for a moment. The age of the transaction
// applied last is at least that of the one to come.
const replicationStatusQuery = `SELECT pg_is_in_recovery(),
	coalesce((SELECT status = 'streaming' AND sender_host = '%s' AND sender_port = %d FROM pg_stat_wal_receiver), false),
	CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
		ELSE pg_current_wal_flush_lsn() END,
	CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END,
	coalesce(ceil(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1e6), 1)::bigint,
	CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END,
	pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS NULL`

func queryReplicationStatus(ctx context.Context, conn *pgconn.PgConn, n engine.Node) (engine.ReplicationStatus, error) {
	rows, err := query(ctx, conn, fmt.Sprintf(replicationStatusQuery, literal(n.Source.Run), n.Source.Listen.Port()))
	if err != nil {
		return engine.ReplicationStatus{}, err
	}
	row := rows[0]
	received, err := parseLSN(row[2])
	if err != nil {
		return engine.ReplicationStatus{}, err
	}
	applied, err := parseLSN(row[3])
	if err != nil {
		return engine.ReplicationStatus{}, err
	}
	status := engine.ReplicationStatus{
		Writable: row[0] == "f", Streaming: row[1] == "t",
		Received: uint64(max(received, applied)), Applied: uint64(applied), Position: max(received, applied).String(),
	}
	if status.Writable {
		status.Received = status.Applied
	}
	if row[6] == "t" && n.Remote == nil {
		if received, err = ownWAL(n, applied); err != nil {
			return engine.ReplicationStatus{}, err
		}
		status.Received, status.Position = uint64(received), received.String()
	}
	if status.Received > status.Applied {
		micros, err := strconv.ParseInt(row[4], 10, 64)
		if err != nil {
			return engine.ReplicationStatus{}, fmt.Errorf("age of the last transaction: %w", err)
		}
		status.Lag = max(time.Microsecond, time.Duration(micros)*time.Microsecond)
	}
	if row[5] == "t" {
		status.Problem = "the replica has paused applying: its settings are lower than its primary's"
	}
	return status, nil
}

// ownWAL is how far the files go of a replica that was just started: until it
// has been through them, it doesn't tell.
func ownWAL(n engine.Node, applied lsn) (lsn, error) {
	wal, err := openWAL(filepath.Join(n.Data, "pg_wal"))
	if err != nil {
		return 0, err
	}
	_, end, err := wal.extent(applied, applied)
	return end, err
}

// Disconnect waits until the receiver has ended, which it does by itself when
// its source's sockets close; before that it writes down what it still reads.
func (Driver) Disconnect(ctx context.Context, n engine.Node) error {
	conn, err := asOurs(ctx, n)
	if err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		rows, err := query(ctx, conn, "SELECT status FROM pg_stat_wal_receiver WHERE pid IS NOT NULL")
		if err != nil {
			return fmt.Errorf("disconnect: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("disconnect: the replica goes on receiving: %w", err)
		}
	}
}

// Promote has the server read the files it was given for its new role, too.
func (Driver) Promote(ctx context.Context, n engine.Node) error {
	conn, err := asOurs(ctx, n)
	if err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	const start = "SELECT CASE WHEN pg_is_in_recovery() THEN pg_reload_conf() AND pg_promote(false) END"
	if _, err := query(ctx, conn, start); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	for {
		rows, err := query(ctx, conn, giveWay)
		if err != nil {
			return fmt.Errorf("promote: %w", err)
		}
		if rows[0][0] == "f" {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("promote: the server stays a replica: %w", err)
		}
	}
}

// giveWay ends the queries that hold up what a replica has left to apply: with
// no primary there, nobody can wait for them.
const giveWay = `SELECT pg_is_in_recovery(), (
	SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND usename <> 'steward' AND xact_start IS NOT NULL
	AND EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup'
		AND (wait_event_type IN ('Lock', 'BufferPin') OR wait_event LIKE 'RecoveryConflict%')))`

// Follow makes the server read its files when it doesn't have their source yet,
// which makes it turn there at once.
func (Driver) Follow(ctx context.Context, n engine.Node) (afresh bool, err error) {
	return false, follow(ctx, n) // WAL that was received is kept
}

func follow(ctx context.Context, n engine.Node) error {
	conn, err := asOurs(ctx, n)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	defer func() { closeSoon(ctx, conn) }()
	row, err := queryOne(ctx, conn, "SELECT pg_is_in_recovery(), current_setting('primary_conninfo')")
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if row[0] != "t" {
		return errors.New("follow: the server runs as a primary; it has to be started anew to be a replica")
	}
	if row[1] != sourceConninfo(n) {
		since, err := reload(ctx, conn, func() { closeSoon(ctx, conn) }, func() (*pgconn.PgConn, error) { return asOurs(ctx, n) })
		if err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		conn = since
	}
	return checkHistory(ctx, n, conn)
}

// Compare implements engine.Replicator: replicas have the primary's own pages, whose
// checksums the server verifies.
func (Driver) Compare(context.Context, engine.Node) (whole bool, err error) { return true, nil }
