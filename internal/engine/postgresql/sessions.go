package postgresql

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"steward/internal/engine"
)

// EndSessions implements engine.Driver.
func (Driver) EndSessions(ctx context.Context, n engine.Node, clients []netip.AddrPort) error {
	conn, err := asAdmin(ctx, n, n.AdminPassword)
	if err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	theirs := sessionsOf(clients)
	statement := "SELECT pg_terminate_backend(pid) " + theirs
	for {
		rows, err := query(ctx, conn, statement)
		if err != nil || len(rows) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end sessions: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
		statement = "SELECT pid " + theirs
	}
}

// RetireSessions implements engine.Driver.
func (Driver) RetireSessions(ctx context.Context, n engine.Node, clients []netip.AddrPort, idle time.Duration) error {
	_, err := ask(ctx, n, "SELECT pg_terminate_backend(pid) "+sessionsOf(clients)+
		fmt.Sprintf(" AND state = 'idle' AND state_change < clock_timestamp() - interval '%d ms'", idle.Milliseconds()))
	if err != nil {
		return fmt.Errorf("end idle sessions: %w", err)
	}
	return nil
}

// sessionsOf finds the sessions of clients.
func sessionsOf(clients []netip.AddrPort) string {
	list := make([]string, len(clients))
	for i, c := range clients {
		list[i] = fmt.Sprintf("('%s'::inet, %d)", c.Addr(), c.Port())
	}
	return "FROM pg_stat_activity WHERE (client_addr, client_port) IN (" + strings.Join(list, ", ") + ")"
}
