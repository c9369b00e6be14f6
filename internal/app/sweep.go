package app

import (
	"context"
	"time"

	"steward/internal/limit"
	"steward/internal/wait"
)

// expiredSweep is between two removals of what has expired, which may lie around
// for longer than counts of requests.
const expiredSweep = time.Hour

// sweep removes what is of no use any more, at once and then now and then. Servers
// that share a store may do so at the same time.
func (a *App) sweep(what string, every time.Duration, remove func(context.Context) error) service {
	return background("sweep of "+what, func(ctx context.Context) {
		wait.Repeat(ctx, every, func() {
			if err := remove(ctx); err != nil && ctx.Err() == nil {
				a.log.WarnContext(ctx, "sweep failed; it is tried again", "what", what, "error", err)
			}
		})
	})
}

func (a *App) sweepRates(ctx context.Context) error {
	return a.store.PurgeRates(ctx, time.Now().Add(-2*limit.Window))
}

func (a *App) sweepAudit(ctx context.Context) error {
	_, err := a.store.ExpireAudit(ctx, time.Now().Add(-a.o.Audit.Keep))
	return err
}
