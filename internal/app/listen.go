package app

import (
	"context"
	"errors"
	"fmt"
	"net"

	"steward/internal/datadir"
)

// openData makes this process the only one that serves its data folder.
func (a *App) openData(context.Context) (err error) {
	if a.dir, err = datadir.Open(a.o.Data); err != nil {
		return err
	}
	a.lock, err = a.dir.Lock()
	return err
}

func (a *App) listen(ctx context.Context) (err error) {
	if a.listener, err = listenOn(ctx, a.o.Listen); err != nil {
		return fmt.Errorf("listen (--listen): %w", err)
	}
	return nil
}

func (a *App) listenForMetrics(ctx context.Context) (err error) {
	if a.o.Metrics.Listen == "" {
		return nil
	}
	if a.metrics, err = listenOn(ctx, a.o.Metrics.Listen); err != nil {
		return fmt.Errorf("listen for metrics (--metrics, \"\" to do without): %w", err)
	}
	return nil
}

func listenOn(ctx context.Context, address string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
}

// closeListener closes one that its server may have closed already.
func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
