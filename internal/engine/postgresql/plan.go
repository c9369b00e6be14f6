package postgresql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/insight"
)

// planParameters bound a session that asks for a plan. Plans are for any values, since those of a
// counted statement aren't known.
func planParameters() map[string]string {
	return map[string]string{
		"application_name": "steward plan", "default_transaction_read_only": "on", "statement_timeout": "3s", "lock_timeout": "1s",
		"idle_in_transaction_session_timeout": "10s", "plan_cache_mode": "force_generic_plan", "jit": "off", "client_encoding": "UTF8",
	}
}

// Plan implements engine.Inspector. The planner may evaluate functions that are marked as immutable, or take
// their word of a table's figures: so it is dbadmin who logs in, not us who become dbadmin, from which
// a function could turn back, and the transaction is read only before a function can run. The
// protocol takes one statement only.
func (Driver) Plan(ctx context.Context, n engine.Node, database, text string) (insight.Plan, error) {
	config, err := verified(n)
	if err != nil {
		return insight.Plan{}, fmt.Errorf("plan: %w", err)
	}
	conn, err := connect(ctx, login{
		host: door(n).Addr().String(), port: door(n).Port(), user: customerRole, password: n.RootPassword, database: database, tls: config, parameters: planParameters(),
	})
	if err != nil {
		return refusedPlan(err)
	}
	defer closeSoon(ctx, conn)
	conn.Frontend().SetMaxBodyLen(2 * insight.MostPlan)
	if _, err := query(ctx, conn, "BEGIN READ ONLY; SELECT 1"); err != nil {
		return refusedPlan(err)
	}
	prepared, err := conn.Prepare(ctx, "asked", text, nil)
	if err != nil {
		return refusedPlan(err)
	}
	explain := "EXPLAIN (FORMAT JSON) EXECUTE asked"
	if given := len(prepared.ParamOIDs); given > 0 {
		explain += "(NULL" + strings.Repeat(", NULL", given-1) + ")"
	}
	rows, err := query(ctx, conn, explain)
	if err != nil {
		return refusedPlan(err)
	}
	if len(rows) != 1 || len(rows[0][0]) > insight.MostPlan {
		return insight.Plan{Refused: "The plan is too long to be shown."}, nil
	}
	var plans []struct{ Plan json.RawMessage }
	if err := json.Unmarshal([]byte(rows[0][0]), &plans); err != nil || len(plans) == 0 {
		return insight.Plan{Refused: "The statement has no plan."}, nil // it is none that reads or changes rows
	}
	return insight.Plan{JSON: []byte(rows[0][0])}, nil
}

// refusedPlan is what a server has against a statement, when it is the server that says so.
func refusedPlan(err error) (insight.Plan, error) {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && !errors.Is(err, engine.ErrAuthentication) && !errors.Is(err, engine.ErrStarting) {
		return insight.Plan{Refused: insight.Said(refused.Message)}, nil
	}
	return insight.Plan{}, fmt.Errorf("plan: %w", err)
}
