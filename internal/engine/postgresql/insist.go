package postgresql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
)

// insistAfter is how long others may hold up what insist does.
const insistAfter = 100 * time.Millisecond

// insist runs statements that no customer's transaction can hold up: who holds
// a lock that they wait for is ended.
func insist(ctx context.Context, n engine.Node, conn *pgconn.PgConn, sql string) error {
	done := make(chan error, 1)
	go func() {
		_, err := query(ctx, conn, sql)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(insistAfter):
	}
	clearing, cancel := context.WithCancel(ctx)
	defer cancel()
	cleared := make(chan error, 1)
	go func() { cleared <- endBlockers(clearing, n, conn.PID()) }()
	err := <-done
	cancel()
	if errClear := <-cleared; err != nil && errClear != nil {
		return fmt.Errorf("%w (others hold it up: %w)", err, errClear)
	}
	return err
}

// endBlockers ends, until the context ends, who a session of ours waits for.
func endBlockers(ctx context.Context, n engine.Node, pid uint32) error {
	conn, err := asAdmin(ctx, n, n.AdminPassword)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	end := fmt.Sprintf(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE pid = ANY (pg_blocking_pids(%d)) AND usename IS DISTINCT FROM 'steward'`, pid)
	for {
		if _, err := query(ctx, conn, end); err != nil {
			return err
		}
		if pause(ctx) != nil {
			return nil // what waited is done
		}
	}
}

// loggingIn are the servers' processes for clients that are logging in: they are listed
// as sessions only afterwards, but have a transaction. By which password they are
// judged was read at some time before.
const loggingIn = `SELECT pid FROM pg_locks WHERE locktype = 'virtualxid' AND pid NOT IN (
	SELECT pid FROM pg_stat_activity WHERE pid IS NOT NULL AND (backend_type <> 'client backend' OR usename IS NOT NULL))`

// endLogins returns when nobody is logging in any more who was when it began. Who takes
// longer than others do is ended.
func endLogins(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := query(ctx, conn, loggingIn)
	if err != nil || len(rows) == 0 {
		return err
	}
	var pids []string
	for _, row := range rows {
		pids = append(pids, row[0])
	}
	these := " AND pid IN (" + strings.Join(pids, ", ") + ")"
	for began := time.Now(); len(rows) > 0; {
		if err := pause(ctx); err != nil {
			return fmt.Errorf("logins don't end: %w", err)
		}
		ask := loggingIn
		if time.Since(began) > insistAfter {
			ask = "SELECT pg_terminate_backend(pid) FROM (" + loggingIn + these + ") slow"
		} else {
			ask += these
		}
		if rows, err = query(ctx, conn, ask); err != nil {
			return err
		}
	}
	return nil
}

// endSessions ends dbadmin's sessions that began before a moment, also those of who is
// still logging in, and returns when they are gone.
func endSessions(ctx context.Context, conn *pgconn.PgConn, before string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	if err := endLogins(ctx, conn); err != nil {
		return err
	}
	end := `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE usename = 'dbadmin' AND backend_start <= '` + before + `'`
	for {
		rows, err := query(ctx, conn, end)
		if err != nil {
			return err
		}
		if rows[0][0] == "0" {
			return nil
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("sessions don't end: %w", err)
		}
	}
}
