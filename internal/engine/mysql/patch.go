package mysql

import (
	"context"
	"fmt"

	"steward/internal/engine"
)

// AfterPatch is part of engine.Driver. MySQL upgrades itself when it starts.
func (d *Driver) AfterPatch(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.unlogged(ctx); err != nil {
		return err
	}
	if err := dialectOf(n.Installation.Flavour).upgrade(ctx, s, n.Installation); err != nil {
		return fmt.Errorf("upgrade system tables to %s: %w", n.Installation.Version, err)
	}
	return nil
}
