package mysql

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/parameter"
	"steward/internal/statement"
)

// withStatistics lays the sizes over the settings that keep performance_schema small where the customer chose it: what
// it counts of statements takes about 25 MB then, instead of 100 or 240.
func withStatistics(all []setting) []setting {
	for _, s := range all {
		if on, _ := s.value.(bool); s.name != parameter.PerformanceSchema || !on {
			continue
		}
		all = append(all, setting{"performance_schema_digests_size", 1000, apart}, setting{"performance_schema_max_digest_length", 1024, apart})
		for _, name := range uncounted {
			all = append(all, setting{"performance_schema_" + name, 0, apart})
		}
		return all
	}
	return all
}

// uncounted are the parts of performance_schema that nobody looks at.
var uncounted = []string{
	"events_statements_history_size", "events_statements_history_long_size", "events_waits_history_size", "events_waits_history_long_size",
	"events_stages_history_size", "events_stages_history_long_size", "events_transactions_history_size", "events_transactions_history_long_size",
	"max_mutex_instances", "max_rwlock_instances", "max_cond_instances", "max_file_instances", "max_table_instances", "max_table_handles", "max_socket_instances",
	"max_metadata_locks", "max_program_instances", "max_prepared_statements_instances", "max_index_stat", "max_table_lock_stat",
	"accounts_size", "hosts_size", "users_size", "session_connect_attrs_size",
}

// orders are what statements can be ordered by.
var orders = map[insight.StatementOrder]string{
	insight.ByTotalTime: "SUM_TIMER_WAIT", insight.ByCalls: "COUNT_STAR", insight.ByMean: "AVG_TIMER_WAIT", insight.ByRows: "SUM_ROWS_SENT + SUM_ROWS_AFFECTED",
}

// countedStatements leaves out what isn't in a database, since ours aren't, and those beyond the ones that
// are told apart, which have no digest.
const countedStatements = "FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST IS NOT NULL AND SCHEMA_NAME IS NOT NULL " +
	"AND SCHEMA_NAME NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"

const notCounted = "The server doesn't count statements: set performance_schema in engine_config.mysql, which needs a restart and takes about 25 MB of memory."

// Statements implements engine.Inspector. The server doesn't tell whose statements they were.
func (d *Driver) Statements(ctx context.Context, n engine.Node, order insight.StatementOrder, first, most int) (insight.Statements, error) {
	var found insight.Statements
	s, err := d.admin(ctx, n)
	if err != nil {
		return found, fmt.Errorf("look at statements: %w", err)
	}
	defer s.close()
	if found.Missing, err = s.uncounted(ctx); err != nil || found.Missing != "" {
		return found, err
	}
	whole, err := s.record(ctx, "SELECT COUNT(*) AS n, COALESCE(SUM(SUM_TIMER_WAIT), 0) AS total "+countedStatements)
	if err != nil {
		return found, fmt.Errorf("count statements: %w", err)
	}
	if found.Count, err = strconv.Atoi(whole["n"]); err != nil {
		return found, fmt.Errorf("count statements: %w", err)
	}
	total, err := strconv.ParseFloat(whole["total"], 64)
	if err != nil {
		return found, fmt.Errorf("count statements: %w", err)
	}
	rows, err := s.rows(ctx, fmt.Sprintf("SELECT DIGEST, SCHEMA_NAME, COUNT_STAR, SUM_TIMER_WAIT, AVG_TIMER_WAIT, SUM_ROWS_SENT + SUM_ROWS_AFFECTED, DIGEST_TEXT %s ORDER BY %s DESC, DIGEST, SCHEMA_NAME LIMIT %d OFFSET %d",
		countedStatements, orders[order], most, first))
	if err != nil {
		return found, fmt.Errorf("look at statements: %w", err)
	}
	for _, row := range rows {
		one := insight.Statement{ID: row[0], Database: insight.Name(row[1]), Text: statement.Normalize(statement.MySQL, row[6], false)}
		figures := make([]float64, 4)
		for i := range figures {
			if figures[i], err = strconv.ParseFloat(row[2+i], 64); err != nil {
				return found, fmt.Errorf("look at statements: %w", err)
			}
		}
		one.Calls, one.Total, one.Mean, one.Rows = int64(figures[0]), picoseconds(figures[1]), picoseconds(figures[2]), int64(figures[3])
		one.Share = figures[1] / max(total, 1)
		found.List = append(found.List, one)
	}
	return found, nil
}

func picoseconds(ps float64) time.Duration { return time.Duration(ps / 1000) }

// uncounted says why the server counts no statements, for customers; "" when it does.
func (s *session) uncounted(ctx context.Context) (string, error) {
	on, err := s.text(ctx, "SELECT @@GLOBAL.performance_schema")
	if err != nil {
		return "", fmt.Errorf("look whether statements are counted: %w", err)
	}
	if on != "1" {
		return notCounted, nil
	}
	return "", nil
}

// ResetStatements implements engine.Inspector.
func (d *Driver) ResetStatements(ctx context.Context, n engine.Node) (missing string, err error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return "", fmt.Errorf("reset statements: %w", err)
	}
	defer s.close()
	if missing, err = s.uncounted(ctx); err != nil || missing != "" {
		return missing, err
	}
	if err := s.unlogged(ctx); err != nil {
		return "", fmt.Errorf("reset statements: %w", err)
	}
	return "", s.exec(ctx, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
}

// StatementText implements engine.Inspector: what the server keeps of a statement has no plan.
func (d *Driver) StatementText(context.Context, engine.Node, string) (text, database string, err error) {
	return "", "", nil
}
