package app

import (
	"context"
	"fmt"
	"os"

	"steward/internal/sample"
	"steward/internal/sample/collector"
)

// openCollector makes what reads how busy this host and the registered machines are.
func (a *App) openCollector(context.Context) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this host's name: %w", err)
	}
	a.collector = collector.New(collector.Options{
		Store: a.store, Logger: a.log, Host: name, ReadHost: sample.Host, ReadExporter: sample.NewExporters().Read,
	})
	return nil
}
