package api_test

import (
	"strings"
	"testing"
)

// TestIssuesTellTheirDatabase and the rule that opened them, and can be filtered by the database.
func TestIssuesTellTheirDatabase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.store.Pool().Exec(t.Context(), `WITH t AS (
			INSERT INTO tickets (account_id, summary, status, opened, updated) SELECT $1, cause, 'open', now(), now()
			FROM unnest('{database/7/alert/2,database/7,database/71/backup/7,""}'::text[]) cause RETURNING id, summary)
		INSERT INTO issues (account_id, ticket_id, host, cause, created) SELECT $1, id, '', nullif(summary, ''), now() FROM t`, b.account)
	if err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string][]string{
		`{"database_id":7}`:                {`"results":2`, `"database_id":7,"alert_id":2`, `"database_id":7,"alert_id":null`},
		`{"database_id":71,"closed":null}`: {`"results":1`, `"database_id":71,"alert_id":null`},
		`{"database_id":null}`:             {`"results":1`, `"database_id":null,"alert_id":null`},
		`{"database_id":{"+gt":7}}`:        {`"results":1`},
		`{"+order_by":"database_id"}`:      {`"results":4`},
		`{"database_id":1}`:                {`"results":0`},
	} {
		r := b.send("GET", "/v4/managed/issues", b.full, "", "X-Filter", filter)
		for _, part := range want {
			if r.StatusCode != 200 || !strings.Contains(r.body, part) {
				t.Errorf("%s: no %s in %d %s", filter, part, r.StatusCode, r.body)
			}
		}
	}
	if r := b.send("GET", "/v4/managed/issues", b.full, "", "X-Filter", `{"database_id":"x"}`); r.StatusCode != 400 || !strings.Contains(r.body, "database_id") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
