package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/platform"
)

// onPrimary looks into a cluster's primary; sleeping reports that no server runs.
func (d *Driver) onPrimary(ctx context.Context, id cluster.ID, look func(ctx context.Context, eng engine.Driver, n engine.Node) error) (sleeping bool, err error) {
	v, asked, err := d.measurable(ctx, id)
	if errors.Is(err, platform.ErrNotRunning) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	primary, _ := v.nodes(asked)
	if primary == nil {
		return false, fmt.Errorf("cluster %d: there is no primary", id)
	}
	return false, d.on(ctx, v, primary.Ordinal, primary.Role, look)
}

// on looks into one server.
func (d *Driver) on(ctx context.Context, v view, ordinal int, role cluster.Role, look func(ctx context.Context, eng engine.Driver, n engine.Node) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	node, err := d.node(ctx, v, &v.pods[ordinal])
	if err != nil {
		return err
	}
	node.Ordinal, node.Role = ordinal, role
	return look(ctx, v.op.driver(), node)
}

// Sessions implements platform.Inspector.
func (d *Driver) Sessions(ctx context.Context, id cluster.ID) (insight.Sessions, error) {
	var all insight.Sessions
	v, nodes, err := d.measured(ctx, id)
	if errors.Is(err, platform.ErrNotRunning) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	var mu sync.Mutex
	var work sync.WaitGroup
	var failed []error
	for _, n := range nodes {
		work.Go(func() {
			err := d.on(ctx, v, n.Ordinal, n.Role, func(ctx context.Context, eng engine.Driver, node engine.Node) error {
				list, idle, err := eng.Sessions(ctx, node)
				mu.Lock()
				defer mu.Unlock()
				all.List, all.Idle = append(all.List, list...), all.Idle+idle
				return err
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed, all.Unreachable = append(failed, err), append(all.Unreachable, n.Ordinal)
			}
		})
	}
	work.Wait()
	if len(failed) == len(nodes) {
		return all, errors.Join(failed...)
	}
	return all, nil
}

// EndSession implements platform.Inspector.
func (d *Driver) EndSession(ctx context.Context, id cluster.ID, session insight.SessionID, how insight.EndMode) error {
	v, nodes, err := d.measured(ctx, id)
	if errors.Is(err, platform.ErrNotRunning) {
		return fault.NewNotFound()
	}
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Ordinal != session.Node {
			continue
		}
		return d.on(ctx, v, n.Ordinal, n.Role, func(ctx context.Context, eng engine.Driver, node engine.Node) error {
			there, err := eng.EndSession(ctx, node, session, how)
			if err == nil && !there {
				err = fault.NewNotFound()
			}
			return err
		})
	}
	return fault.NewNotFound()
}

// Statements implements platform.Inspector.
func (d *Driver) Statements(ctx context.Context, id cluster.ID, order insight.StatementOrder, first, most int) (found insight.Statements, err error) {
	sleeping, err := d.onPrimary(ctx, id, func(ctx context.Context, eng engine.Driver, n engine.Node) (err error) {
		found, err = eng.Statements(ctx, n, order, first, most)
		return err
	})
	found.Sleeping = sleeping
	return found, err
}

// ResetStatements implements platform.Inspector.
func (d *Driver) ResetStatements(ctx context.Context, id cluster.ID) (missing string, err error) {
	sleeping, err := d.onPrimary(ctx, id, func(ctx context.Context, eng engine.Driver, n engine.Node) (err error) {
		missing, err = eng.ResetStatements(ctx, n)
		return err
	})
	if sleeping {
		missing = platform.SleepsReason
	}
	return missing, err
}

// StatementText implements platform.Inspector.
func (d *Driver) StatementText(ctx context.Context, id cluster.ID, statement string) (text, database string, err error) {
	_, err = d.onPrimary(ctx, id, func(ctx context.Context, eng engine.Driver, n engine.Node) (err error) {
		text, database, err = eng.StatementText(ctx, n, statement)
		return err
	})
	return text, database, err
}

// Plan implements platform.Inspector.
func (d *Driver) Plan(ctx context.Context, id cluster.ID, database, text string) (found insight.Plan, err error) {
	password, err := d.o.Secrets.Secret(ctx, id, platform.RootPassword)
	if err != nil {
		return found, fmt.Errorf("cluster %d: plan: %w", id, err)
	}
	sleeping, err := d.onPrimary(ctx, id, func(ctx context.Context, eng engine.Driver, n engine.Node) (err error) {
		n.RootPassword = string(password)
		found, err = eng.Plan(ctx, n, database, text)
		return err
	})
	if sleeping {
		found.Refused = platform.SleepsReason
	}
	return found, err
}
