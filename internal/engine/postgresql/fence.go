package postgresql

import (
	"context"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// quiet keeps what customers raise out of the server's log, but for the errors of their statements, which owners look for,
// and what ranks above: statements that take long, or are audited, are logged as LOG. It is what the template has, too.
const quiet = "error"

// quieten makes it so for all sessions that begin from now on.
const quieten = "ALTER ROLE ALL SET log_min_messages = '" + quiet + "'"

// Fence implements engine.Driver. A replica has its primary's fences.
func (Driver) Fence(ctx context.Context, n engine.Node) error {
	if n.Role == cluster.Replica {
		return nil
	}
	row, err := askOne(ctx, n, `SELECT pg_is_in_recovery() OR EXISTS (SELECT FROM pg_db_role_setting
		WHERE setrole = 0 AND setdatabase = 0 AND 'log_min_messages=`+quiet+`' = ANY (setconfig)), `+pinned)
	if err != nil {
		return fmt.Errorf("look at the fences: %w", err)
	}
	if row[0] == "t" && row[1] == "t" {
		return nil
	}
	change := quieten
	if row[1] != "t" {
		change += "; " + pin()
	}
	if _, err := ask(ctx, n, change); err != nil {
		return fmt.Errorf("keep sessions out of the log: %w", err)
	}
	return nil
}

// CheckNames implements engine.Driver. Databases are folders with numbers for names.
func (Driver) CheckNames(engine.Node) error { return nil }
