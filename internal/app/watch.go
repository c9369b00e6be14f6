package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/monitor"
	"steward/internal/outage"
	"steward/internal/probe"
	"steward/internal/watch"
)

// canaryTimeout bounds a look at a canary: what they are asked decides about
// outages of others, so they must be quick.
const canaryTimeout = 3 * time.Second

// desk opens and closes issues, and has contacts and the operator's channels told.
func (a *App) desk() outage.Desk {
	return outage.Desk{Channels: a.o.Notify.names(), Maintenance: a.o.Maintenance.Notify}
}

// openWatch makes what checks the services.
func (a *App) openWatch(context.Context) error {
	canaries, err := a.o.Monitor.canaries()
	if err != nil {
		return fmt.Errorf("monitor.canaries: %w", err)
	}
	rules := monitor.DefaultRules()
	rules.Confirm = a.o.Monitor.ConfirmAfter
	a.watcher = watch.New(watch.Options{
		Store: a.store, Prober: a.prober, Desk: a.desk(), Logger: a.log,
		Interval: a.o.Monitor.Interval, Rules: rules, Canaries: canaries,
	})
	return nil
}

// canaries are what the operator is sure of. One that is of a private network has
// its region before it: local=http://10.0.0.1/.
func (c MonitorConfig) canaries() ([]probe.Target, error) {
	var targets []probe.Target
	for _, text := range c.Canaries {
		region, address, found := strings.Cut(text, "=")
		if !found || strings.ContainsAny(region, ":/") {
			region, address = "", text
		}
		kind := monitor.TCP
		if strings.HasPrefix(address, "http") {
			kind = monitor.URL
		}
		parsed, err := monitor.ParseAddress(kind, address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		targets = append(targets, probe.Target{Address: parsed, Region: region, Timeout: canaryTimeout})
	}
	return targets, nil
}

// watchMetrics show what the monitor does, when scraped.
type watchMetrics struct {
	watcher *watch.Watcher
	gauges  []watchGauge
}

type watchGauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(watch.Stats) float64
}

func newWatchMetrics(w *watch.Watcher) *watchMetrics {
	m := &watchMetrics{watcher: w}
	add := func(kind prometheus.ValueType, name, help string, of func(watch.Stats) float64) {
		m.gauges = append(m.gauges, watchGauge{prometheus.NewDesc("steward_monitor_"+name, help, nil, nil), kind, of})
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	add(gauge, "services", "Services that this server checks.", func(s watch.Stats) float64 { return float64(s.Services) })
	add(gauge, "shards", "Shards of the services that this server has, of 256.", func(s watch.Stats) float64 { return float64(s.Shards) })
	add(gauge, "checks_running", "Checks that go on.", func(s watch.Stats) float64 { return float64(s.Running) })
	add(gauge, "changes_waiting", "Changes of status that the store hasn't taken yet.", func(s watch.Stats) float64 { return float64(s.WaitingChanges) })
	add(gauge, "samples_waiting", "Results that the store hasn't taken yet.", func(s watch.Stats) float64 { return float64(s.WaitingSamples) })
	add(counter, "checks_total", "Checks that this server made.", func(s watch.Stats) float64 { return float64(s.Checks) })
	add(counter, "checks_inconclusive_total", "Checks that said nothing, since the fault was on our side.", func(s watch.Stats) float64 { return float64(s.Inconclusive) })
	add(counter, "late_seconds_total", "By how much checks began after their turn, summed up.", func(s watch.Stats) float64 { return s.Late.Seconds() })
	return m
}

// Describe is part of prometheus.Collector.
func (m *watchMetrics) Describe(d chan<- *prometheus.Desc) {
	for _, g := range m.gauges {
		d <- g.desc
	}
}

// Collect is part of prometheus.Collector.
func (m *watchMetrics) Collect(out chan<- prometheus.Metric) {
	stats := m.watcher.Stats()
	for _, g := range m.gauges {
		out <- prometheus.MustNewConstMetric(g.desc, g.kind, g.of(stats))
	}
}
