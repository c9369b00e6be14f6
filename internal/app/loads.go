package app

import (
	"fmt"
	"os"

	"steward/internal/sample"
	"steward/internal/watch"
)

// loads reads how busy this host and the registered machines are.
func (a *App) loads() (*watch.Loads, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find this host's name: %w", err)
	}
	return watch.NewLoads(watch.LoadOptions{
		Store: a.store, Logger: a.log, Host: name, ReadHost: sample.Host, ReadExporter: sample.NewExporters().Read,
	}), nil
}
