package host

import (
	"context"
	"errors"
	"slices"

	"steward/internal/gateway"
)

// Gateway is what this package asks of the gateway.
type Gateway interface {
	// Set makes the route what it should be, and ends sessions of addresses
	// that are no longer allowed.
	Set(ctx context.Context, r gateway.Route) error
	// Remove takes the route of a port away; nil when there is none.
	Remove(ctx context.Context, port int) error
	// Usable is nil when a route can be set on the port.
	Usable(port int) error
	// Routes are those that are set, also when they aren't in force yet.
	Routes(ctx context.Context) ([]gateway.Recorded, error)
}

// setRoute sets the node's route. A port that the gateway can't listen on is
// somebody else's: waiting won't help.
func (nr *nodeReconciler) setRoute(ctx context.Context) error {
	err := nr.d.o.Gateway.Set(ctx, nr.route())
	if taken, ok := errors.AsType[*gateway.PortError](err); ok {
		return &permanentError{taken.Error()}
	}
	return err
}

// hasRoute reports whether a route is set, and in force.
func hasRoute(routes []gateway.Recorded, want gateway.Route) bool {
	for _, r := range routes {
		if r.Port == want.Port {
			return r.InForce && r.Cluster == want.Cluster && r.Engine == want.Engine && r.Primary == want.Primary && r.Connections == want.Connections &&
				slices.Equal(r.Allow, want.Allow) && slices.Equal(r.Reads, want.Reads)
		}
	}
	return false
}
