package mysql

import (
	"context"

	"steward/internal/engine"
)

// Flush does nothing: before a switchover the primary steps down and goes on running. InnoDB could
// write its changed pages ahead of a stop only at innodb_io_capacity, which a stop doesn't keep to.
func (*Driver) Flush(context.Context, engine.Node) error { return nil }
