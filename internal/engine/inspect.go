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
	// Statements are those that a primary has counted of customers since the last reset, from the one that
	// is first in the order, counted from 0.
	Statements(ctx context.Context, n Node, order insight.StatementOrder, first, most int) (insight.Statements, error)
	// ResetStatements has a primary count anew; missing says why it doesn't count, "" when it does.
	ResetStatements(ctx context.Context, n Node) (missing string, err error)
	// StatementText is a counted statement as the server keeps it, which isn't for showing, and the database
	// that it was for; "" when there is none such.
	StatementText(ctx context.Context, n Node, id string) (text, database string, err error)
	// Plan asks, with n.RootPassword and as dbadmin, who is no more than its customers let it be, how the primary
	// would carry out one statement in a database. It isn't carried out, and nothing is written.
	Plan(ctx context.Context, n Node, database, text string) (insight.Plan, error)
	// LogLine reads the first line of an entry of a server's output; false for any other line. Pure.
	LogLine(line string) (insight.LogLine, bool)
}
