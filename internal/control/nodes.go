package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// lookTime bounds a look into a database for its owner: a server that hangs answers nobody.
const lookTime = 5 * time.Second

// Nodes are the use cases of the servers behind a database.
type Nodes struct{ Deps }

// Node is a server behind a database, as its owner sees it.
type Node struct {
	platform.Node
	Health NodeHealth
	// Since is since when it has its role; nil when that isn't known.
	Since *time.Time
}

// NodeHealth says in a word how a node is.
type NodeHealth string

// What a node's health can be.
const (
	NodeHealthy   NodeHealth = "healthy"
	NodeUnhealthy NodeHealth = "unhealthy" // it runs, and doesn't serve or follow
	NodeDown      NodeHealth = "down"
	NodeAsleep    NodeHealth = "asleep"
	NodeSuspended NodeHealth = "suspended"
)

// List is a database and its nodes, none before it is provisioned. A database that sleeps isn't woken.
func (s *Nodes) List(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) (cluster.Cluster, []Node, error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return c, nil, err
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	seen, err := s.Platform.Observe(short, id)
	if err != nil {
		return c, nil, s.lookFailed(ctx, err, "look at the nodes", id)
	}
	events, err := s.Store.NodesChanged(ctx, id)
	if err != nil {
		return c, nil, fmt.Errorf("look when nodes got their roles: %w", err)
	}
	if c.SleepingSince = nil; !seen.SleepingSince.IsZero() {
		c.SleepingSince = &seen.SleepingSince
	}
	nodes := make([]Node, len(seen.Nodes))
	for i, n := range seen.Nodes {
		nodes[i] = Node{Node: n, Health: health(c, seen, n), Since: roleSince(c, events, n)}
	}
	return c, nodes, nil
}

// lookFailed is what a caller is told of a look in vain: a database that doesn't answer in time is no
// fault of ours.
func (d Deps) lookFailed(ctx context.Context, err error, what string, id cluster.ID) error {
	if errors.Is(err, platform.ErrAway) {
		return regionAway()
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		d.Logger.WarnContext(ctx, "a database doesn't answer its owner", "what", what, "cluster_id", int64(id), "error", err)
		return fault.NewPrecondition("The database doesn't answer; try again soon.")
	}
	return fmt.Errorf("%s of database %d: %w", what, id, err)
}

// health says how a node is.
func health(c cluster.Cluster, seen platform.Observed, n platform.Node) NodeHealth {
	switch {
	case !n.Running && c.SleepingSince != nil:
		return NodeAsleep
	case !n.Running && seen.Suspended:
		return NodeSuspended
	case !n.Running:
		return NodeDown
	case n.Role == cluster.Primary && seen.Serving, n.Role == cluster.Replica && n.Streaming:
		return NodeHealthy
	}
	return NodeUnhealthy
}

// roleSince is since when a node has its role by the events, newest first, that tell of roles; nil
// when one of them doesn't say which nodes it was about.
func roleSince(c cluster.Cluster, events []operation.Operation, n platform.Node) *time.Time {
	for _, e := range events {
		change := e.Params.Primary
		switch {
		case e.Action == operation.Resize && n.Role == cluster.Replica && e.Params.Before.Size < c.Size:
			return e.Finished // replicas came with it
		case e.Action == operation.Resize:
		case change == nil && n.Role == cluster.Primary:
			return &e.Created
		case change == nil:
			return nil
		case change.From == n.Ordinal, change.To == n.Ordinal:
			return &e.Created
		}
	}
	return &c.Created
}

// History is a page of the changes of a database's primary, newest first, and how many there were.
func (s *Nodes) History(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, page store.Page) ([]operation.Operation, int, error) {
	if _, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id); err != nil {
		return nil, 0, err
	}
	return s.Store.PrimaryChanges(ctx, id, page)
}
