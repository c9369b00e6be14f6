// Package wait pauses.
package wait

import (
	"context"
	"time"
)

// Sleep pauses for d. It returns ctx's error when that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
