package postgresql

import (
	"context"
	"errors"

	"steward/internal/engine"
)

var errNotBuilt = errors.New("replication isn't built yet")

// Twin is part of engine.Replicator.
func (d Driver) Twin(ctx context.Context, primary, dir string) error { return errNotBuilt }

// Seed is part of engine.Replicator.
func (d Driver) Seed(ctx context.Context, n engine.Node, dir string, run engine.Runner) error {
	return errNotBuilt
}

// Standing is part of engine.Replicator.
func (d Driver) Standing(ctx context.Context, n engine.Node) (engine.Standing, error) {
	return engine.Standing{}, errNotBuilt
}

// Follow is part of engine.Replicator.
func (d Driver) Follow(ctx context.Context, n engine.Node) error { return errNotBuilt }

// Disconnect is part of engine.Replicator.
func (d Driver) Disconnect(ctx context.Context, n engine.Node) error { return errNotBuilt }

// StepDown is part of engine.Replicator.
func (d Driver) StepDown(ctx context.Context, n engine.Node) error { return errNotBuilt }

// Promote is part of engine.Replicator.
func (d Driver) Promote(ctx context.Context, n engine.Node) error { return errNotBuilt }

// CanDrain is part of engine.Replicator.
func (d Driver) CanDrain(inst engine.Installation) bool { return false }

// Drain is part of engine.Replicator.
func (d Driver) Drain(ctx context.Context, dead, heir engine.Node) error { return errNotBuilt }
