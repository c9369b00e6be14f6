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
	// Statements are those that the primary has counted, from the one that is first in the order, counted from 0.
	Statements(ctx context.Context, id cluster.ID, order insight.StatementOrder, first, most int) (insight.Statements, error)
	// ResetStatements has the primary count anew; missing says, for customers, why it doesn't.
	ResetStatements(ctx context.Context, id cluster.ID) (missing string, err error)
	// StatementText is what the primary keeps of a statement, which isn't for showing, and its database; "" for none.
	StatementText(ctx context.Context, id cluster.ID, statement string) (text, database string, err error)
	// Plan is how the primary would carry out a statement in a database, with the rights of the root user.
	Plan(ctx context.Context, id cluster.ID, database, text string) (insight.Plan, error)
	// Logs are the lines of all nodes that are wanted, in any order, or of each node as many as a page can have.
	Logs(ctx context.Context, id cluster.ID, q insight.LogQuery) ([]insight.LogLine, error)
}

// SleepsReason is what customers are told who ask for what a cluster that sleeps can't do.
const SleepsReason = "The database sleeps; connect to it first."
