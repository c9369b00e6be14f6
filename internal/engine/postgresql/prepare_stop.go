package postgresql

import (
	"context"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// PrepareStop implements engine.Administrator: a primary that stops writes a checkpoint, with sessions ended
// already. Of two, the second has only what was changed during the first, and so on.
func (Driver) PrepareStop(ctx context.Context, n engine.Node) error {
	if n.Role == cluster.Replica {
		return nil // nobody waits for it
	}
	conn, err := asOurs(ctx, n)
	if err != nil {
		return fmt.Errorf("checkpoint before a stop: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for range 2 {
		if _, err := query(ctx, conn, "CHECKPOINT"); err != nil {
			return fmt.Errorf("checkpoint before a stop: %w", err)
		}
	}
	return nil
}
