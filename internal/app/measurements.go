package app

import (
	"context"

	"steward/internal/meter"
)

// openMeter makes what measures the databases, and what asks their servers for exporters' numbers.
func (a *App) openMeter(context.Context) error {
	a.meter = meter.New(meter.Options{Store: a.store, Platform: a.host, Logger: a.log})
	a.scraper = meter.NewScraper(a.host)
	return nil
}
