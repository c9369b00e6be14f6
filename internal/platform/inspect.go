package platform

import (
	"context"

	"steward/internal/cluster"
)

// Inspector is the part of a Driver that looks into clusters for their owners. It changes nothing
// that Apply brings about, holds no lease, and wakes no cluster that sleeps. Callers bound the time.
type Inspector interface {
	// Observe looks without changing anything.
	Observe(ctx context.Context, id cluster.ID) (Observed, error)
}
