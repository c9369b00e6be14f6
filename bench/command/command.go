// Package command is what the programs below bench have in common.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main parses the flags, runs, and exits: 2 for wrong flags, 1 for a failed run. The
// first Ctrl-C ends the run in order, so that nothing it started stays.
func Main[Settings any](name string, parse func(args []string, out io.Writer) (Settings, error), run func(ctx context.Context, s Settings, out io.Writer) error) {
	s, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err = run(ctx, s, os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// PrintJSON writes results for programs to read.
func PrintJSON(w io.Writer, results any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}

// Sleep pauses for d or until ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Until repeats done until it says nil; its last error tells why it never did.
func Until(ctx context.Context, pause time.Duration, done func() error) error {
	for {
		err := done()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		}
		Sleep(ctx, pause)
	}
}
