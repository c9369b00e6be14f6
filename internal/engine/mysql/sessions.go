package mysql

import (
	"context"
	"fmt"
	"math"
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
	theirs := sessionsOf(clients)
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

// RetireSessions implements engine.Driver.
func (d *Driver) RetireSessions(ctx context.Context, n engine.Node, clients []netip.AddrPort, idle time.Duration) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return fmt.Errorf("end idle sessions: %w", err)
	}
	defer s.close()
	while := fmt.Sprintf("TIME >= %.0f", math.Ceil(idle.Seconds())) // MySQL counts whole ones
	if n.Installation.Flavour == engine.FlavourMariaDB {
		while = fmt.Sprintf("TIME_MS >= %d", idle.Milliseconds())
	}
	sleeping := " AND COMMAND = 'Sleep' AND " + while + " AND ID NOT IN (SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX)"
	if err := s.kill(ctx, sessionsOf(clients)+sleeping); err != nil {
		return fmt.Errorf("end idle sessions: %w", err)
	}
	return nil
}

// sessionsOf finds the sessions of clients.
func sessionsOf(clients []netip.AddrPort) string {
	list := make([]string, len(clients))
	for i, c := range clients {
		list[i] = quote(c.String())
	}
	return "SELECT ID FROM information_schema.PROCESSLIST WHERE HOST IN (" + strings.Join(list, ", ") + ")"
}
