package enginetest

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/measure"
)

// MeasuresThroughResets has statistics reset in a loop while a server works and is measured, as a customer may do it and, where they may not, by asAdmin: no reading fails, no rate
// is negative or more than was done, what isn't reset has no gaps, and afterwards all rates are there again. It returns which of the statements
// the customer may execute.
func MeasuresThroughResets(t *testing.T, s *Server, resets []string, asAdmin func(ctx context.Context, sql string) error, work ...string) (allowed []string) {
	t.Helper()
	const readings, apart = 20, 10 * time.Second
	m := openMeter(t, s)
	db := s.DB(t, s.Login())
	defer db.Close()
	for _, sql := range resets {
		if _, err := db.ExecContext(t.Context(), sql); err == nil {
			allowed = append(allowed, sql)
		}
	}
	var rounds atomic.Int64
	var looping sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer looping.Wait()
	defer stop()
	looping.Go(func() {
		for ; ctx.Err() == nil; rounds.Add(1) { // a statement that was cut off might still be carried out later
			for _, sql := range resets {
				if err := asAdmin(t.Context(), sql); err != nil {
					t.Errorf("%s: %v", sql, err)
					return
				}
			}
			for _, sql := range allowed {
				if _, err := db.ExecContext(t.Context(), sql); err != nil {
					t.Errorf("%s, as the customer: %v", sql, err)
					return
				}
			}
		}
	})
	var meter measure.Meter
	begun, family := time.Now(), s.Node.Installation.Family()
	read := func(n int) (v measure.Values) {
		r, _ := m.read()
		r.At = begun.Add(time.Duration(n) * apart)
		v = meter.Add(r)
		for _, d := range measure.Definitions() {
			value := v[d.Metric]
			switch {
			case d.Counter && d.Metric != measure.LogBytes:
				if value < 0 || value > 5000 {
					t.Errorf("reading %d: %s: %v a second", n, d.Name, value)
				}
			case d.Metric == measure.CacheHitRatio:
				if value < 0 || value > 100 {
					t.Errorf("reading %d: %s: %v", n, d.Name, value)
				}
			case strings.HasPrefix(d.Name, "replication") || strings.HasPrefix(d.Name, "archive") || !d.Of(family) || fromKernel[d.Metric] || d.Counter && n == 0:
			case math.IsNaN(value) || value < 0:
				t.Errorf("reading %d: %s: %v", n, d.Name, value)
			}
		}
		return v
	}
	for n := range readings {
		read(n)
		s.Exec(t, work...)
		seen := rounds.Load()
		await.True(t, "the statistics are reset between two readings", func() bool { return t.Failed() || rounds.Load() > seen })
	}
	stop()
	looping.Wait()
	read(readings)
	last := read(readings + 1)
	for _, d := range measure.Definitions() {
		if d.Counter && d.Of(family) && !fromKernel[d.Metric] && math.IsNaN(last[d.Metric]) {
			t.Errorf("%s isn't measured afterwards", d.Name)
		}
	}
	return allowed
}
