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
	// Logs are what a server writes its log to.
	Logs(n Node) []LogFile
}

// LogFile is a file that a server writes its log to, and how it is read.
type LogFile struct {
	// Path is where it is, in Node.Log; "" for the server's output.
	Path string
	// Reader reads it from one end to the other.
	Reader func() LogReader
}

// LogReader reads the lines of a file one after the other.
type LogReader interface {
	// Begin reads a line that begins an entry; false for any other.
	Begin(line string) (insight.LogLine, bool)
	// Rest takes what follows of a line that was too long.
	Rest(piece string)
	// Complete reads an entry whose first line said that it is about a slow statement. cut says that there is more of it than text. One that
	// is about a statement for another reason is no slow one from then on.
	Complete(l *insight.LogLine, text string, cut bool)
}
