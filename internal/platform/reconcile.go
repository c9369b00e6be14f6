package platform

import (
	"context"

	"steward/internal/cluster"
)

// Reconciler is the part of a Driver that clears away what no cluster owns.
type Reconciler interface {
	// Reconcile removes processes, files, limits and routes of clusters that
	// known doesn't name. known is asked after the driver has looked at what is
	// there: since a cluster's row is committed before anything of it exists,
	// what was there and is not known then is an orphan, whatever is being
	// created meanwhile.
	Reconcile(ctx context.Context, known func(context.Context) ([]cluster.Cluster, error)) error
}
