package host

import (
	"context"
	"sync/atomic"
	"time"

	"steward/internal/wait"
)

// activity counts what is being done to clusters: copying and deleting files wait for a
// quiet moment.
type activity struct{ working atomic.Int32 }

// begin counts some work as under way until the returned function is called.
func (a *activity) begin() (end func()) {
	a.working.Add(1)
	return func() { a.working.Add(-1) }
}

func (a *activity) busy() bool { return a.working.Load() > 0 }

// quiet waits until nothing has been done for a moment; false when the context ended.
func (a *activity) quiet(ctx context.Context) bool {
	const moment = 100 * time.Millisecond
	for calm := time.Duration(0); calm < moment; {
		const look = 25 * time.Millisecond
		if wait.Sleep(ctx, look) != nil {
			return false
		}
		if a.busy() {
			calm = 0
		} else {
			calm += look
		}
	}
	return true
}
