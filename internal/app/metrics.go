package app

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/platform/host"
	"steward/internal/store"
)

// clusterCollector shows databases and their servers, looked up when scraped.
type clusterCollector struct {
	store                *store.Store
	host                 *host.Driver
	databases, used, run *prometheus.Desc
}

func newClusterCollector(s *store.Store, h *host.Driver) *clusterCollector {
	return &clusterCollector{
		s, h,
		prometheus.NewDesc("steward_database_status", "1 for the status that a database has.", []string{"id", "label", "engine", "status"}, nil),
		prometheus.NewDesc("steward_database_used_bytes", "Disk in use by a database.", []string{"id"}, nil),
		prometheus.NewDesc("steward_node_running", "1 while a server process runs.", []string{"id", "ordinal", "role"}, nil),
	}
}

// Describe is part of prometheus.Collector.
func (c *clusterCollector) Describe(d chan<- *prometheus.Desc) {
	d <- c.databases
	d <- c.used
	d <- c.run
}

// Collect is part of prometheus.Collector.
func (c *clusterCollector) Collect(out chan<- prometheus.Metric) {
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
	nodes, err := c.host.Nodes()
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.run, err)
		return
	}
	for _, n := range nodes {
		running := 0.0
		if n.Running {
			running = 1
		}
		out <- prometheus.MustNewConstMetric(c.run, prometheus.GaugeValue, running, strconv.FormatInt(int64(n.Cluster), 10), strconv.Itoa(n.Ordinal), string(n.Role))
	}
}
