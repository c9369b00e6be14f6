package host_test

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/gateway"
	"steward/internal/gateway/kernel"
	"steward/internal/platform"
	"steward/internal/platform/host"
)

// unreliableStore are secrets in a store that can go away: then its calls fail, or
// hang as those to a stopped server do.
type unreliableStore struct {
	platform.Secrets
	state atomic.Int32
}

// States of an unreliableStore.
const (
	serves = iota
	fails
	hangs
)

var errStoreAway = errors.New("the store is away")

func (s *unreliableStore) reach(ctx context.Context) error {
	switch s.state.Load() {
	case fails:
		return errStoreAway
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// Secret implements platform.Secrets.
func (s *unreliableStore) Secret(ctx context.Context, id cluster.ID, name platform.SecretName) ([]byte, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	return s.Secrets.Secret(ctx, id, name)
}

// SaveSecret implements platform.Secrets.
func (s *unreliableStore) SaveSecret(ctx context.Context, id cluster.ID, name platform.SecretName, value []byte) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	return s.Secrets.SaveSecret(ctx, id, name, value)
}

// unreliableEngine has replicas that don't follow their source.
type unreliableEngine struct {
	engine.Driver
	unfollowed atomic.Bool
}

// Follow implements engine.Replicator.
func (e *unreliableEngine) Follow(ctx context.Context, n engine.Node) (bool, error) {
	if e.unfollowed.Load() {
		return false, errors.New("the source doesn't answer")
	}
	return e.Driver.Follow(ctx, n)
}

// unreliableGateway is a gateway that fails to lead anywhere for the next few times. No
// route counts as in force after that before one is set.
type unreliableGateway struct {
	host.Gateway
	failures atomic.Int32
	failed   atomic.Bool
}

// Set implements host.Gateway.
func (g *unreliableGateway) Set(ctx context.Context, r gateway.Route) error {
	if g.failures.Add(-1) >= 0 {
		g.failed.Store(true)
		return errors.New("the gateway doesn't answer")
	}
	g.failed.Store(false)
	return g.Gateway.Set(ctx, r)
}

// Routes implements host.Gateway.
func (g *unreliableGateway) Routes(ctx context.Context) ([]gateway.Recorded, error) {
	routes, err := g.Gateway.Routes(ctx)
	for i := range routes {
		routes[i].InForce = routes[i].InForce && !g.failed.Load()
	}
	return routes, err
}

// Used is passed on as the next are: with HAProxy nothing sleeps.
func (g *unreliableGateway) Used(ctx context.Context) (map[int]bool, error) {
	return g.Gateway.(*kernel.Gateway).Used(ctx)
}

// Rest is passed on.
func (g *unreliableGateway) Rest(ctx context.Context, port int) (bool, error) {
	return g.Gateway.(*kernel.Gateway).Rest(ctx, port)
}

// Held is passed on.
func (g *unreliableGateway) Held(port int) int { return g.Gateway.(*kernel.Gateway).Held(port) }

// Fail is passed on.
func (g *unreliableGateway) Fail(port int, why string) { g.Gateway.(*kernel.Gateway).Fail(port, why) }

// Withhold is passed on to a gateway that has to be told.
func (g *unreliableGateway) Withhold(ctx context.Context, port int, server netip.AddrPort, grace time.Duration) error {
	if w, ok := g.Gateway.(*kernel.Gateway); ok {
		return w.Withhold(ctx, port, server, grace)
	}
	return nil
}

// Retire is passed on as Withhold is.
func (g *unreliableGateway) Retire(ctx context.Context, port int, server netip.AddrPort, grace time.Duration) error {
	if w, ok := g.Gateway.(*kernel.Gateway); ok {
		return w.Retire(ctx, port, server, grace)
	}
	return nil
}
