package mysql

import (
	"context"
	"fmt"

	"steward/internal/engine"
)

// Promote implements engine.Replicator. That the node takes writes comes last:
// until then it can be repeated from the start.
func (d *Driver) Promote(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	f := flavourOf(n.Installation.Flavour)
	if err := s.leaveSource(ctx, f); err != nil {
		return fmt.Errorf("promote node %d: %w", n.Ordinal, err)
	}
	if err := d.takeOver(ctx, s, f, n); err != nil {
		return fmt.Errorf("promote node %d: %w", n.Ordinal, err)
	}
	return nil
}

// leaveSource applies what was received and forgets the source.
func (s *session) leaveSource(ctx context.Context, f flavour) error {
	st, err := s.status(ctx, f)
	if err != nil || st == nil {
		return err
	}
	if st.receiverRuns() {
		if err := s.exec(ctx, f.dialect().stopReceiver); err != nil {
			return err
		}
	}
	if err := s.applyAll(ctx, f); err != nil {
		return err
	}
	return s.forget(ctx, f)
}

// applyAll waits until all that was received is applied. Asking again and again
// is quicker than the servers' own functions to wait.
func (s *session) applyAll(ctx context.Context, f flavour) error {
	for {
		st, err := s.status(ctx, f)
		if err != nil {
			return err
		}
		p, err := f.progress(ctx, s, st)
		if err != nil || p.applied >= p.received {
			return err
		}
		if !st.applierRuns() && st["Last_SQL_Error"] != "" {
			return fmt.Errorf("%w: %s", errStopped, st["Last_SQL_Error"])
		}
		if !st.applierRuns() {
			if err := s.exec(ctx, f.dialect().startApplier); err != nil {
				return err
			}
		}
		if err := pause(ctx, "apply what was received"); err != nil {
			return err
		}
	}
}

// takeOver makes a server that follows nobody a primary.
func (d *Driver) takeOver(ctx context.Context, s *session, f flavour, n engine.Node) error {
	readOnly, err := s.text(ctx, "SELECT @@GLOBAL.read_only")
	if err != nil {
		return err
	}
	if readOnly == "1" {
		// Nobody writes yet, so no acknowledgement is amiss, while the change of an
		// event would wait for a replica.
		if err := s.exec(ctx, "SET GLOBAL "+f.dialect().source+"_enabled = OFF"); err != nil {
			return err
		}
		d.restoreEvents(ctx, s, n)
	}
	if err := s.makeReplicaAccounts(ctx, n, false); err != nil {
		return err
	}
	if err := s.setRole(ctx, f, n); err != nil {
		return err
	}
	// Later it would wait behind a commit that waits for a replica.
	if err := s.endAsyncFlush(ctx, n); err != nil {
		return err
	}
	if !n.ReadOnly {
		if err := s.exec(ctx, "SET GLOBAL read_only = OFF"); err != nil {
			return err
		}
	}
	return s.exec(ctx, "SET GLOBAL event_scheduler = ON")
}

// setRole sets what depends on the role, but for what lets others write.
func (s *session) setRole(ctx context.Context, f flavour, n engine.Node) error {
	settings := []setting{
		{f.dialect().replica + "_enabled", replies(n), live},
		{f.dialect().source + "_enabled", semiSync(n) && !isReplica(n), live},
		durably("sync_binlog", n, 0),
		durably("innodb_flush_log_at_trx_commit", n, 2),
		transactionBound(n, tune(n.Plan)),
	}
	for _, w := range settings {
		if err := s.exec(ctx, "SET GLOBAL "+w.name+" = "+w.literal()); err != nil {
			return err
		}
	}
	return nil
}
