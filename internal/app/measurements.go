package app

import (
	"context"
	"time"

	"steward/internal/alarm"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/measure"
	"steward/internal/meter"
	"steward/internal/platform"
	"steward/internal/wait"
)

// openMeter makes what measures the databases, and what asks their servers for exporters' numbers.
func (a *App) openMeter(context.Context) error {
	a.meter = meter.New(meter.Options{Store: a.store, Platform: multiplied{a.regions, failpoint.Readings()}, Logger: a.log})
	a.scraper = meter.NewScraper(a.regions)
	return nil
}

// openAlarm makes what judges the databases by what was measured of them.
func (a *App) openAlarm(context.Context) error {
	a.alarm = alarm.New(alarm.Options{
		Store: a.store, Issues: a.issueTracker(), Logger: a.log, Backups: a.archive != nil, Verified: a.o.Backups.Verify, Now: failpoint.Now,
		Without: func(region string, engine cluster.Engine) bool { return !a.catalog.For(region, engine).Backups },
	})
	return nil
}

// multiplied takes many readings for each one that it is asked for, evenly apart until the next: of what one costs nothing shows in a benchmark.
// Servers that operators start take the one.
type multiplied struct {
	platform.Measurer
	times int
}

// Measure implements platform.Measurer.
func (m multiplied) Measure(ctx context.Context, id cluster.ID) ([]platform.NodeReading, error) {
	if m.times > 1 {
		go m.more(context.WithoutCancel(ctx), id)
	}
	return m.Measurer.Measure(ctx, id)
}

// more takes the readings that nobody keeps.
func (m multiplied) more(ctx context.Context, id cluster.ID) {
	ctx, cancel := context.WithTimeout(ctx, measure.Every)
	defer cancel()
	for range m.times - 1 {
		if wait.Sleep(ctx, measure.Every/time.Duration(m.times)) != nil {
			return
		}
		if _, err := m.Measurer.Measure(ctx, id); err != nil {
			return
		}
	}
}
