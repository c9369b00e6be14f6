package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"steward/internal/config"
	"steward/internal/datadir"
	"steward/internal/embeddedpg"
	"steward/internal/engine"
	"steward/internal/gateway"
	"steward/internal/platform/host"
)

// StopServing asks the steward that serves the data folder to end, waits until it has, and is false when none serves.
func StopServing(ctx context.Context, data string, patience time.Duration) (served bool, err error) {
	pid, served := datadir.ServerPID(data)
	if !served {
		return false, nil
	}
	// One that was just killed is gone, while a child that it had made holds its lock for a moment still.
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return true, fmt.Errorf("stop process %d: %w", pid, err)
	}
	return true, awaitUnlocked(ctx, data, patience)
}

// awaitUnlocked waits until no steward serves the data folder.
func awaitUnlocked(ctx context.Context, data string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, held := datadir.ServerPID(data); !held {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("steward didn't stop within %s; it may be finishing work: try again, or kill it (nothing is lost)", patience)
		case <-tick.C:
		}
	}
}

// StopAll ends the databases, the gateway and the store of a data folder that
// nobody serves, and tells how many database servers there were.
func StopAll(ctx context.Context, data string, c config.Config) (int, error) {
	if _, err := os.Stat(data); err != nil {
		return 0, fmt.Errorf("data folder: %w", err)
	}
	p, err := datadir.Open(data)
	if err != nil {
		return 0, err
	}
	lock, err := p.Lock()
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	options, err := p.HostOptions(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	// As in Nodes; but groups are found, which go with what runs in them.
	options.Installations, options.Isolation.Bubblewrap = []engine.Installation{}, "off"
	driver, err := host.New(ctx, options)
	if err != nil {
		return 0, err
	}
	defer driver.Close()
	stopped, err := driver.StopAll(ctx)
	if p.HasNetworks() && err == nil {
		err = p.EndKernel(ctx, c, slog.New(slog.DiscardHandler))
	}
	if err := errors.Join(err, gateway.End(ctx, p.Gateway(), p.Run), embeddedpg.Stop(ctx, p.Store())); err != nil {
		return stopped, err
	}
	// Sockets, and keys in memory: the next start makes them anew.
	return stopped, errors.Join(os.RemoveAll(p.Run), os.RemoveAll(p.Keys))
}
