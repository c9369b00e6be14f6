package mysql

import (
	"cmp"
	"context"
	"fmt"

	"steward/internal/engine"
)

// releaseWait is how long writers may take to go once nothing holds them, in seconds.
const releaseWait = 10

// stepDown stops the customers' events, then the customers.
func (d *Driver) stepDown(ctx context.Context, s *session, n engine.Node) error {
	if err := s.exec(ctx, "SET GLOBAL event_scheduler = OFF"); err != nil {
		return err
	}
	on, err := s.text(ctx, "SELECT @@GLOBAL.read_only")
	if err != nil || on == "1" {
		return err
	}
	if !semiSync(n) {
		return s.guard(ctx, guardTries)
	}
	if err := s.guard(ctx, 2); !is(err, errLockWaitTimeout) {
		return err
	}
	return d.release(ctx, s, n)
}

// release steps down while commits wait for a replica's acknowledgement, which
// MySQL goes on doing for a session that is killed. Once read_only waits, new
// writes wait behind it. Then all who wrote before lose their connections, so
// that no acknowledgement reaches them, and only then nobody waits any more.
func (d *Driver) release(ctx context.Context, s *session, n engine.Node) error {
	other, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer other.close()
	id, err := s.text(ctx, "SELECT CONNECTION_ID()")
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		done <- s.exec(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", releaseWait), "SET GLOBAL read_only = ON")
	}()
	waits := "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for%lock' AND ID = " + id
	for {
		select {
		case err := <-done:
			return err
		default:
		}
		if there, err := other.text(ctx, waits); err != nil || there == "1" {
			if err == nil {
				err = other.endWaiting(ctx, n)
			}
			return cmp.Or(err, <-done)
		}
		if err := pause(ctx, "step down"); err != nil {
			return cmp.Or(err, <-done)
		}
	}
}

// endWaiting has no commit wait for a replica, and no client hear of one.
func (s *session) endWaiting(ctx context.Context, n engine.Node) error {
	source := flavourOf(n.Installation.Flavour).dialect().source
	if err := s.kill(ctx, s.customers); err != nil {
		return err
	}
	return s.exec(ctx, "SET GLOBAL "+source+"_enabled = OFF")
}
