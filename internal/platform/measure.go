package platform

import (
	"context"
	"errors"
	"math"

	"steward/internal/cluster"
	"steward/internal/engine"
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

// NoteLag sets how far replicas are behind the primary, which comes first. One that was promoted before it was read is behind nobody.
func NoteLag(readings []NodeReading, positions []engine.LogPosition) {
	for i := 1; i < len(readings); i++ {
		r, lag := &readings[i].Reading, max(0, positions[0].Written-positions[i].Applied)
		if math.IsNaN(lag) || r.Values[measure.Primary] == 1 {
			continue
		}
		r.Set(measure.ReplicationLagBytes, lag)
		if lag == 0 {
			r.Set(measure.ReplicationLag, 0)
		}
	}
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
