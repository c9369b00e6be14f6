package mysql

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"steward/internal/engine"
)

// EndSessions implements engine.Driver.
func (d *Driver) EndSessions(ctx context.Context, n engine.Node, clients []netip.AddrPort) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	defer s.close()
	list := make([]string, len(clients))
	for i, c := range clients {
		list[i] = quote(c.String())
	}
	theirs := "SELECT ID FROM information_schema.PROCESSLIST WHERE HOST IN (" + strings.Join(list, ", ") + ")"
	if err := s.kill(ctx, theirs); err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	for {
		left, err := s.rows(ctx, theirs)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end sessions: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}
