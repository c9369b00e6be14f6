package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/statement"
	"steward/internal/store"
)

// Statements are a part of what a database's primary has counted of statements. The
// database isn't woken by it.
func (s *Queries) Statements(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, order insight.StatementOrder, page store.Page) (insight.Statements, error) {
	if err := s.into(ctx, p, engine, id); err != nil {
		return insight.Statements{}, err
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, err := s.Platform.Statements(short, id, order, (page.Number-1)*page.Size, page.Size)
	if err != nil {
		return found, s.lookFailed(ctx, err, "look at the statements", id)
	}
	return found, nil
}

// ResetStatements has a database's primary count statements anew.
func (s *Queries) ResetStatements(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	if err := s.intoAsWriter(ctx, p, engine, id); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	missing, err := s.Platform.ResetStatements(short, id)
	if err != nil {
		return s.lookFailed(ctx, err, "reset the statements", id)
	}
	if missing != "" {
		return fault.NewPrecondition("%s", missing)
	}
	return nil
}

// AskedPlan is a statement whose plan is asked for: Query, or a counted one.
type AskedPlan struct {
	Database, Query, QueryID *string
}

// Plan is how a database's primary would carry out a statement, which isn't done. The
// planner has the rights of the root user, so who asks must be allowed to change the database.
func (s *Queries) Plan(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, in AskedPlan, faults fault.Faults) (insight.Plan, error) {
	if err := s.intoAsWriter(ctx, p, engine, id); err != nil {
		return insight.Plan{}, err
	}
	dialect := statement.MySQL
	if engine == cluster.PostgreSQL {
		dialect = statement.PostgreSQL
	}
	if faults = combine(faults, in.faults(dialect)); len(faults) > 0 {
		return insight.Plan{}, faults
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	text, database := in.Query, in.Database
	if text == nil {
		counted, of, err := s.Platform.StatementText(short, id, *in.QueryID)
		if err != nil {
			return insight.Plan{}, s.lookFailed(ctx, err, "look for a statement", id)
		}
		if counted == "" || !statement.HasPlan(dialect, counted) || statement.HasValues(dialect, counted) {
			return insight.Plan{}, fault.NewInvalid("query_id", "No plan can be made of what is kept of this statement; send the statement as query")
		}
		text = &counted
		if database == nil {
			database = &of
		}
	}
	if database == nil {
		return insight.Plan{}, fault.Required("database")
	}
	found, err := s.Platform.Plan(short, id, *database, *text)
	if err != nil {
		return found, s.lookFailed(ctx, err, "plan a statement", id)
	}
	if found.Refused != "" {
		return found, fault.NewPrecondition("The database refuses: %s", found.Refused)
	}
	return found, nil
}

// faults are what is wrong with a statement before a server is asked.
func (in AskedPlan) faults(d statement.Dialect) (faults fault.Faults) {
	const longestName = 64 // as both engines have it
	switch {
	case in.Query == nil && in.QueryID == nil:
		faults = append(faults, fault.Required("query"))
	case in.Query != nil && in.QueryID != nil:
		faults.Add("query_id", "Leave it out when you send a query")
	case in.Query != nil && len(*in.Query) > insight.MostPlanned:
		faults = append(faults, fault.Length("query", 1, insight.MostPlanned))
	case in.Query != nil && !statement.HasPlan(d, *in.Query):
		faults.Add("query", "Must be a single SELECT, INSERT, UPDATE, DELETE, WITH, VALUES or TABLE statement, or MERGE or REPLACE where the server has it")
	}
	if in.Query != nil && in.Database == nil {
		faults = append(faults, fault.Required("database"))
	}
	if in.Database != nil && (*in.Database == "" || len(*in.Database) > longestName) {
		faults = append(faults, fault.Length("database", 1, longestName))
	}
	return faults
}
