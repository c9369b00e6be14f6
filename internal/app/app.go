// Package app wires everything into one process, as a value that commands and
// tests start and stop.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"steward/internal/api"
	"steward/internal/archive"
	"steward/internal/audit"
	"steward/internal/catalog"
	"steward/internal/control"
	"steward/internal/converge"
	"steward/internal/datadir"
	"steward/internal/embeddedpg"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/metrics"
	"steward/internal/monitor"
	"steward/internal/notify/outbox"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/platform/host"
	"steward/internal/probe"
	"steward/internal/recovery"
	"steward/internal/seal"
	"steward/internal/store"
	"steward/internal/watch"
	"steward/internal/work"
)

// App is one steward process.
type App struct {
	o       Options
	paths   datadir.Dir
	log     *slog.Logger
	catalog *catalog.Catalog
	control *control.Control
	host    *host.Driver
	// archiver and archive are nil on a platform that takes no backups.
	archiver platform.Archiver
	archive  *archive.Archive
	recovery *recovery.Keeper
	sealer   *seal.Sealer
	store    *store.Store
	work     *work.Work
	keeper   *converge.Keeper
	api      *api.API
	networks *monitor.Networks
	prober   *probe.Prober
	watcher  *watch.Watcher
	notices  *outbox.Outbox
	audit    *audit.Recorder

	noticeMetrics *metrics.Notices

	listener net.Listener
	// metrics is where the registry is shown; nil when it is shown nowhere.
	metrics  net.Listener
	registry *prometheus.Registry
	// services run from Start until Stop.
	services []service
	// failed gets what ended the process against its will.
	failed chan error
	// undo are the partners of what New opened and Start started, to be run in reverse.
	undo []func() error
	stop sync.Once
}

// workers is how many operations are carried out at once: they mostly wait.
const workers = 16

