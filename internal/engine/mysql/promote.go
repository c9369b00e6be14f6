package mysql

import (
	"context"
	"fmt"

	"steward/internal/engine"
)

// Promote is part of engine.Replicator. That the node takes writes comes last:
// until then it can be repeated from the start.
func (d *Driver) Promote(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	r := &dialectOf(n.Installation.Flavour).replication
	if err := s.leaveSource(ctx, r); err != nil {
		return fmt.Errorf("promote node %d: %w", n.Ordinal, err)
	}
	if err := d.takeOver(ctx, s, r, n); err != nil {
		return fmt.Errorf("promote node %d: %w", n.Ordinal, err)
	}
	return nil
}

// leaveSource applies what was received and forgets the source.
func (s *session) leaveSource(ctx context.Context, r *replication) error {
	st, err := s.status(ctx, r)
	if err != nil || st == nil {
		return err
	}
	if st.receiverRuns() {
		if err := s.exec(ctx, r.stopReceiver); err != nil {
			return err
		}
	}
	if err := s.applyAll(ctx, r); err != nil {
		return err
	}
	return s.exec(ctx, r.stopAll, r.reset)
}

// applyAll waits until all that was received is applied. Asking again and again
// is quicker than the servers' own functions to wait.
func (s *session) applyAll(ctx context.Context, r *replication) error {
	for {
		st, err := s.status(ctx, r)
		if err != nil {
			return err
		}
		p, err := r.progress(ctx, s, st)
		if err != nil || p.applied >= p.received {
			return err
		}
		if !st.applierRuns() && st["Last_SQL_Error"] != "" {
			return fmt.Errorf("%w: %s", errStopped, st["Last_SQL_Error"])
		}
		if !st.applierRuns() {
			if err := s.exec(ctx, r.startApplier); err != nil {
				return err
			}
		}
		if err := pause(ctx, "apply what was received"); err != nil {
			return err
		}
	}
}

// takeOver makes a server that follows nobody a primary.
func (d *Driver) takeOver(ctx context.Context, s *session, r *replication, n engine.Node) error {
	readOnly, err := s.text(ctx, "SELECT @@GLOBAL.read_only")
	if err != nil {
		return err
	}
	if readOnly == "1" {
		// Nobody writes yet, so no acknowledgement is amiss, while the change of an
		// event would wait for a replica.
		if err := s.exec(ctx, "SET GLOBAL "+r.source+"_enabled = OFF"); err != nil {
			return err
		}
		d.enableEvents(ctx, s, n)
	}
	if err := s.setRole(ctx, r, n); err != nil {
		return err
	}
	if n.ReadOnly {
		return nil
	}
	return s.exec(ctx, "SET GLOBAL read_only = OFF")
}

// setRole sets what depends on the role, but for read_only.
func (s *session) setRole(ctx context.Context, r *replication, n engine.Node) error {
	settings := []setting{
		{r.replica + "_enabled", semiSync(n) && isReplica(n), live},
		{r.source + "_enabled", semiSync(n) && !isReplica(n), live},
		{"event_scheduler", !isReplica(n), live},
		durable("sync_binlog", n, 0),
		durable("innodb_flush_log_at_trx_commit", n, 2),
	}
	for _, w := range settings {
		if err := s.exec(ctx, "SET GLOBAL "+w.name+" = "+w.literal()); err != nil {
			return err
		}
	}
	return nil
}

// enableEvents gives the customers' events back what replication took: on a
// replica an event is disabled when its statement arrives. The change is logged,
// so that it is disabled on the other nodes. What an event runs as, and how it
// reads its text, must stay: an ALTER without it makes them those of the session,
// ours. An event whose time is over can't be enabled, and needn't.
func (d *Driver) enableEvents(ctx context.Context, s *session, n engine.Node) {
	events, err := s.rows(ctx, "SELECT EVENT_SCHEMA, EVENT_NAME, SUBSTRING_INDEX(DEFINER, '@', LENGTH(DEFINER) - LENGTH(REPLACE(DEFINER, '@', ''))), "+
		"SUBSTRING_INDEX(DEFINER, '@', -1), SQL_MODE, TIME_ZONE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION "+
		"FROM information_schema.EVENTS WHERE STATUS IN ('SLAVESIDE_DISABLED', 'REPLICA_SIDE_DISABLED')")
	if err != nil {
		d.log.Warn("can't list events to enable", "cluster_id", n.Cluster, "node", n.Ordinal, "error", err)
		return
	}
	for _, e := range events {
		err := s.exec(ctx, "SET SESSION sql_mode = "+quote(e[4]), "SET SESSION time_zone = "+quote(e[5]),
			"SET SESSION character_set_client = "+quote(e[6]), "SET SESSION collation_connection = "+quote(e[7]),
			"ALTER DEFINER = "+identifier(e[2])+"@"+identifier(e[3])+" EVENT "+identifier(e[0])+"."+identifier(e[1])+" ENABLE")
		if err != nil {
			d.log.Warn("can't enable an event", "cluster_id", n.Cluster, "node", n.Ordinal, "schema", e[0], "event", e[1], "error", err)
		}
	}
	if len(events) > 0 {
		if err := s.exec(ctx, "SET NAMES utf8mb4"); err != nil {
			d.log.Warn("can't reset the session", "cluster_id", n.Cluster, "node", n.Ordinal, "error", err)
		}
	}
}
