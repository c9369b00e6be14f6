package postgresql

import (
	"context"
	"fmt"

	"steward/internal/engine"
)

// Flush implements engine.Administrator: a server that stops writes a checkpoint, with sessions ended
// already. Of two, the second has only what was changed during the first, and so on.
func (Driver) Flush(ctx context.Context, n engine.Node) error {
	conn, err := asOurs(ctx, n)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for range 2 {
		if _, err := query(ctx, conn, "CHECKPOINT"); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
	}
	return nil
}
