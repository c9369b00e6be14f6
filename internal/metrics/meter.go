package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/meter"
)

// Meter shows what measuring databases takes, when scraped.
type Meter struct {
	meter                               *meter.Meter
	databases, waiting, readings, spent *prometheus.Desc
}

// NewMeter makes a collector of a meter's statistics.
func NewMeter(m *meter.Meter) *Meter {
	return &Meter{
		meter:     m,
		databases: prometheus.NewDesc("steward_meter_databases", "Databases that this server measures.", nil, nil),
		waiting:   prometheus.NewDesc("steward_meter_slices_waiting", "Half minutes of nodes that the store hasn't taken yet.", nil, nil),
		readings:  prometheus.NewDesc("steward_meter_readings_total", "Readings of databases, and those that failed or took too long.", []string{"result"}, nil),
		spent:     prometheus.NewDesc("steward_meter_reading_seconds_total", "How long they took, summed up.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Meter) Describe(d chan<- *prometheus.Desc) {
	d <- c.databases
	d <- c.waiting
	d <- c.readings
	d <- c.spent
}

// Collect implements prometheus.Collector.
func (c *Meter) Collect(out chan<- prometheus.Metric) {
	s := c.meter.Stats()
	out <- prometheus.MustNewConstMetric(c.databases, prometheus.GaugeValue, float64(s.Databases))
	out <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(s.WaitingSlices))
	out <- prometheus.MustNewConstMetric(c.readings, prometheus.CounterValue, float64(s.Readings-s.Failed), "done")
	out <- prometheus.MustNewConstMetric(c.readings, prometheus.CounterValue, float64(s.Failed), "failed")
	out <- prometheus.MustNewConstMetric(c.spent, prometheus.CounterValue, s.Took.Seconds())
}
