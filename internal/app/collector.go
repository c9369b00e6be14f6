package app

import (
	"fmt"
	"os"

	"steward/internal/sample"
	"steward/internal/sample/collector"
)

// loads reads how busy this host and the registered machines are.
func (a *App) loads() (*collector.Collector, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find this host's name: %w", err)
	}
	return collector.New(collector.Options{
		Store: a.store, Logger: a.log, Host: name, ReadHost: sample.Host, ReadExporter: sample.NewExporters().Read,
	}), nil
}
