package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/platform/regions"
)

// Regions shows which regions can be reached that have a platform of their own.
type Regions struct {
	router *regions.Router
	up     *prometheus.Desc
	since  *prometheus.Desc
}

// NewRegions makes a collector of what a router knows.
func NewRegions(r *regions.Router) *Regions {
	return &Regions{
		router: r,
		up:     prometheus.NewDesc("steward_region_reachable", "1 while a region's platform can be reached.", []string{"region"}, nil),
		since:  prometheus.NewDesc("steward_region_changed_timestamp_seconds", "Since when a region can be reached, or can't.", []string{"region"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Regions) Describe(d chan<- *prometheus.Desc) {
	d <- c.up
	d <- c.since
}

// Collect implements prometheus.Collector.
func (c *Regions) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.router.States() {
		out <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, one(s.Away == nil), s.Region)
		out <- prometheus.MustNewConstMetric(c.since, prometheus.GaugeValue, float64(s.Since.Unix()), s.Region)
	}
}
