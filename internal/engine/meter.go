package engine

import (
	"context"

	"steward/internal/measure"
)

// Metered is the part of a Driver that says how servers do.
type Metered interface {
	// OpenMeter connects to a running node as our own account. It is of no use any more when the server ends, or
	// when one of its methods fails.
	OpenMeter(ctx context.Context, n Node) (Meter, error)
	// Tables are the largest tables and indexes of customers, at most so many, the largest first.
	Tables(ctx context.Context, n Node, most int) ([]measure.Table, error)
}

// Meter reads a server's statistics over one connection, which is kept until it rests. Its methods aren't called at the same time.
type Meter interface {
	// Measure adds to a reading what the server says of itself. Little is asked that the server doesn't count anyway.
	Measure(ctx context.Context, r *measure.Reading) (LogPosition, error)
	// Families are all statistics, with the names and labels that the engine's exporter gives them.
	Families(ctx context.Context) ([]measure.Family, error)
	// Rest ends the connection: a kept one takes more memory of a server than all else that is measured. Whatever is asked next connects again.
	Rest()
	// Close ends the connection.
	Close()
}

// LogPosition is how far a node is in what its cluster has written, in bytes. Those of nodes that are read at the
// same time can be compared. NaN when that isn't known.
type LogPosition struct{ Written, Applied float64 }
