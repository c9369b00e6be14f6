package mysql

import (
	"context"
	"fmt"

	"steward/internal/engine"
)

// PrepareStop implements engine.Administrator: a replica gives up what it has received only a part of, the rest of which
// a server that stops would wait for. A primary has nothing to do: before a switchover it steps down and goes on running, and InnoDB
// could write its changed pages ahead of a stop only at innodb_io_capacity, which a stop doesn't keep to.
func (d *Driver) PrepareStop(ctx context.Context, n engine.Node) error {
	if !isReplica(n) {
		return nil
	}
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	f := flavourOf(n.Installation.Flavour)
	st, err := s.status(ctx, f)
	if err != nil || st == nil {
		return err
	}
	if err := f.abandon(ctx, s); err != nil {
		return fmt.Errorf("have the replica give up what it has received a part of: %w", err)
	}
	return nil
}
