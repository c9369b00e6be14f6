package engine

import (
	"context"

	"steward/internal/insight"
)

// Inspector is the part of a Driver that looks into a running server for its owner. What it answers
// has no values of statements, and nothing of our own sessions, nor of replication's. All
// methods end with ctx, and use one connection each.
type Inspector interface {
	// Sessions are customers' that do something or have a transaction open, MostSessions at most and in any
	// order, and how many others there are.
	Sessions(ctx context.Context, n Node) (list []insight.Session, idle int, err error)
	// EndSession tells a customer's session to stop; false when there is no such session, or none any more.
	EndSession(ctx context.Context, n Node, id insight.SessionID, how insight.EndMode) (bool, error)
}
