package metrics

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/cluster"
	"steward/internal/platform/host"
	"steward/internal/store"
)

// Databases shows databases and their servers, looked up when scraped.
type Databases struct {
	store *store.Store
	host  *host.Driver

	databases, used, run       *prometheus.Desc
	streams, lag, primaryMoves *prometheus.Desc
	sleeping, wakes, wakeTime  *prometheus.Desc
}

// NewDatabases makes a collector of what the store and the host know.
func NewDatabases(s *store.Store, h *host.Driver) *Databases {
	return &Databases{
		store: s, host: h,
		databases:    prometheus.NewDesc("steward_database_status", "1 for the status that a database has.", []string{"id", "label", "engine", "status"}, nil),
		used:         prometheus.NewDesc("steward_database_used_bytes", "Disk in use by a database.", []string{"id"}, nil),
		run:          prometheus.NewDesc("steward_node_running", "1 while a server process runs.", []string{"id", "ordinal", "role"}, nil),
		streams:      prometheus.NewDesc("steward_node_streaming", "1 while a replica receives what its primary writes.", []string{"id", "ordinal"}, nil),
		lag:          prometheus.NewDesc("steward_node_lag_seconds", "For how long the oldest change that a replica received waits to be applied.", []string{"id", "ordinal"}, nil),
		primaryMoves: prometheus.NewDesc("steward_database_failovers_total", "Changes of a database's primary, planned ones included.", []string{"id"}, nil),
		sleeping:     prometheus.NewDesc("steward_databases_sleeping", "Databases that sleep.", nil, nil),
		wakes:        prometheus.NewDesc("steward_database_wakes_total", "Databases that were woken, or couldn't be.", []string{"result"}, nil),
		wakeTime:     prometheus.NewDesc("steward_database_wake_seconds_total", "How long those took that were woken.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Databases) Describe(d chan<- *prometheus.Desc) {
	d <- c.databases
	d <- c.used
	d <- c.run
	d <- c.streams
	d <- c.lag
	d <- c.primaryMoves
	d <- c.sleeping
	d <- c.wakes
	d <- c.wakeTime
}

// Collect implements prometheus.Collector.
func (c *Databases) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	all, err := c.store.ClustersForWork(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.databases, err)
		return
	}
	for _, db := range all {
		if db.Deleted != nil {
			continue
		}
		id := strconv.FormatInt(int64(db.ID), 10)
		out <- prometheus.MustNewConstMetric(c.databases, prometheus.GaugeValue, 1, id, db.Label, db.EngineID(), string(db.Status))
		if db.UsedBytes != nil {
			out <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, float64(*db.UsedBytes), id)
		}
	}
	c.sleep(out, c.host.SleepStats())
	nodes, err := c.host.Nodes()
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.run, err)
		return
	}
	for _, n := range nodes {
		c.node(out, n)
	}
}

func (c *Databases) node(out chan<- prometheus.Metric, n host.NodeInfo) {
	id, ordinal := strconv.FormatInt(int64(n.Cluster), 10), strconv.Itoa(n.Ordinal)
	out <- prometheus.MustNewConstMetric(c.run, prometheus.GaugeValue, one(n.Running), id, ordinal, string(n.Role))
	if n.Role == cluster.Primary {
		out <- prometheus.MustNewConstMetric(c.primaryMoves, prometheus.CounterValue, float64(n.Failovers), id)
		return
	}
	out <- prometheus.MustNewConstMetric(c.streams, prometheus.GaugeValue, one(n.Streaming), id, ordinal)
	out <- prometheus.MustNewConstMetric(c.lag, prometheus.GaugeValue, n.LagSeconds, id, ordinal)
}

func (c *Databases) sleep(out chan<- prometheus.Metric, s host.SleepStats) {
	out <- prometheus.MustNewConstMetric(c.sleeping, prometheus.GaugeValue, float64(s.Sleeping))
	out <- prometheus.MustNewConstMetric(c.wakes, prometheus.CounterValue, float64(s.Wakes), "awake")
	out <- prometheus.MustNewConstMetric(c.wakes, prometheus.CounterValue, float64(s.WakesInVain), "failed")
	out <- prometheus.MustNewConstMetric(c.wakeTime, prometheus.CounterValue, s.WakeTime.Seconds())
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
