package process

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestSupervisor: a server is restarted at once, at growing intervals while that
// doesn't help, and at once again after it ran for a good while.
func TestSupervisor(t *testing.T) {
	t.Parallel()
	output := filepath.Join(t.TempDir(), "out")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		ended := make(chan struct{})
		close(ended)
		s := &Supervisor{
			Name: "server", Logger: slog.New(slog.DiscardHandler), Output: output, OutputEvery: time.Hour,
			Ended: func() <-chan struct{} { return ended },
			Restart: func(context.Context) error {
				at = append(at, time.Since(began))
				switch len(at) {
				case 4: // it runs, for a minute
					ended = make(chan struct{})
					time.AfterFunc(time.Minute, func() { close(ended) })
					return nil
				case 5:
					ended = make(chan struct{})
					return nil
				}
				return errors.New("it doesn't start")
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		s.Run(ctx)
		pause := 700 * time.Millisecond
		want := []time.Duration{0, pause / 7, 3 * pause / 7, pause, pause + time.Minute}
		if !slices.Equal(at, want) {
			t.Errorf("restarted at %v, want %v", at, want)
		}
	})
}