// New opens everything, in the order in which parts need each other. What it
// opened is closed again when it fails.
func New(ctx context.Context, o Options) (a *App, err error) {
	a = &App{o: o, failed: make(chan error, 1)}
	level := slog.LevelInfo
	if o.Debug {
		level = slog.LevelDebug
	}
	a.log = slog.New(slog.NewTextHandler(o.Log, &slog.HandlerOptions{Level: level}))
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if a.paths, err = datadir.Open(o.Data); err != nil {
		return a, err
	}
	steps := []func(context.Context) error{
		a.lock, a.listen, a.listenForMetrics, a.openStore, a.openPlatform, a.openArchive, a.openProbe, a.openWatch, a.openNotices, a.wire, a.openServices, a.firstToken, a.firstCompute,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (a *App) lock(context.Context) error {
	lock, err := a.paths.Lock()
	if err != nil {
		return err
	}
	a.later(lock.Close)
	return nil
}

func (a *App) listen(ctx context.Context) error {
	var err error
	if a.listener, err = a.listenOn(ctx, a.o.Listen); err != nil {
		return fmt.Errorf("listen (--listen): %w", err)
	}
	return nil
}

func (a *App) listenOn(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	a.later(func() error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return l, nil
}

func (a *App) openStore(ctx context.Context) error {
	sealer, err := a.paths.OpenSealer(ctx, a.o.Config)
	if err != nil {
		return err
	}
	a.sealer = sealer
	url := a.o.Store
	if url == "" {
		embedded, err := embeddedpg.Start(ctx, embeddedpg.Options{Dir: a.paths.Store(), RunDir: a.paths.StoreRun(), Logger: a.log})
		if err != nil {
			return err
		}
		a.later(func() error { embedded.Leave(); return nil })
		url = embedded.URL()
	}
	a.store, err = store.Open(ctx, store.Options{URL: url, Sealer: sealer, Logger: a.log, MaxConns: workers + 16, Now: failpoint.Now})
	if err != nil {
		return err
	}
	a.later(func() error { a.store.Close(); return nil })
	return nil
}

func (a *App) openPlatform(ctx context.Context) error {
	ports, err := a.o.Gateway.PortRange()
	if err != nil {
		return err
	}
	options, err := a.paths.GatewayOptions(a.o.Config, a.log)
	if err != nil {
		return err
	}
	g, err := gateway.Open(ctx, options)
	if err != nil {
		return err
	}
	a.later(func() error { g.Close(); return nil })
	hostOptions, err := a.paths.HostOptions(a.o.Config, a.log)
	if err != nil {
		return err
	}
	hostOptions.Gateway, hostOptions.Secrets = g, a.store
	a.host, err = host.New(ctx, hostOptions)
	if err != nil {
		return err
	}
	a.later(func() error { a.host.Close(); return nil })
	for _, note := range a.host.Notes() {
		a.log.WarnContext(ctx, "an engine can't be used", "error", note)
	}
	if a.catalog, err = a.o.Catalog.Load(a.host.Engines()); err != nil {
		return err
	}
	return a.checkPorts(ctx, ports)
}

// checkPorts refuses a range that leaves out databases that exist: their
// addresses and users follow from it.
func (a *App) checkPorts(ctx context.Context, ports [2]int) error {
	all, err := a.store.ClustersForWork(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Port < ports[0] || c.Port > ports[1] {
			return fmt.Errorf("gateway.ports %d-%d leaves out database %d (%s) at port %d: widen the range", ports[0], ports[1], c.ID, c.Label, c.Port)
		}
	}
	return nil
}

func (a *App) wire(ctx context.Context) error {
	ports, err := a.o.Gateway.PortRange()
	if err != nil {
		return err
	}
	operator := operate.New(a.operateOptions())
	a.work, err = work.New(a.store.Pool(), work.Options{Workers: workers, Run: operator.Run, Due: a.store.DueOperations, Logger: a.log})
	if err != nil {
		return err
	}
	keeperOptions, err := a.keeperOptions()
	if err != nil {
		return err
	}
	a.keeper = converge.New(keeperOptions)
	a.control = control.New(control.Deps{
		Store: a.store, Catalog: a.catalog, Backups: a.archiver != nil, Continuous: a.o.Backups.Continuous, Ports: ports, PortUsable: a.host.PortUsable, Logger: a.log,
		LoginsPerMinute: a.o.Limits.LoginsPerMinute,
		Quotas:          a.o.DefaultQuotas(),
		Checks:          control.CheckQuota{PerAccount: a.o.Limits.ChecksPerMinute, PerHost: a.o.Limits.HostChecksPerMinute, Interval: a.o.Monitor.Interval},
		Networks:        a.networks, Desk: a.desk(), Now: failpoint.Now,
		OnlyServer: a.o.Store == "", // the data folder is locked, and its store is nobody else's
		Enqueue: func(ctx context.Context, tx *store.Tx, id operation.ID) error {
			return a.work.Enqueue(ctx, tx.Pgx(), id)
		},
	})
	a.audit = audit.New(a.store, a.log)
	a.registry = prometheus.NewRegistry()
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics.NewDatabases(a.store, a.host), metrics.NewMonitor(a.watcher), a.noticeMetrics)
	proxies, err := a.o.Server.Proxies()
	if err != nil {
		return err
	}
	a.api = api.New(api.Options{
		Control: a.control, Catalog: a.catalog, Logger: a.log, Registry: a.registry, Ready: a.store.Ping, Origin: a.o.CORS.Origin,
		RequestsPerMinute: a.o.Limits.RequestsPerMinute, StatsPerMinute: a.o.Limits.StatsPerMinute, FailedLoginsPerMinute: a.o.Limits.FailedLoginsPerMinute,
		Audit: a.audit.Record, TrustedProxies: proxies, Now: failpoint.Now,
	})
	return a.store.WakeAll(ctx) // a predecessor may have died in the middle of any
}

// URL is where the API answers.
func (a *App) URL() string { return "http://" + a.listener.Addr().String() }
