package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"steward/internal/heap"
)

// Serve runs steward until ctx ends, then stops it gracefully. Databases and
// the gateway go on running.
func Serve(ctx context.Context, o Options) error {
	begun := time.Now()
	tuning, stop := context.WithCancel(ctx)
	defer stop()
	go heap.Tune(tuning)
	a := New(o)
	if err := a.Start(ctx); err != nil {
		return err
	}
	a.welcome(o.Out, time.Since(begun))
	if err := a.tellFirstLink(ctx, o.Out); err != nil && ctx.Err() == nil {
		fmt.Fprintln(o.Out, "Whether the first user has a password couldn't be found out:", err)
	}
	if o.Demo {
		if err := a.demo(ctx, o.Out); err != nil && ctx.Err() == nil {
			fmt.Fprintln(o.Out, "The demo database couldn't be made:", err)
		}
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(o.Out, "Stopping; databases and gateway go on.")
		return a.Stop()
	case err := <-a.failed:
		return errors.Join(err, a.Stop())
	}
}

// welcome tells a person where things are, in a few lines.
func (a *App) welcome(w io.Writer, took time.Duration) {
	fmt.Fprintf(w, "steward %s is ready after %s.\n", Version(), took.Round(time.Millisecond))
	fmt.Fprintf(w, "  API       %s/v4     document %s/docs\n", a.URL(), a.URL())
	if a.metrics != nil {
		fmt.Fprintf(w, "  metrics   http://%s/metrics\n", a.metrics.Addr())
	}
	fmt.Fprintf(w, "  token     %s\n", a.dir.AdminToken())
	a.tellConsole(w)
	for _, engine := range a.catalog.Engines {
		fmt.Fprintf(w, "  engine    %s\n", engine.ID())
	}
	for _, r := range a.regions.States() {
		state := "can be reached"
		if r.Away != nil {
			state = "degraded: it can't be reached; it is tried again"
		}
		fmt.Fprintf(w, "  region    %s %s\n", r.Region, state)
	}
	if a.onHost {
		for _, warning := range a.host.Warnings() {
			fmt.Fprintf(w, "  weaker    %s\n", warning)
		}
	}
	a.o.tellNotices(w)
	fmt.Fprintf(w, "Try: export STEWARD_URL=%s STEWARD_TOKEN=$(cat %s); bin/steward db list\n", a.URL(), a.dir.AdminToken())
}
