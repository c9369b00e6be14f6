package platform

import (
	"context"
	"errors"

	"steward/internal/cluster"
	"steward/internal/measure"
)

// ErrNotRunning says that no server of a cluster runs, on purpose: it is suspended, sleeps, or isn't there.
var ErrNotRunning = errors.New("none of its servers runs")

// NodeReading is what was read of a node.
type NodeReading struct {
	Ordinal int
	Role    cluster.Role
	measure.Reading
}

// NodeFamilies are what an exporter shows of a node.
type NodeFamilies struct {
	Ordinal  int
	Role     cluster.Role
	Families []measure.Family
}

// Measurer is the part of a Driver that says how clusters do. It wakes none, and keeps none awake. Its methods return
// when ctx ends, whatever the servers do.
type Measurer interface {
	// Measure reads all nodes whose servers should run. Of one that doesn't answer the reading has what is known
	// without it. ErrNotRunning when there is none.
	Measure(ctx context.Context, id cluster.ID) ([]NodeReading, error)
	// Families reads all that exporters show. Of a node that doesn't answer there is no more than that.
	Families(ctx context.Context, id cluster.ID) ([]NodeFamilies, error)
	// Tables are the largest tables and indexes, at most so many, the largest first.
	Tables(ctx context.Context, id cluster.ID, most int) ([]measure.Table, error)
}
