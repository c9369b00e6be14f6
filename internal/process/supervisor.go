package process

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/wait"
)

const (
	// firstPause and longestPause bound the pause before a restart that follows
	// another within lasting.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	lasting      = 30 * time.Second
)

// Supervisor keeps a server running: it has it restarted whenever it ends, at growing
// intervals while that doesn't last, and keeps its output small.
type Supervisor struct {
	// Name is what the server is called in the log.
	Name   string
	Logger *slog.Logger
	// Ended is closed once the present process has ended; nobody asks while Restart runs.
	Ended func() <-chan struct{}
	// Restart adopts or starts the server and waits until it answers.
	Restart func(context.Context) error
	// Output is rotated every OutputEvery when it has more than OutputMost bytes;
	// OutputKeep old files stay.
	Output      string
	OutputMost  int64
	OutputKeep  int
	OutputEvery time.Duration
}

// Run supervises until ctx ends. The server runs on.
func (s *Supervisor) Run(ctx context.Context) {
	rotate := time.NewTicker(s.OutputEvery)
	defer rotate.Stop()
	var restarted time.Time
	var pause time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-rotate.C:
			if err := Rotate(s.Output, s.OutputMost, s.OutputKeep); err != nil {
				s.Logger.WarnContext(ctx, "a server's output isn't rotated", "server", s.Name, "error", err)
			}
		case <-s.Ended():
			pause = nextPause(pause, time.Since(restarted))
			s.restart(ctx, pause)
			restarted = time.Now()
		}
	}
}

// nextPause is how long to wait before a restart: not at all after a good while.
func nextPause(pause, since time.Duration) time.Duration {
	switch {
	case since > lasting:
		return 0
	case pause == 0:
		return firstPause
	}
	return min(2*pause, longestPause)
}

func (s *Supervisor) restart(ctx context.Context, pause time.Duration) {
	s.Logger.WarnContext(ctx, "a server has ended; it is started again", "server", s.Name, "in", pause)
	if wait.Sleep(ctx, pause) != nil {
		return
	}
	if err := s.Restart(ctx); err != nil && ctx.Err() == nil {
		s.Logger.ErrorContext(ctx, "a server can't be started again", "server", s.Name, "error", err)
	}
}
