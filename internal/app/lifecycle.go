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

// service is a part of the process that runs between start and stop. One whose
// start failed has ended what it began.
type service struct {
	name  string
	start func(context.Context) error
	// stop ends it before the context does; nil where there is nothing to end.
	stop func(context.Context) error
}

// Bounds on how long stopping waits for what is going on.
const (
	drainTime = 10 * time.Second
	stopTime  = 15 * time.Second
)

// all lists the services, each after those that it needs.
func (a *App) all() []service {
	return []service{
		{"data folder", a.openData, func(context.Context) error { return a.lock.Close() }},
		{"listener", a.listen, func(context.Context) error { return closeListener(a.listener) }},
		{"listener for metrics", a.listenForMetrics, func(context.Context) error { return closeListener(a.metrics) }},
		{"secrets", a.openSealer, func(context.Context) error { return a.sealer.Close() }},
		{"store's server", a.startServer, finally(func() { a.leaveServer() })},
		{"store", a.openStore, finally(func() { a.store.Close() })},
		{"gateway", a.openGateway, finally(func() { a.closeGateway() })},
		{"host", a.openHost, finally(func() { a.host.Close() })},
		{"catalog", a.openCatalog, nil},
		{"regions", a.openRegions, finally(func() { a.regions.Close() })},
		{"archive", a.openArchive, func(context.Context) error { return a.archive.Close() }},
		{"ids of backups", a.reserveIDs, nil},
		{"probe", a.openProbe, nil},
		{"sources", a.openSources, nil},
		{"monitor", a.openWatch, nil},
		{"notices", a.openNotices, nil},
		{"samples", a.openCollector, nil},
		{"measurements", a.openMeter, nil},
		{"alerts", a.openAlarm, nil},
		{"wiring", a.wire, nil},
		{"first token", a.firstToken, nil},
		{"first machine", a.firstMachine, nil},
		{"host's upkeep", func(context.Context) error { a.host.Start(); return nil }, nil}, // its Close ends both
		{"workers", func(ctx context.Context) error { return a.work.Start(ctx) }, func(ctx context.Context) error { return a.work.Stop(ctx) }},
		{"upkeep", func(ctx context.Context) error { a.keeper.Start(ctx); return nil }, finally(func() { a.keeper.Stop() })},
		background("checks", func(ctx context.Context) { a.watcher.Run(ctx) }),
		background("outbox", func(ctx context.Context) { a.notices.Run(ctx) }),
		a.sweep("request counts", limit.Window, a.sweepRates),
		a.sweep("audit trail", expiredSweep, a.sweepAudit),
		a.sweep("expired authorizations", expiredSweep, func(ctx context.Context) error { return a.control.Authorizations.Purge(ctx) }),
		a.sweep("console's sessions", expiredSweep, a.sweepConsole),
		{"audit", func(context.Context) error { a.audit.Start(); return nil }, finally(func() { a.audit.Stop() })},
		background("meter", func(ctx context.Context) {
			if a.o.Metrics.Databases {
				a.meter.Run(ctx)
			}
		}),
		background("alarm", func(ctx context.Context) {
			if a.o.Metrics.Databases {
				a.alarm.Run(ctx)
			}
		}),
		background("collector", func(ctx context.Context) { a.collector.Run(ctx) }),
		a.serving("metrics", func() (net.Listener, *http.Server) { return a.metrics, api.NewServer(a.showMetrics(), a.log) }),
		// Stopped after the API: so the API's stop ends streams, before it waits for requests.
		background("events", func(ctx context.Context) { a.control.Events.Hub.Run(ctx) }),
		// Last, so that it is stopped first: the lines that its last requests hand to the
		// audit trail are still taken.
		a.serving("API", func() (net.Listener, *http.Server) {
			server := api.NewServer(a.front(), a.log)
			server.RegisterOnShutdown(a.control.Events.Hub.Close)
			return a.listener, server
		}),
	}
}

// Start starts all services, and stops those that it started when one fails.
func (a *App) Start(ctx context.Context) error {
	for _, s := range a.services {
		if err := s.start(ctx); err != nil {
			return errors.Join(err, a.Stop())
		}
		a.started++
	}
	return nil
}

// Stop ends the services in the reverse of their order, and lets requests and passes
// end within bounds. Databases and the gateway run on.
func (a *App) Stop() error {
	var errs []error
	for ; a.started > 0; a.started-- {
		s := a.services[a.started-1]
		if s.stop == nil {
			continue
		}
		if err := stopWithin(stopTime, s.stop); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

func stopWithin(bound time.Duration, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return stop(ctx)
}

// finally is a stop that can't fail.
func finally(stop func()) func(context.Context) error {
	return func(context.Context) error { stop(); return nil }
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
		stop: func(context.Context) error { cancel(); running.Wait(); return nil },
	}
}

// serving answers requests that arrive at a listener, if there is one.
func (a *App) serving(name string, open func() (net.Listener, *http.Server)) service {
	var server *http.Server
	var served sync.WaitGroup
	return service{
		name: name,
		start: func(context.Context) error {
			var l net.Listener
			if l, server = open(); l == nil {
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
		stop: func(ctx context.Context) (err error) {
			ctx, cancel := context.WithTimeout(ctx, drainTime)
			defer cancel()
			if err = server.Shutdown(ctx); err != nil {
				err = errors.Join(fmt.Errorf("finish requests: %w", err), server.Close())
			}
			served.Wait()
			return err
		},
	}
}
