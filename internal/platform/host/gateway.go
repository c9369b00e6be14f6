package host

import (
	"context"
	"net/netip"

	"steward/internal/cluster"
)

// Route is what the gateway does for a cluster.
type Route struct {
	Cluster cluster.ID
	Port    int
	Allow   []netip.Prefix
	Primary netip.AddrPort
	Reads   []netip.AddrPort
}

// Gateway is what this package asks of the gateway.
type Gateway interface {
	// Set makes the route what it should be, and ends sessions of addresses
	// that are no longer allowed.
	Set(ctx context.Context, r Route) error
	// Remove takes the route of a port away; nil when there is none.
	Remove(ctx context.Context, port int) error
	// Routes are those that are set.
	Routes(ctx context.Context) ([]Route, error)
}
