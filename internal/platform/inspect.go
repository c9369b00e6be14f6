package platform

import (
	"context"

	"steward/internal/cluster"
	"steward/internal/insight"
)

// Inspector is the part of a Driver that looks into clusters for their owners. It changes nothing
// that Apply brings about, holds no lease, and wakes no cluster that sleeps. Callers bound the time.
type Inspector interface {
	// Observe looks without changing anything.
	Observe(ctx context.Context, id cluster.ID) (Observed, error)
	// Sessions are those of customers that do something on any node, in any order. The error says that
	// no node answered.
	Sessions(ctx context.Context, id cluster.ID) (insight.Sessions, error)
	// EndSession tells a session to stop; fault.NotFound when there is none such, or none any more.
	EndSession(ctx context.Context, id cluster.ID, session insight.SessionID, how insight.EndMode) error
}
