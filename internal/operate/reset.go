package operate

import (
	"context"
	"fmt"

	"steward/internal/platform"
)

// reset makes the root password of the store the server's. It was sealed
// before this began, so that a crash at any point leaves a password that is
// known, and repeating this makes it true.
func (w *work) reset(ctx context.Context) error {
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	seen, err := w.settle(ctx, want)
	if err != nil {
		return err
	}
	if err := w.setPassword(ctx, want); err != nil {
		return err
	}
	return w.finish(ctx, seen)
}

func (w *work) setPassword(ctx context.Context, want platform.Wanted) error {
	_, err := step("set password", func() (struct{}, error) { return struct{}{}, w.Driver.SetPassword(ctx, want) })
	if err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	return nil
}
