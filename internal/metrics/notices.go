package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/monitor"
	"steward/internal/store"
)

// Notices shows what waits, when scraped, and counts what was tried.
type Notices struct {
	store           *store.Store
	notices, oldest *prometheus.Desc
	attempts        *prometheus.CounterVec
	delay           prometheus.Histogram
}

// NewNotices makes a collector of the notices in a store.
func NewNotices(s *store.Store) *Notices {
	return &Notices{
		store:   s,
		notices: prometheus.NewDesc("steward_notices_unsent", "Notices that wait (pending, sending) or couldn't be delivered (failed).", []string{"channel", "state"}, nil),
		oldest:  prometheus.NewDesc("steward_notices_unsent_age_seconds", "For how long the oldest of them has been there.", []string{"channel", "state"}, nil),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steward_notices_attempts_total", Help: "Attempts of this server to send a notice, by what came of them.",
		}, []string{"channel", "result"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "steward_notices_delay_seconds", Help: "Time from the commit of what a notice tells of to its acceptance.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300, 3600},
		}),
	}
}

// Ended counts an attempt.
func (m *Notices) Ended(n monitor.Notice) {
	result := string(n.State)
	if n.State == monitor.NoticePending {
		result = "retried"
	}
	m.attempts.WithLabelValues(n.Channel, result).Inc()
	if n.State == monitor.NoticeSent {
		m.delay.Observe(n.Sent.Sub(n.Created).Seconds())
	}
}

// Describe implements prometheus.Collector.
func (m *Notices) Describe(d chan<- *prometheus.Desc) {
	d <- m.notices
	d <- m.oldest
	m.attempts.Describe(d)
	m.delay.Describe(d)
}

// Collect implements prometheus.Collector.
func (m *Notices) Collect(out chan<- prometheus.Metric) {
	m.attempts.Collect(out)
	m.delay.Collect(out)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	counts, err := m.store.NoticeCounts(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(m.notices, err)
		return
	}
	for _, c := range counts {
		out <- prometheus.MustNewConstMetric(m.notices, prometheus.GaugeValue, float64(c.Notices), c.Channel, string(c.State))
		out <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, time.Since(c.Oldest).Seconds(), c.Channel, string(c.State))
	}
}
