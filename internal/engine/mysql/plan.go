package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
	"steward/internal/insight"
)

// Plan implements engine.Inspector. The optimizer may evaluate functions: it is dbadmin who logs in, in a
// transaction that can't write. The connection takes one statement at a time only.
func (d *Driver) Plan(ctx context.Context, n engine.Node, database, text string) (insight.Plan, error) {
	s, err := d.rootAnyway(ctx, n)
	if err != nil {
		return insight.Plan{}, fmt.Errorf("plan: %w", err)
	}
	defer s.close()
	limit := "SET SESSION max_execution_time = 3000"
	if n.Installation.Flavour == engine.FlavourMariaDB {
		limit = "SET SESSION max_statement_time = 3"
	}
	if err := s.exec(ctx, "USE `"+strings.ReplaceAll(database, "`", "``")+"`", limit, "SET SESSION lock_wait_timeout = 1", "START TRANSACTION READ ONLY"); err != nil {
		return refusedPlan(err)
	}
	plan, err := s.text(ctx, "EXPLAIN FORMAT=JSON "+text)
	if err != nil {
		return refusedPlan(err)
	}
	if len(plan) > insight.MostPlan {
		return insight.Plan{Refused: "The plan is too long to be shown."}, nil
	}
	return insight.Plan{JSON: []byte(plan)}, nil
}

// refusedPlan is what a server has against a statement, when it is the server that says so.
func refusedPlan(err error) (insight.Plan, error) {
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok && !errors.Is(err, engine.ErrAuthentication) {
		return insight.Plan{Refused: insight.Said(refused.Message)}, nil
	}
	return insight.Plan{}, fmt.Errorf("plan: %w", err)
}
