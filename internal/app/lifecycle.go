package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"steward/internal/api"
	"steward/internal/limit"
)

// service is a part of the process that runs between start and stop. A nil stop
// is that of a part whose closing ends it.
type service struct {
	name  string
	start func(context.Context) error
	stop  func() error
}

// Bounds on how long stopping waits for what is going on.
const (
	drainTime = 10 * time.Second
	passTime  = 15 * time.Second
)

// openServices lists all services, each after those that it needs.
func (a *App) openServices(context.Context) error {
	loads, err := a.loads()
	if err != nil {
		return err
	}
	a.services = []service{
		{name: "host", start: immediate(a.host.Start)},
		{name: "workers", start: a.work.Start, stop: a.stopWork},
		{name: "upkeep", start: func(ctx context.Context) error { a.keeper.Start(ctx); return nil }, stop: finally(a.keeper.Stop)},
		background("monitor", a.watcher.Run),
		background("notices", a.notices.Run),
		a.sweep("request counts", limit.Window, a.sweepRates),
		a.sweep("audit trail", expiredSweep, a.sweepAudit),
		a.sweep("expired authorizations", expiredSweep, a.control.Authorizations.Purge),
		{name: "audit", start: immediate(a.audit.Start), stop: finally(a.audit.Stop)},
		background("loads", loads.Run),
		a.serving("metrics", a.metrics, api.NewServer(a.showMetrics(), a.log)),
		// Last, so that it is stopped first: the lines that its last requests hand to the
		// audit trail are still taken.
		a.serving("API", a.listener, a.api.Server()),
	}
	return nil
}

// Start begins to serve, to carry operations out and to look after databases.
// Stop must follow, also when it fails.
func (a *App) Start(ctx context.Context) error {
	for _, s := range a.services {
		if err := s.start(ctx); err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
		if s.stop == nil {
			continue
		}
		a.later(func() error {
			if err := s.stop(); err != nil {
				return fmt.Errorf("stop %s: %w", s.name, err)
			}
			return nil
		})
	}
	return nil
}

// Stop ends the services in the reverse of their order, lets requests and passes
// end, within bounds, and closes everything. Databases and the gateway run on.
func (a *App) Stop() error {
	var err error
	a.stop.Do(func() { err = a.close() })
	return err
}

// later keeps the partner of what was opened or started for close.
func (a *App) later(undo func() error) { a.undo = append(a.undo, undo) }

func (a *App) close() error {
	var errs []error
	for i := len(a.undo) - 1; i >= 0; i-- {
		errs = append(errs, a.undo[i]())
	}
	a.undo = nil
	return errors.Join(errs...)
}

// immediate is a start that can't fail.
func immediate(start func()) func(context.Context) error {
	return func(context.Context) error { start(); return nil }
}

// finally is a stop that can't fail.
func finally(stop func()) func() error {
	return func() error { stop(); return nil }
}

// background is a service that is one call, which returns some time after its
// context has ended.
func background(name string, run func(context.Context)) service {
	var cancel context.CancelFunc
	var running sync.WaitGroup
	return service{
		name: name,
		start: func(ctx context.Context) error {
			ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
			running.Go(func() { run(ctx) })
			return nil
		},
		stop: func() error { cancel(); running.Wait(); return nil },
	}
}

func (a *App) stopWork() error {
	ctx, cancel := context.WithTimeout(context.Background(), passTime)
	defer cancel()
	return a.work.Stop(ctx)
}

// serving answers requests that come in by a listener, if there is one.
func (a *App) serving(name string, l net.Listener, server *http.Server) service {
	var served sync.WaitGroup
	return service{
		name: name,
		start: func(context.Context) error {
			if l == nil {
				return nil
			}
			served.Go(func() {
				if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
					select {
					case a.failed <- fmt.Errorf("serve: %w", err):
					default: // another one has failed already
					}
				}
			})
			return nil
		},
		stop: func() (err error) {
			ctx, cancel := context.WithTimeout(context.Background(), drainTime)
			defer cancel()
			if err = server.Shutdown(ctx); err != nil {
				err = errors.Join(fmt.Errorf("finish requests: %w", err), server.Close())
			}
			served.Wait()
			return err
		},
	}
}
