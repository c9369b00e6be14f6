package app

import (
	"context"

	"steward/internal/alarm"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/meter"
)

// openMeter makes what measures the databases, and what asks their servers for exporters' numbers.
func (a *App) openMeter(context.Context) error {
	a.meter = meter.New(meter.Options{Store: a.store, Platform: a.regions, Logger: a.log})
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
