package engine

import (
	"context"
	"errors"
	"time"

	"steward/internal/migration"
)

const (
	// lookEvery is how often a database that follows a source tells how far behind it is.
	lookEvery = time.Second
	// unchangedEvery is how often the source is asked whether its tables are what they were.
	unchangedEvery = 30 * time.Second
)

// ErrUnnoted is a database that isn't as it was left by who followed a source.
var ErrUnnoted = &SourceError{Reason: "The database here isn't as it was left: it was restored or changed meanwhile. Begin again."}

// Following is a database that keeps up with its source, in an engine's own way. M is what the source sends.
type Following[M any] interface {
	// Receive receives what the source sends until ctx ends or the source does, and closes Received then.
	Receive(ctx context.Context) error
	Received() <-chan M
	// Take writes what was received. more reports whether there is more of that already.
	Take(ctx context.Context, m M, more bool) error
	// Look reports how far behind the source the database is, and notes how far it is.
	Look(ctx context.Context) error
	// Unchanged is an error when the source's tables aren't those any more that were copied.
	Unchanged(ctx context.Context) error
	// CutOver finds out what must be here before the database can be written to; Reached reports whether it is.
	CutOver(ctx context.Context) error
	Reached() bool
	// Open makes the database one that can be written to.
	Open(ctx context.Context) error
}

// errReceivedAll is returned when nothing more comes; who received knows why.
var errReceivedAll = errors.New("the source sends nothing any more")

// Follow writes what a source sends until the cutover, which is asked for by closing asked, is done.
func Follow[M any](ctx context.Context, f Following[M], asked <-chan struct{}, report func(ImportProgress)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.Receive(ctx) }()
	err := follow(ctx, f, asked, report)
	cancel()
	if received := <-ended; errors.Is(err, errReceivedAll) {
		return received
	}
	return err
}

func follow[M any](ctx context.Context, f Following[M], asked <-chan struct{}, report func(ImportProgress)) error {
	report(ImportProgress{Phase: migration.Following})
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	unchanged, cuttingOver := time.Now(), false
	for {
		var err error
		select {
		case m, ok := <-f.Received():
			if !ok {
				return errReceivedAll
			}
			err = f.Take(ctx, m, len(f.Received()) > 0)
		case <-tick.C:
			if err = f.Look(ctx); err == nil && time.Since(unchanged) > unchangedEvery {
				err = f.Unchanged(ctx)
				unchanged = time.Now()
			}
		case <-asked:
			asked, cuttingOver = nil, true
			report(ImportProgress{Phase: migration.CuttingOver})
			err = f.CutOver(ctx)
		}
		if err != nil {
			return err
		}
		if cuttingOver && f.Reached() {
			if err := f.Unchanged(ctx); err != nil {
				return err
			}
			return f.Open(ctx)
		}
	}
}
