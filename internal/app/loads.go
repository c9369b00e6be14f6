package app

import (
	"context"
	"fmt"
	"os"

	"steward/internal/sample"
	"steward/internal/watch"
)

// startLoads has it read how busy this host and the registered machines are,
// until everything is closed.
func (a *App) startLoads(ctx context.Context) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this host's name: %w", err)
	}
	loads := watch.NewLoads(watch.LoadOptions{
		Store: a.store, Logger: a.log, Host: name, ReadHost: sample.Host, ReadExporter: sample.NewExporters().Read,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); loads.Run(ctx) }()
	a.later(func() error { cancel(); <-done; return nil })
	return nil
}
