package enginetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/insight"
)

// statementsCounted looks at what statements cost, where the server counts them from the start.
func statementsCounted(t *testing.T, s *Server) {
	driver, n := s.Bench.Driver, s.Node
	look := func() insight.Statements {
		t.Helper()
		found, err := driver.Statements(t.Context(), n, insight.ByCalls, 0, 100)
		must(t, err, "look at statements")
		for _, one := range found.List {
			if strings.Contains(one.Text, aSecret) || one.User == "steward" || strings.Contains(one.Text, "pg_stat") && one.User != "dbadmin" {
				t.Errorf("counted: %+v", one)
			}
		}
		return found
	}
	if found := look(); found.Missing != "" {
		t.Fatal(found.Missing)
	}
	s.Exec(t, "CREATE TABLE counted (id int, v varchar(20))")
	for i := range 20 {
		s.Exec(t, fmt.Sprintf("INSERT INTO counted VALUES (%d, '%s')", i, aSecret))
	}
	counted := func() int64 {
		t.Helper()
		found := look()
		i := slices.IndexFunc(found.List, func(one insight.Statement) bool {
			return strings.HasPrefix(strings.ToLower(strings.ReplaceAll(one.Text, "`", "")), "insert into counted values")
		})
		if i < 0 {
			return 0
		}
		one := found.List[i]
		if one.Total <= 0 || one.Mean <= 0 || one.Share <= 0 || one.Share > 1 || one.Rows != one.Calls || one.Database == "" || one.ID == "" || found.Count < len(found.List) {
			t.Errorf("counted: %+v of %d", one, found.Count)
		}
		text, _, err := driver.StatementText(t.Context(), n, one.ID)
		if err != nil || strings.Contains(text, aSecret) {
			t.Errorf("kept of a statement: %q, %v", text, err)
		}
		return one.Calls
	}
	calls := int64(0)
	await.True(t, "all calls are counted, of which MySQL answers the last first", func() bool {
		calls = counted()
		return calls >= 20
	})
	if calls != 20 {
		t.Errorf("%d calls counted", calls)
	}
	if found, err := driver.Statements(t.Context(), n, insight.ByTotalTime, 1<<20, 100); err != nil || len(found.List) != 0 || found.Count == 0 {
		t.Errorf("past the end: %+v, %v", found, err)
	}
	for range 20 { // a loop of resets costs nobody anything
		missing, err := driver.ResetStatements(t.Context(), n)
		if missing != "" || err != nil {
			t.Fatalf("reset: %q, %v", missing, err)
		}
	}
	if calls := counted(); calls != 0 {
		t.Errorf("%d calls counted after a reset", calls)
	}
	s.Exec(t, "DROP TABLE counted")
}

// statementsPlanned asks for plans, of good statements and of some that mean harm.
func statementsPlanned(t *testing.T, s *Server) {
	driver, n := s.Bench.Driver, s.Node
	s.Exec(t, "CREATE TABLE planned (id int PRIMARY KEY, v int)", "INSERT INTO planned VALUES (1, 1)")
	plan := func(text string) insight.Plan {
		t.Helper()
		found, err := driver.Plan(t.Context(), n, "defaultdb", text)
		must(t, err, "plan "+text)
		if found.Refused == "" && !json.Valid(found.JSON) || found.Refused != "" && len(found.JSON) > 0 {
			t.Errorf("plan of %s: %s, %s", text, found.JSON, found.Refused)
		}
		return found
	}
	if found := plan("SELECT v FROM planned WHERE id = 1"); found.Refused != "" || !strings.Contains(string(found.JSON), "planned") {
		t.Errorf("plan: %+v", found)
	}
	refused := []string{"SELECT v FROM nowhere", "SELECT 1; DROP TABLE planned", "SELECT FROM WHERE", ""}
	if s.Bench.Installation.Family() == cluster.PostgreSQL {
		plantFunctions(t, s)
		refused = append(refused, "SELECT grab()", "SELECT write_down()", "SELECT lower(1)", "SELECT pg_read_file('/etc/passwd'", "COMMIT; DROP TABLE planned", "COMMIT")
		if found := plan("SELECT v FROM planned WHERE id = $1 AND v = $2"); found.Refused != "" {
			t.Errorf("with parameters: %s", found.Refused)
		}
		if found := plan("DELETE FROM planned"); found.Refused != "" {
			t.Errorf("of a change: %s", found.Refused)
		}
		if found := plan("SELECT slow()"); !strings.Contains(found.Refused, "timeout") {
			t.Errorf("of what takes long: %+v", found)
		}
	}
	for _, text := range refused {
		if found := plan(text); found.Refused == "" {
			t.Errorf("%q has the plan %s", text, found.JSON)
		}
	}
	if found, err := driver.Plan(t.Context(), n, "no'such\"`db", "SELECT 1"); err != nil || found.Refused == "" {
		t.Errorf("in a database that isn't there: %+v, %v", found, err)
	}
	if rows := s.Text(t, "SELECT count(*) FROM planned"); rows != "1" {
		t.Errorf("%s rows after plans", rows)
	}
	if s.Bench.Installation.Family() == cluster.PostgreSQL {
		s.Exec(t, "DROP FUNCTION grab(), write_down(), public.lower(int), slow()")
	}
	s.Exec(t, "DROP TABLE planned")
}

// plantFunctions makes functions that the planner evaluates, since they say that they are immutable: one takes
// another role if it can, one writes, one takes the place of a function of the catalog's, one takes long.
func plantFunctions(t *testing.T, s *Server) {
	t.Helper()
	s.Exec(
		t,
		`CREATE FUNCTION grab() RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('role', 'steward', false); RETURN 'grabbed'; END $$`,
		`CREATE FUNCTION write_down() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
			PERFORM set_config('transaction_read_only', 'off', true); INSERT INTO planned VALUES (2, 2); RETURN 1; END $$`,
		`CREATE FUNCTION public.lower(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN INSERT INTO planned VALUES (3, 3); RETURN 1; END $$`,
		`CREATE FUNCTION slow() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN 1; END $$`,
	)
}
