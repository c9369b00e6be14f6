package app

import (
	"context"
	"time"

	"steward/internal/limit"
)

// Counts of requests are of use for a minute; what has expired may lie around
// for longer.
const (
	rateSweep    = limit.Window
	expiredSweep = time.Hour
)

// startSweeping removes what is of no use any more, now and then. Servers that
// share a store may do so at once.
func (a *App) startSweeping(ctx context.Context) {
	ctx, a.sweeping = context.WithCancel(context.WithoutCancel(ctx))
	sweep := func(every time.Duration, what string, f func(context.Context) error) {
		a.swept.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				if err := f(ctx); err != nil && ctx.Err() == nil {
					a.log.WarnContext(ctx, "sweep failed; it is tried again", "what", what, "error", err)
				}
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	sweep(rateSweep, "request counts", func(ctx context.Context) error { return a.store.PurgeRates(ctx, time.Now().Add(-2*limit.Window)) })
	sweep(expiredSweep, "audit trail", func(ctx context.Context) error {
		_, err := a.store.ExpireAudit(ctx, time.Now().Add(-a.o.Audit.Keep))
		return err
	})
	sweep(expiredSweep, "expired authorizations", a.control.Authorizations.Purge)
}

func (a *App) stopSweeping() {
	if a.sweeping != nil {
		a.sweeping()
	}
	a.swept.Wait()
}
