package kubernetes

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/platform"
)

// Inside implements platform.Shaper.
func (d *Driver) Inside(ctx context.Context, id cluster.ID, work func(ctx context.Context, l platform.Logical) error) error {
	return d.inside(ctx, id, func(ctx context.Context, eng engine.Driver, node engine.Node) error {
		return work(ctx, eng.Logical(node))
	})
}

// Extend implements platform.Shaper.
func (d *Driver) Extend(ctx context.Context, id cluster.ID, database string, work func(ctx context.Context, e platform.Extensions) error) error {
	password, err := d.o.Secrets.Secret(ctx, id, platform.RootPassword)
	if err != nil {
		return fmt.Errorf("cluster %d: extensions: %w", id, err)
	}
	return d.inside(ctx, id, func(ctx context.Context, eng engine.Driver, node engine.Node) error {
		extensible, ok := eng.(engine.Extensible)
		if !ok {
			return fault.NewNotFound()
		}
		node.RootPassword = string(password)
		return work(ctx, extensible.Extensions(node, database))
	})
}

// inside has work change what is inside a cluster's primary.
func (d *Driver) inside(ctx context.Context, id cluster.ID, work func(ctx context.Context, eng engine.Driver, node engine.Node) error) error {
	v, asked, err := d.measurable(ctx, id)
	if errors.Is(err, platform.ErrNotRunning) {
		return fault.NewPrecondition("%s", platform.SleepsReason)
	}
	if err != nil {
		return err
	}
	primary, _ := v.nodes(asked)
	if primary == nil {
		return fault.NewPrecondition("The database doesn't answer; try again soon.")
	}
	node, err := d.node(ctx, v, &v.pods[primary.Ordinal])
	if err != nil {
		return fmt.Errorf("cluster %d: %w", id, err)
	}
	node.Ordinal, node.Role = primary.Ordinal, primary.Role
	return work(ctx, v.op.driver(), node)
}

// EndUser implements platform.Shaper.
func (d *Driver) EndUser(ctx context.Context, id cluster.ID, user string) error {
	v, nodes, err := d.measured(ctx, id)
	if errors.Is(err, platform.ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	var failed []error
	for _, n := range nodes {
		failed = append(failed, d.on(ctx, v, n.Ordinal, n.Role, func(ctx context.Context, eng engine.Driver, node engine.Node) error {
			return eng.Logical(node).EndUser(ctx, user)
		}))
	}
	return errors.Join(failed...)
}
