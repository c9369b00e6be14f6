package host

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
)

// Inside implements platform.Shaper.
func (d *Driver) Inside(ctx context.Context, id cluster.ID, work func(ctx context.Context, l platform.Logical) error) error {
	err := d.inside(ctx, id, func(ctx context.Context, n inspected) error { return work(ctx, n.eng.Logical(n.node)) })
	d.tellUsers(ctx, id)
	return err
}

// Extend implements platform.Shaper.
func (d *Driver) Extend(ctx context.Context, id cluster.ID, database string, work func(ctx context.Context, e platform.Extensions) error) error {
	password, err := d.keychain(d.clusterState(id)).secret(ctx, platform.RootPassword)
	if err != nil {
		return fmt.Errorf("cluster %d: extensions: %w", id, err)
	}
	return d.inside(ctx, id, func(ctx context.Context, n inspected) error {
		eng, ok := n.eng.(engine.Extensible)
		if !ok {
			return fault.NewNotFound()
		}
		n.node.RootPassword = string(password)
		return work(ctx, eng.Extensions(n.node, database))
	})
}

// inside has work change what is inside a cluster's primary. A cluster's changes come one after the other, beside looks into it: each takes one of the
// few connections that are ours.
func (d *Driver) inside(ctx context.Context, id cluster.ID, work func(ctx context.Context, n inspected) error) error {
	top, err := d.topology(id)
	if err != nil {
		return fmt.Errorf("cluster %d: %w", id, err)
	}
	if top.Rests() {
		return fault.NewPrecondition("%s", platform.SleepsReason)
	}
	ns := d.clusterState(id).node(top.Primary)
	select {
	case ns.shaping <- struct{}{}:
		defer func() { <-ns.shaping }()
	case <-ctx.Done():
		return fmt.Errorf("cluster %d: wait for another change: %w", id, ctx.Err())
	}
	rec, err := state.ReadNode(d.layout.node(id, top.Primary))
	switch {
	case err != nil:
		return fmt.Errorf("cluster %d: %w", id, err)
	case rec == nil || !rec.Bootstrapped:
		return fmt.Errorf("cluster %d: the node isn't set up", id)
	case !ns.running(), ns.isHung():
		return fault.NewPrecondition("The database doesn't answer; try again soon.")
	}
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil {
		return fmt.Errorf("cluster %d: %w", id, err)
	}
	return work(ctx, inspected{eng, node})
}

// EndUser implements platform.Shaper.
func (d *Driver) EndUser(ctx context.Context, id cluster.ID, user string) error {
	unreachable, err := d.inspect(ctx, id, func(ctx context.Context, n inspected) error {
		return n.eng.Logical(n.node).EndUser(ctx, user)
	})
	d.tellUsers(ctx, id)
	if err == nil && len(unreachable) > 0 {
		err = errors.New("not all nodes answer")
	}
	return err
}
