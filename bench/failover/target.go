package main

import (
	"context"
	"fmt"
	"time"

	"steward/bench/command"
)

// Target is a cluster under test.
type Target interface {
	// Name is the column of the report.
	Name() string
	// Endpoint is where the primary is reached, whichever node that is.
	Endpoint() Endpoint
	// Primary is the node that takes writes now.
	Primary(ctx context.Context) (Node, error)
	// Healthy is nil when every node serves and follows the primary.
	Healthy(ctx context.Context) error
	// Restart starts what of a node a fault ended and nothing on this machine
	// would start again, as the machine's init would.
	Restart(ctx context.Context, n Node) error
	// Switchover asks for a planned move to another node.
	Switchover(ctx context.Context) error
	// Close stops all that was started and removes its folders.
	Close() error
}

// Node is one server of a cluster, with what faults need to know of it.
type Node struct {
	Name    string
	Address string
	Server  int    // process id of the database server
	Agent   int    // process id of what runs the server, 0: nothing of the node's own
	DataDir string // of the server
}

// steady is how long a cluster has to be healthy to count as such: what notices a
// fault late would otherwise pass for what has recovered from it.
const steady = time.Second

// awaitHealthy returns when the cluster became healthy.
func awaitHealthy(ctx context.Context, t Target) (time.Time, error) {
	var since time.Time
	err := command.Until(ctx, 100*time.Millisecond, func() error {
		if err := t.Healthy(ctx); err != nil {
			since = time.Time{}
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < steady {
			return fmt.Errorf("healthy only since %v", time.Since(since))
		}
		return nil
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("%s isn't healthy in time: %w", t.Name(), err)
	}
	return since, nil
}
