package mysql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"steward/internal/engine"
)

// sourceWait is how long Follow waits to hear from a source that is there
// whether it takes the replica.
const sourceWait = time.Second

// Follow implements engine.Replicator.
func (d *Driver) Follow(ctx context.Context, n engine.Node) (afresh bool, err error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return false, err
	}
	defer s.close()
	if afresh, err = d.follow(ctx, s, n); err != nil {
		return afresh, fmt.Errorf("node %d follows %s: %w", n.Ordinal, n.Source.Listen, err)
	}
	return afresh, nil
}

func (d *Driver) follow(ctx context.Context, s *session, n engine.Node) (afresh bool, err error) {
	f := flavourOf(n.Installation.Flavour)
	if err := d.stepDown(ctx, s, n); err != nil {
		return false, err
	}
	st, err := s.status(ctx, f)
	if err != nil {
		return false, err
	}
	ready, err := s.text(ctx, fmt.Sprintf("SELECT @@GLOBAL.%s_enabled = %t", f.dialect().replica, replies(n)))
	if err != nil {
		return false, err
	}
	if st.follows(n.Source) && st.receiverRuns() && st.applierRuns() && ready == "1" {
		return false, s.setRole(ctx, f, n)
	}
	return true, d.followAfresh(ctx, s, n, st, ready == "1")
}

// followAfresh starts the threads of a replica that don't run as they should. A server that starts both
// throws away what it had received and not applied.
func (d *Driver) followAfresh(ctx context.Context, s *session, n engine.Node, st status, ready bool) error {
	f := flavourOf(n.Installation.Flavour)
	if f.dialect().asyncFlush {
		if err := crashSafe(n); err != nil {
			return err
		}
		if err := noteAsyncFlush(n); err != nil {
			return err
		}
	}
	// A source that doesn't answer is followed when it does.
	source, err := d.peer(ctx, n)
	if err == nil {
		defer source.close()
		if err := s.compatible(ctx, f, source); err != nil {
			return err
		}
	}
	if err := s.start(ctx, f, n, st, ready); err != nil || source == nil {
		return err
	}
	return s.sourceAnswer(ctx, f, source)
}

// peer opens a session on the source, which runs on this machine and has our account.
func (d *Driver) peer(ctx context.Context, n engine.Node) (*session, error) {
	n.Ordinal, n.Run = n.Source.Ordinal, n.Source.Run
	return d.admin(ctx, n)
}

func (s *session) compatible(ctx context.Context, f flavour, source *session) error {
	st, err := source.status(ctx, f)
	if err != nil {
		return err
	}
	return f.compatible(ctx, s, source, st)
}

// start makes the replica's threads run. What it received of another source it
// fetches anew: after a failover the new source has all of that.
func (s *session) start(ctx context.Context, f flavour, n engine.Node, st status, ready bool) error {
	if st.follows(n.Source) && st["Last_IO_Errno"] == "0" {
		return s.resume(ctx, f, n, st, ready)
	}
	if st != nil {
		if err := s.forget(ctx, f); err != nil {
			return err
		}
	}
	if err := s.setRole(ctx, f, n); err != nil {
		return err
	}
	if err := f.setPosition(ctx, s, n); err != nil {
		return err
	}
	statements := slices.Concat(f.dialect().tuned, []string{f.changeSource(n), f.dialect().startAll})
	return s.exec(ctx, statements...)
}

// resume makes the threads of a replica run that has been following its source.
func (s *session) resume(ctx context.Context, f flavour, n engine.Node, st status, ready bool) error {
	if st.receiverRuns() && !ready {
		if err := s.exec(ctx, f.dialect().stopReceiver); err != nil {
			return err
		}
	}
	// The source learns of semi-sync when the receiver connects.
	if err := s.setRole(ctx, f, n); err != nil {
		return err
	}
	if !st.applierRuns() {
		if err := f.setPosition(ctx, s, n); err != nil {
			return err
		}
	}
	return s.exec(ctx, f.dialect().startAll)
}

// sourceAnswer returns what the source says. It may have to be asked again: a source that
// is being promoted doesn't know yet what it has received and not applied.
func (s *session) sourceAnswer(ctx context.Context, f flavour, source *session) error {
	refused := false // for good, as far as is known
	for end := time.Now().Add(sourceWait); time.Now().Before(end); {
		st, err := s.status(ctx, f)
		if err != nil || st.hears() {
			return err
		}
		if st.refused(f) {
			settled, err := source.settled(ctx, f)
			switch {
			case err != nil:
				return err
			case settled && refused:
				return fmt.Errorf("%w: %s", engine.ErrDiverged, st["Last_IO_Error"])
			}
			refused = refused || settled
			if err := s.exec(ctx, f.dialect().startAll); err != nil {
				return err
			}
		}
		if err := pause(ctx, "hear from the source"); err != nil {
			return err
		}
	}
	return nil
}

// refused reports whether the source turned the replica away for its history.
func (st status) refused(f flavour) bool {
	return !st.receiverRuns() && slices.Contains(f.dialect().forked, st["Last_IO_Errno"])
}

// settled reports whether the server has applied all it received.
func (s *session) settled(ctx context.Context, f flavour) (bool, error) {
	st, err := s.status(ctx, f)
	if err != nil {
		return false, err
	}
	p, err := f.progress(ctx, s, st)
	return p.applied >= p.received, err
}
