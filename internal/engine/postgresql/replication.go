package postgresql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// Replicas reach their primary by its unix socket, as our own superuser:
// nothing of replication can be reached from outside.

// standbySignal makes a server start as a replica; the server removes it when
// it is promoted.
const standbySignal = "standby.signal"

func nodeLabel(ordinal int) string { return "node" + strconv.Itoa(ordinal) }

// synchronous tells whether a commit waits for a replica.
func synchronous(n engine.Node) bool {
	switch commit(n) {
	case cluster.CommitOn, cluster.CommitRemoteWrite, cluster.CommitRemoteApply:
		return n.Members > 1
	}
	return false
}

// replicationSettings are those of a node that is one of several.
func replicationSettings(n engine.Node) []setting {
	if n.Members <= 1 {
		return nil
	}
	names, source := "", ""
	if synchronous(n) {
		var all []string
		for ordinal := range n.Members {
			all = append(all, nodeLabel(ordinal))
		}
		names = "ANY 1 (" + strings.Join(all, ", ") + ")"
	}
	if n.Role == cluster.Replica {
		source = conninfo(n)
	}
	return []setting{
		{name: "hot_standby", value: "on"},
		{name: "synchronous_standby_names", value: names},
		{name: "primary_conninfo", value: source},
		{name: "recovery_target_timeline", value: "latest"},
		// What a replica that was away for a while needs to come back by itself.
		{name: "wal_keep_size", value: megabytes(within(64, n.Plan.DiskMB/40, 4096))},
		{name: "wal_receiver_status_interval", value: "1s"},
		{name: "wal_receiver_timeout", value: "10s"},
		{name: "wal_sender_timeout", value: "10s"},
		// A long query on a replica must not hold up the applying for ever.
		{name: "max_standby_streaming_delay", value: "30s"},
		{name: "max_standby_archive_delay", value: "30s"},
	}
}

// passFile holds the password for the source. The setting itself must not: the
// server logs settings that change.
func passFile(n engine.Node) string { return filepath.Join(n.Run, "replication.pass") }

// conninfo is how a replica reaches its source.
func conninfo(n engine.Node) string {
	value := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
	}
	return fmt.Sprintf("host=%s port=%d user=%s passfile=%s application_name=%s connect_timeout=5",
		value(n.Source.Run), n.Source.Listen.Port(), adminRole, value(passFile(n)), nodeLabel(n.Ordinal))
}

// Twin is part of engine.Replicator: clones of one template differ in their
// system identifier alone.
func (Driver) Twin(_ context.Context, primary, dir string) error {
	var id [8]byte
	f, err := os.Open(filepath.Join(primary, "global", "pg_control"))
	if err != nil {
		return fmt.Errorf("read the primary's identifier: %w", err)
	}
	defer f.Close()
	// It never changes, and comes first: a write under way does no harm.
	if _, err := f.ReadAt(id[:], 0); err != nil {
		return fmt.Errorf("read the primary's identifier: %w", err)
	}
	return identify(dir, id)
}

// Standing is part of engine.Replicator.
func (Driver) Standing(ctx context.Context, n engine.Node) (engine.Standing, error) {
	row, err := askOne(ctx, n, `SELECT pg_catalog.pg_is_in_recovery(),
		CASE WHEN pg_catalog.pg_is_in_recovery()
			THEN greatest(pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn())
			ELSE pg_catalog.pg_current_wal_flush_lsn() END,
		CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
			ELSE pg_catalog.pg_current_wal_flush_lsn() END,
		coalesce(extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()), 0),
		coalesce((SELECT status FROM pg_catalog.pg_stat_wal_receiver), ''),
		coalesce((SELECT sender_host FROM pg_catalog.pg_stat_wal_receiver), '')`)
	if err != nil {
		return engine.Standing{}, fmt.Errorf("standing: %w", err)
	}
	var s engine.Standing
	s.Writable, s.Position = row[0] == "f", row[1]
	if s.Received, err = parseLSN(row[1]); err != nil {
		return s, fmt.Errorf("standing: %w", err)
	}
	if s.Applied, err = parseLSN(row[2]); err != nil {
		return s, fmt.Errorf("standing: %w", err)
	}
	if s.Writable {
		return s, nil
	}
	s.Streaming = row[4] == "streaming" && row[5] == n.Source.Run
	if !s.Streaming {
		s.Problem = fmt.Sprintf("receiver is %q", row[4])
	}
	if s.Received > s.Applied {
		seconds, err := strconv.ParseFloat(row[3], 64)
		if err != nil {
			return s, fmt.Errorf("standing: lag: %w", err)
		}
		s.Lag = time.Duration(seconds * float64(time.Second))
	}
	return s, nil
}

// parseLSN reads "16/B374D848"; "" is the beginning.
func parseLSN(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	high, low, ok := strings.Cut(text, "/")
	h, errHigh := strconv.ParseUint(high, 16, 32)
	l, errLow := strconv.ParseUint(low, 16, 32)
	if err := errors.Join(errHigh, errLow); !ok || err != nil {
		return 0, fmt.Errorf("%q is no position in the WAL", text)
	}
	return h<<32 | l, nil
}

// Follow is part of engine.Replicator. The source is a setting, which a reload
// brings into force.
func (Driver) Follow(ctx context.Context, n engine.Node) error {
	conn, err := eitherPassword(ctx, n) // a twin learns its own by following
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := query(ctx, conn, "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('primary_conninfo')")
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	if rows[0][0] == "f" {
		return errors.New("follow: the server runs as a primary: it has to be started as a replica")
	}
	if rows[0][1] == conninfo(n) {
		return nil
	}
	if err := reload(ctx, n); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return nil
}

// Disconnect is part of engine.Replicator. The receiver ends with its source:
// the wait is for it to have noticed.
func (Driver) Disconnect(ctx context.Context, n engine.Node) error {
	conn, err := asAdmin(ctx, n, n.AdminPassword)
	if err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		rows, err := query(ctx, conn, "SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_wal_receiver WHERE status = 'streaming'")
		if err != nil {
			return fmt.Errorf("disconnect: %w", err)
		}
		if rows[0][0] == "0" {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("disconnect: the receiver goes on: %w", err)
		}
	}
}

// StepDown is part of engine.Replicator. Nothing has to be done: the platform
// stops the server and drains it.
func (Driver) StepDown(context.Context, engine.Node) error { return nil }

// Promote is part of engine.Replicator. It doesn't wait for a checkpoint.
func (Driver) Promote(ctx context.Context, n engine.Node) error {
	conn, err := asAdmin(ctx, n, n.AdminPassword)
	if err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	asked := false
	for {
		rows, err := query(ctx, conn, "SELECT pg_catalog.pg_is_in_recovery()")
		if err != nil {
			return fmt.Errorf("promote: %w", err)
		}
		if rows[0][0] == "f" {
			return nil
		}
		if !asked {
			if _, err := query(ctx, conn, "SELECT pg_catalog.pg_promote(false)"); err != nil {
				return fmt.Errorf("promote: %w", err)
			}
			asked = true
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("promote: the server goes on recovering: %w", err)
		}
	}
}

// CanDrain is part of engine.Replicator.
func (Driver) CanDrain(engine.Installation) bool { return true }
