package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ seconds *prometheus.HistogramVec }

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "steward_http_request_seconds", Help: "Time to answer requests, by route and status.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
	}, []string{"route", "status"})}
	registry.MustRegister(m.seconds)
	return m
}

// request counts one. Unknown paths share one label, so that strangers can't
// make the metrics grow.
func (m *metrics) request(_, route string, status int, took time.Duration) {
	if route == "" {
		route = "none"
	}
	m.seconds.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}
