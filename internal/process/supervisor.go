package process

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/wait"
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
	backoff := Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second}
	for {
		select {
		case <-ctx.Done():
			return
		case <-rotate.C:
			if err := Rotate(s.Output, s.OutputMost, s.OutputKeep); err != nil {
				s.Logger.WarnContext(ctx, "a server's output isn't rotated", "server", s.Name, "error", err)
			}
		case <-s.Ended():
			s.restart(ctx, backoff.Ended(time.Since(restarted)))
			restarted = time.Now()
		}
	}
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
