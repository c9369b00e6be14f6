package host_test

import (
	"context"
	"errors"
	"sync/atomic"

	"steward/internal/cluster"
	"steward/internal/gateway"
	"steward/internal/platform"
	"steward/internal/platform/host"
)

// frailStore are secrets in a store that can go away: then its calls fail, or
// hang as those to a stopped server do.
type frailStore struct {
	platform.Secrets
	state atomic.Int32
}

// States of a frailStore.
const (
	serves = iota
	fails
	hangs
)

var errStoreAway = errors.New("the store is away")

func (s *frailStore) reach(ctx context.Context) error {
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
func (s *frailStore) Secret(ctx context.Context, id cluster.ID, name platform.SecretName) ([]byte, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	return s.Secrets.Secret(ctx, id, name)
}

// SaveSecret implements platform.Secrets.
func (s *frailStore) SaveSecret(ctx context.Context, id cluster.ID, name platform.SecretName, value []byte) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	return s.Secrets.SaveSecret(ctx, id, name, value)
}

// frailGateway is a gateway that fails to lead anywhere for the next few times.
type frailGateway struct {
	host.Gateway
	failures atomic.Int32
}

// Set implements host.Gateway.
func (g *frailGateway) Set(ctx context.Context, r gateway.Route) error {
	if g.failures.Add(-1) >= 0 {
		return errors.New("the gateway doesn't answer")
	}
	return g.Gateway.Set(ctx, r)
}
