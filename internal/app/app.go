// Package app wires everything into one process, as a value that commands and
// tests start and stop.
package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"steward/internal/alarm"
	"steward/internal/api"
	"steward/internal/archive"
	"steward/internal/audit"
	"steward/internal/catalog"
	"steward/internal/console"
	"steward/internal/control"
	"steward/internal/converge"
	"steward/internal/datadir"
	"steward/internal/embeddedpg"
	"steward/internal/failpoint"
	"steward/internal/limit"
	"steward/internal/meter"
	"steward/internal/metrics"
	"steward/internal/monitor"
	"steward/internal/netns"
	"steward/internal/notify"
	"steward/internal/notify/outbox"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform/host"
	"steward/internal/platform/regions"
	"steward/internal/probe"
	"steward/internal/recovery"
	"steward/internal/sample/collector"
	"steward/internal/seal"
	"steward/internal/store"
	"steward/internal/watch"
	"steward/internal/work"
)

// App is one steward process.
type App struct {
	o       Options
	dir     datadir.Dir
	log     *slog.Logger
	catalog *catalog.Catalog
	control *control.Control
	gateway openedGateway
	// serverNetworks are database servers' own; nil with HAProxy.
	serverNetworks *netns.Network
	sessionEnder   atomic.Pointer[host.Driver]
	host           *host.Driver
	// onHost reports whether any region is this host. Else it needs no gateway, no engines and no privileges.
	onHost bool
	// regions are this host and the platforms of others.
	regions  *regions.Router
	archive  *archive.Archive
	recovery *recovery.Keeper
	sealer   *seal.Sealer
	// server is the store's own; nil when the store is another one's.
	server   *embeddedpg.Server
	store    *store.Store
	work     *work.Work
	keeper   *converge.Keeper
	api      *api.API
	console  *console.Console // nil when there is none
	networks *monitor.Networks
	prober   *probe.Prober
	sources  *sources
	watcher  *watch.Watcher
	notices  *outbox.Outbox
	senders  map[string]notify.Sender
	audit    *audit.Recorder

	noticeMetrics *metrics.Notices

	collector *collector.Collector
	meter     *meter.Meter
	scraper   *meter.Scraper
	alarm     *alarm.Judge

	lock     *os.File
	listener net.Listener
	// metrics is where the registry is shown; nil when it is shown nowhere.
	metrics  net.Listener
	registry *prometheus.Registry
	// continuous reports whether what servers write between backups is archived.
	continuous bool
	// failed gets what ended the process against its will.
	failed chan error
	// services are in the order in which they start; the first started of them run.
	services []service
	started  int
}

// workers is how many operations are carried out at once: they mostly wait.
const workers = 32

// New makes a process that Start starts.
func New(o Options) *App {
	level := slog.LevelInfo
	if o.Debug {
		level = slog.LevelDebug
	}
	a := &App{o: o, failed: make(chan error, 1), log: slog.New(slog.NewTextHandler(o.Log, &slog.HandlerOptions{Level: level}))}
	a.services = a.all()
	return a
}

// URL is where the API answers.
func (a *App) URL() string { return "http://" + a.listener.Addr().String() }

// wire makes the verbs and the API of what is open.
func (a *App) wire(ctx context.Context) error {
	ports, err := a.o.Gateway.PortRange()
	if err != nil {
		return err
	}
	if a.o.AutoSuspend.IdleMinutes > 0 && !a.host.CanSleep() {
		return errors.New("auto_suspend.idle_minutes: databases can sleep only with the kernel's gateway: leave it out, or set gateway.driver to kernel")
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
		Store: a.store, Catalog: a.catalog, Continuous: a.continuous, Backups: a.archive != nil, Verified: a.o.Backups.Verify, KeepFinal: a.o.Backups.KeepFinal, Ports: ports, PortUsable: a.host.PortUsable,
		CanSleep: a.host.CanSleep(), AutoSuspend: a.o.AutoSuspend.IdleMinutes, Pools: a.pools(), Logger: a.log,
		LoginsPerMinute: a.o.Limits.LoginsPerMinute,
		Quotas:          a.o.DefaultQuotas(),
		Checks:          control.CheckQuota{PerAccount: a.o.Limits.ChecksPerMinute, PerHost: a.o.Limits.HostChecksPerMinute, Interval: a.o.Monitor.Interval},
		Platform:        a.regions,
		Sources:         a.sources,
		Networks:        a.networks, Issues: a.issueTracker(), Now: failpoint.Now,
		SharedRates: a.sharedRates(), OnlyServer: a.server != nil, // the data folder is locked, and its store is nobody else's
		Enqueue: a.enqueue, Measurements: a.meter, Scraper: a.scraper, Senders: a.senders,
	})
	a.audit = audit.New(a.store, a.log)
	a.registry = prometheus.NewRegistry()
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics.NewDatabases(a.store, a.host), metrics.NewRegions(a.regions), metrics.NewMonitor(a.watcher), metrics.NewMeter(a.meter), a.noticeMetrics)
	proxies, err := a.o.Server.Proxies()
	if err != nil {
		return err
	}
	a.api = api.New(api.Options{
		Control: a.control, Catalog: a.catalog, Logger: a.log, Registry: a.registry, Ready: a.store.Ping, Origin: a.o.CORS.Origin,
		RequestsPerMinute: a.o.Limits.RequestsPerMinute, StatsPerMinute: a.o.Limits.StatsPerMinute, FailedLoginsPerMinute: a.o.Limits.FailedLoginsPerMinute,
		Audit: a.audit.Record, TrustedProxies: proxies, Now: failpoint.Now,
		ConsoleRedirect: a.consoleRedirect(), FirstLink: a.firstLink(), Installation: installation{a},
	})
	if err := a.openConsole(); err != nil {
		return err
	}
	return a.store.WakeAll(ctx) // a predecessor may have died in the middle of any
}

// enqueue wakes the workers for an operation once tx commits.
func (a *App) enqueue(ctx context.Context, tx *store.Tx, id operation.ID) error {
	return a.work.Enqueue(ctx, tx.Pgx(), id)
}

// sharedRates is where servers of one store count requests together; nil while the
// store is this server's own.
func (a *App) sharedRates() limit.Shared {
	if a.server != nil {
		return nil
	}
	return a.store
}
