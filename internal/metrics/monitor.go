package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/watch"
)

// Monitor show what the monitor does, when scraped.
type Monitor struct {
	watcher *watch.Watcher
	gauges  []monitorGauge
}

type monitorGauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(watch.Stats) float64
}

// NewMonitor makes a collector of a watcher's statistics.
func NewMonitor(w *watch.Watcher) *Monitor {
	m := &Monitor{watcher: w}
	add := func(kind prometheus.ValueType, name, help string, of func(watch.Stats) float64) {
		m.gauges = append(m.gauges, monitorGauge{prometheus.NewDesc("steward_monitor_"+name, help, nil, nil), kind, of})
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	add(gauge, "services", "Services that this server checks.", func(s watch.Stats) float64 { return float64(s.Services) })
	add(gauge, "shards", "Shards of the services that this server has, of 256.", func(s watch.Stats) float64 { return float64(s.Shards) })
	add(gauge, "checks_running", "Checks that go on.", func(s watch.Stats) float64 { return float64(s.Running) })
	add(gauge, "changes_waiting", "Changes of status that the store hasn't taken yet.", func(s watch.Stats) float64 { return float64(s.WaitingChanges) })
	add(gauge, "samples_waiting", "Results that the store hasn't taken yet.", func(s watch.Stats) float64 { return float64(s.WaitingSamples) })
	add(counter, "checks_total", "Checks that this server made.", func(s watch.Stats) float64 { return float64(s.Checks) })
	add(counter, "checks_inconclusive_total", "Checks that said nothing, since the fault was on our side.", func(s watch.Stats) float64 { return float64(s.Inconclusive) })
	add(counter, "late_seconds_total", "By how much checks began after their slot, summed up.", func(s watch.Stats) float64 { return s.Late.Seconds() })
	return m
}

// Describe implements prometheus.Collector.
func (m *Monitor) Describe(d chan<- *prometheus.Desc) {
	for _, g := range m.gauges {
		d <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (m *Monitor) Collect(out chan<- prometheus.Metric) {
	stats := m.watcher.Stats()
	for _, g := range m.gauges {
		out <- prometheus.MustNewConstMetric(g.desc, g.kind, g.of(stats))
	}
}
