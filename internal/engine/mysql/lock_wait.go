package mysql

import (
	"context"
	"fmt"
	"time"

	"steward/internal/engine"
	"steward/internal/wait"
)

const (
	// copyLockWait is how long a copy waits for one lock. Others who need it queue
	// up behind the copy, so it doesn't insist for longer.
	copyLockWait = 30 * time.Second
	// lockLook is the time between two looks whether a copy waits.
	lockLook = 200 * time.Millisecond
	// killWithin bounds a server's answer to KILL.
	killWithin = 5 * time.Second
)

// waitingForLock are the ids of our own sessions that wait for somebody's lock.
// Other than the copy's none waits for as long as a copy may.
const waitingForLock = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '" + adminUser + "' AND HOST = 'localhost' " +
	"AND (STATE LIKE 'Waiting for % lock' OR STATE = 'Waiting for table flush')"

// boundLocks ends the context it returns, with engine.ErrBlocked as its cause, when
// the copy of the node waits for a lock for longer than it may. The program's
// own bound won't do: with it, it refuses to begin beside any long statement.
func (d *Driver) boundLocks(ctx context.Context, n engine.Node) (bounded context.Context, done func(), err error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	bounded, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		blocked, err := s.watchLocks(bounded, d.copyLockWait)
		stop(err)
		if blocked == "" {
			return
		}
		// Lest it wait on without a client, whose end has a cause by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWithin)
		defer cancel()
		if err := s.exec(ctx, "KILL "+blocked); err != nil {
			d.log.WarnContext(ctx, "end the waiting session of a copy", "error", err)
		}
	}()
	return bounded, func() { stop(nil); <-ended; s.close() }, nil
}

// watchLocks returns when a session of ours has waited for too long, which is blocked
// then, or can't be watched any more.
func (s *session) watchLocks(ctx context.Context, most time.Duration) (blocked string, err error) {
	since := map[string]time.Time{}
	for {
		waiting, err := s.rows(ctx, waitingForLock)
		if err != nil {
			return "", fmt.Errorf("watch what the copy waits for: %w", err)
		}
		now, still := time.Now(), map[string]time.Time{}
		for _, row := range waiting {
			id := row[0]
			began, known := since[id]
			if !known {
				began = now
			}
			if now.Sub(began) > most {
				return id, fmt.Errorf("%w for %s", engine.ErrBlocked, most)
			}
			still[id] = began
		}
		since = still
		if wait.Sleep(ctx, lockLook) != nil {
			return "", ctx.Err()
		}
	}
}
