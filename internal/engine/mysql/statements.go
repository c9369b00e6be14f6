package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/parameter"
	"steward/internal/statement"
)

// digests are where statements are counted, ofCustomer those of them that are told: not what our own schemas are asked.
const (
	digests    = "performance_schema.events_statements_summary_by_digest"
	ofCustomer = " FROM " + digests + " WHERE DIGEST IS NOT NULL AND coalesce(SCHEMA_NAME, '') NOT IN ('mysql', 'steward')"
)

// orders are what statements can be ordered by.
var orders = map[insight.StatementOrder]string{
	insight.ByTotalTime: "SUM_TIMER_WAIT", insight.ByCalls: "COUNT_STAR", insight.ByMean: "AVG_TIMER_WAIT", insight.ByRows: "SUM_ROWS_SENT + SUM_ROWS_AFFECTED",
}

// Statements implements engine.Inspector. The server tells a statement's logical database, not who sent it.
func (d *Driver) Statements(ctx context.Context, n engine.Node, order insight.StatementOrder, first, most int) (insight.Statements, error) {
	var found insight.Statements
	s, missing, err := d.withStatements(ctx, n)
	if err != nil || missing != "" {
		return insight.Statements{Missing: missing}, err
	}
	defer s.close()
	rows, err := s.rows(ctx, fmt.Sprintf(`SELECT DIGEST, coalesce(SCHEMA_NAME, ''), COUNT_STAR, SUM_ROWS_SENT + SUM_ROWS_AFFECTED, SUM_TIMER_WAIT, AVG_TIMER_WAIT,
		SUM_TIMER_WAIT / greatest(sum(SUM_TIMER_WAIT) OVER (), 1), count(*) OVER (), coalesce(DIGEST_TEXT, '')`+ofCustomer+`
		ORDER BY %s DESC, DIGEST, SCHEMA_NAME LIMIT %d OFFSET %d`, orders[order], most, first))
	if err != nil {
		return found, fmt.Errorf("look at statements: %w", err)
	}
	for _, row := range rows {
		one := insight.Statement{ID: row[0], Database: insight.Name(row[1]), Text: shownDigest(row[8])}
		figures := make([]float64, 6)
		for i := range figures {
			if figures[i], err = strconv.ParseFloat(row[2+i], 64); err != nil {
				return found, fmt.Errorf("look at statements: %w", err)
			}
		}
		one.Calls, one.Rows, one.Share = int64(figures[0]), int64(figures[1]), figures[4]
		one.Total, one.Mean = picoseconds(figures[2]), picoseconds(figures[3])
		found.Count = int(figures[5])
		found.List = append(found.List, one)
	}
	if len(rows) > 0 || first == 0 {
		return found, nil
	}
	counted, err := s.text(ctx, "SELECT count(*)"+ofCustomer)
	if err != nil {
		return found, fmt.Errorf("count statements: %w", err)
	}
	if found.Count, err = strconv.Atoi(counted); err != nil {
		return found, fmt.Errorf("count statements: %w", err)
	}
	return found, nil
}

func picoseconds(ps float64) time.Duration { return time.Duration(ps / 1000) }

// shownDigest is the server's text of a digest, which has its own ellipsis where there is more.
func shownDigest(text string) string {
	text, more := strings.CutSuffix(text, "...")
	return statement.Normalize(statement.MySQL, text, more)
}

// withStatements connects to a server that counts statements. missing says why it doesn't, for customers.
func (d *Driver) withStatements(ctx context.Context, n engine.Node) (s *session, missing string, err error) {
	if !wantsCounting(n) {
		return nil, "Statements aren't counted: set engine_config." + parameter.StatementStatistics + " to true; the servers are restarted for it.", nil
	}
	if !counts(n) {
		return nil, fmt.Sprintf("Statements are counted by servers of types with %d MB of memory and more.", countsFromMB), nil
	}
	if s, err = d.admin(ctx, n); err != nil {
		return nil, "", fmt.Errorf("look at statements: %w", err)
	}
	on, err := s.text(ctx, "SELECT @@performance_schema")
	if err != nil {
		s.close()
		return nil, "", fmt.Errorf("look at statements: %w", err)
	}
	if on != "1" {
		s.close()
		return nil, "The server counts statements from its next restart on: in the maintenance window, or by a patch.", nil
	}
	return s, "", nil
}

// ResetStatements implements engine.Inspector.
func (d *Driver) ResetStatements(ctx context.Context, n engine.Node) (missing string, err error) {
	s, missing, err := d.withStatements(ctx, n)
	if err != nil || missing != "" {
		return missing, err
	}
	defer s.close()
	if err := s.unlogged(ctx); err != nil {
		return "", fmt.Errorf("reset statements: %w", err)
	}
	if err := s.exec(ctx, "TRUNCATE TABLE "+digests); err != nil {
		return "", fmt.Errorf("reset statements: %w", err)
	}
	return "", nil
}

// StatementText implements engine.Inspector: the server keeps no statement that a plan could be made of.
func (*Driver) StatementText(context.Context, engine.Node, string) (text, database string, err error) {
	return "", "", nil
}
