package process

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrEnded is Await's error for a process that ended before it answered.
var ErrEnded = errors.New("the process ended while it started")

// Await asks a process that starts, each time after a pause, until ask says that it is over, and returns ask's error then.
// It gives up with ErrEnded once the process has ended, and when ctx ends, with ask's last error beside that of ctx.
func (p *Process) Await(ctx context.Context, pause time.Duration, ask func(context.Context) (over bool, err error)) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		over, err := ask(ctx)
		if over {
			return err
		}
		select {
		case <-p.Done():
			return ErrEnded
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
