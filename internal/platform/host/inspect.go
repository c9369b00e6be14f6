package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
)

// inspectTime bounds a look into one server: one that hangs keeps nobody from seeing the others.
const inspectTime = 4 * time.Second

// inspected is a node that is looked into.
type inspected struct {
	eng  engine.Driver
	node engine.Node
}

// inspect looks into a cluster's servers that run, all at the same time. Those that should
// run and didn't answer are unreachable.
func (d *Driver) inspect(ctx context.Context, id cluster.ID, look func(ctx context.Context, n inspected) error) (unreachable []int, err error) {
	top, err := d.topology(id)
	if err != nil {
		return nil, fmt.Errorf("cluster %d: %w", id, err)
	}
	if top.Rests() {
		return nil, nil
	}
	var work sync.WaitGroup
	failed := make([]error, top.Size)
	for ordinal := range top.Size {
		work.Go(func() {
			short, cancel := context.WithTimeout(ctx, inspectTime)
			defer cancel()
			failed[ordinal] = d.inspectNode(short, id, ordinal, look)
		})
	}
	work.Wait()
	for ordinal, err := range failed {
		if err != nil {
			d.log.Warn("a server can't be looked into", "cluster_id", id, "node", ordinal, "error", err)
			unreachable = append(unreachable, ordinal)
		}
	}
	if len(unreachable) == top.Size {
		return unreachable, errors.Join(failed...)
	}
	return unreachable, nil
}

// inspectNode looks into one server. Nobody looks into a server beside another: each takes one of
// the few connections that are ours.
func (d *Driver) inspectNode(ctx context.Context, id cluster.ID, ordinal int, look func(ctx context.Context, n inspected) error) error {
	ns := d.clusterState(id).node(ordinal)
	rec, err := state.ReadNode(d.layout.node(id, ordinal))
	switch {
	case err != nil:
		return err
	case rec == nil || !rec.Bootstrapped:
		return errors.New("the node isn't set up")
	case !ns.running():
		return errors.New("the server doesn't run")
	case ns.isHung():
		return errors.New("the server doesn't answer")
	}
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil {
		return err
	}
	select {
	case ns.inspecting <- struct{}{}:
		defer func() { <-ns.inspecting }()
	case <-ctx.Done():
		return fmt.Errorf("wait for another look: %w", ctx.Err())
	}
	return look(ctx, inspected{eng, node})
}

// Sessions implements platform.Inspector.
func (d *Driver) Sessions(ctx context.Context, id cluster.ID) (insight.Sessions, error) {
	var all insight.Sessions
	var mu sync.Mutex
	unreachable, err := d.inspect(ctx, id, func(ctx context.Context, n inspected) error {
		list, idle, err := n.eng.Sessions(ctx, n.node)
		mu.Lock()
		defer mu.Unlock()
		all.List, all.Idle = append(all.List, list...), all.Idle+idle
		return err
	})
	all.Unreachable, all.Sleeping = unreachable, d.clusterState(id).rest().asleep()
	return all, err
}

// EndSession implements platform.Inspector.
func (d *Driver) EndSession(ctx context.Context, id cluster.ID, session insight.SessionID, how insight.EndMode) error {
	top, err := d.topology(id)
	if err != nil {
		return fmt.Errorf("cluster %d: %w", id, err)
	}
	if top.Rests() || !slices.Contains(append(top.Replicas(), top.Primary), session.Node) {
		return fault.NewNotFound()
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	return d.inspectNode(ctx, id, session.Node, func(ctx context.Context, n inspected) error {
		there, err := n.eng.EndSession(ctx, n.node, session, how)
		if err == nil && !there {
			err = fault.NewNotFound()
		}
		return err
	})
}

// inspectPrimary looks into a cluster's primary; sleeping reports that no server runs.
func (d *Driver) inspectPrimary(ctx context.Context, id cluster.ID, look func(ctx context.Context, n inspected) error) (sleeping bool, err error) {
	top, err := d.topology(id)
	if err != nil {
		return false, fmt.Errorf("cluster %d: %w", id, err)
	}
	if top.Rests() {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	return false, d.inspectNode(ctx, id, top.Primary, look)
}

// Statements implements platform.Inspector.
func (d *Driver) Statements(ctx context.Context, id cluster.ID, order insight.StatementOrder, first, most int) (found insight.Statements, err error) {
	sleeping, err := d.inspectPrimary(ctx, id, func(ctx context.Context, n inspected) (err error) {
		found, err = n.eng.Statements(ctx, n.node, order, first, most)
		return err
	})
	found.Sleeping = sleeping
	return found, err
}

// ResetStatements implements platform.Inspector.
func (d *Driver) ResetStatements(ctx context.Context, id cluster.ID) (missing string, err error) {
	sleeping, err := d.inspectPrimary(ctx, id, func(ctx context.Context, n inspected) (err error) {
		missing, err = n.eng.ResetStatements(ctx, n.node)
		return err
	})
	if sleeping {
		missing = platform.SleepsReason
	}
	return missing, err
}

// StatementText implements platform.Inspector.
func (d *Driver) StatementText(ctx context.Context, id cluster.ID, statement string) (text, database string, err error) {
	_, err = d.inspectPrimary(ctx, id, func(ctx context.Context, n inspected) (err error) {
		text, database, err = n.eng.StatementText(ctx, n.node, statement)
		return err
	})
	return text, database, err
}

// Plan implements platform.Inspector.
func (d *Driver) Plan(ctx context.Context, id cluster.ID, database, text string) (found insight.Plan, err error) {
	password, err := d.keychain(d.clusterState(id)).secret(ctx, platform.RootPassword)
	if err != nil {
		return found, fmt.Errorf("cluster %d: plan: %w", id, err)
	}
	sleeping, err := d.inspectPrimary(ctx, id, func(ctx context.Context, n inspected) (err error) {
		n.node.RootPassword = string(password)
		found, err = n.eng.Plan(ctx, n.node, database, text)
		return err
	})
	if sleeping {
		found.Refused = platform.SleepsReason
	}
	return found, err
}
