package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/insight"
	"steward/internal/platform/memplatform"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d/queries", id)
	inside := func(change func(*memplatform.Inside)) {
		b.behind(id, func(c *memplatform.Cluster) { change(&c.Inside) })
	}
	inside(func(in *memplatform.Inside) {
		in.Statements.Count = 30
		for i := range 30 {
			in.Statements.List = append(in.Statements.List, insight.Statement{
				ID: fmt.Sprint(-i), Calls: 2, Rows: 3, Total: 1500 * time.Microsecond, Mean: 750 * time.Microsecond, Share: 1. / 3, Text: "select ?",
			})
		}
	})
	r := b.send("GET", one+"/statistics?page=2&page_size=25&order_by=calls", b.readOnly, "")
	if !strings.Contains(r.body, `"page":2,"pages":2,"results":30`) || strings.Count(r.body, `"query_id"`) != 5 ||
		!strings.Contains(r.body, `{"query_id":"-25","query":"select ?","user":null,"database":null,"calls":2,"rows":3,"total_time":0.0015,"mean_time":0.00075,"share":0.3333}`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", one+"/statistics?order_by=query", b.readOnly, ""); r.StatusCode != 400 || !strings.Contains(r.body, `"field":"order_by"`) {
		t.Errorf("an unknown order: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("POST", one+"/statistics/reset", b.readOnly, ""); r.StatusCode != 401 {
		t.Errorf("reset by a reader: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("POST", one+"/statistics/reset", b.full, ""); r.StatusCode != 200 {
		t.Errorf("reset: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", one+"/statistics", b.readOnly, ""); !strings.Contains(r.body, `"sleeping":false,"missing":null,"data":[]`) {
		t.Errorf("after the reset: %s", r.body)
	}
	inside(func(in *memplatform.Inside) { in.Statements.Missing = "Not before a restart." })
	if r := b.send("GET", one+"/statistics", b.readOnly, ""); !strings.Contains(r.body, `"missing":"Not before a restart."`) {
		t.Errorf("%s", r.body)
	}
	if r := b.send("POST", one+"/statistics/reset", b.full, ""); r.StatusCode != 400 || !strings.Contains(r.body, "Not before a restart.") {
		t.Errorf("reset of nothing: %d %s", r.StatusCode, r.body)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	path := fmt.Sprintf("/v4/databases/postgresql/instances/%d/queries/plan", id)
	b.behind(id, func(c *memplatform.Cluster) {
		c.Inside.Plan.JSON = []byte(`[{"Plan":{}}]`)
		c.Inside.Texts = map[string]string{"5": "select a from t where b = $1", "6": "select a from t where b = 'hunter2'", "7": "set x = 1"}
	})
	for body, faults := range map[string][]string{
		`{}`: {"query: query is required"}, `{"query":"select 1"}`: {"database: database is required"},
		`{"query":"select 1","query_id":"5","database":""}`:      {"database: Length must be 1-64 characters", "query_id: Leave it out when you send a query"},
		`{"query":"drop table x","database":"d"}`:                {"query: Must be a single SELECT, INSERT, UPDATE, DELETE, WITH, VALUES or TABLE statement, or MERGE or REPLACE where the server has it"},
		`{"query":"/* select */ explain analyze delete from x"}`: {"database: database is required", "query: Must be a single SELECT, INSERT, UPDATE, DELETE, WITH, VALUES or TABLE statement, or MERGE or REPLACE where the server has it"},
		`{"query_id":"6"}`: {"query_id: No plan can be made of what is kept of this statement; send the statement as query"},
		`{"query_id":"7"}`: {"query_id: No plan can be made of what is kept of this statement; send the statement as query"},
		`{"query_id":"8"}`: {"query_id: No plan can be made of what is kept of this statement; send the statement as query"},
		`{"query":"` + strings.Repeat(" ", 33000) + `select 1"}`: {"database: database is required", "query: Length must be 1-32768 characters"},
	} {
		if r := b.send("POST", path, b.full, body); r.StatusCode != 400 || !slices.Equal(r.faults(), faults) {
			t.Errorf("%.80s: %d %q", body, r.StatusCode, r.faults())
		}
	}
	for _, body := range []string{`{"query":"select 'hunter2'","database":"d"}`, `{"query_id":"5"}`, `{"query_id":"5","database":"e"}`} {
		if r := b.send("POST", path, b.full, body); r.StatusCode != 200 || r.body != `{"plan":[{"Plan":{}}]}`+"\n" {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	c, _ := b.world.Cluster(cluster.ID(id))
	if want := []string{"d: select 'hunter2'", "defaultdb: select a from t where b = $1", "e: select a from t where b = $1"}; !slices.Equal(c.Inside.Planned, want) {
		t.Errorf("planned: %q", c.Inside.Planned)
	}
	if r := b.send("POST", path, b.readOnly, `{"query":"select 1","database":"d"}`); r.StatusCode != 401 {
		t.Errorf("a reader: %d %s", r.StatusCode, r.body)
	}
	b.behind(id, func(c *memplatform.Cluster) { c.Inside.Plan.Refused = "there is no column x" })
	if r := b.send("POST", path, b.full, `{"query":"select x","database":"d"}`); r.StatusCode != 400 || !strings.Contains(r.body, "The database refuses: there is no column x") {
		t.Errorf("refused: %d %s", r.StatusCode, r.body)
	}
	b.behind(id, func(c *memplatform.Cluster) { c.Running, c.SleepingSince = false, time.Now() })
	if r := b.send("POST", path, b.full, `{"query":"select x","database":"d"}`); r.StatusCode != 400 || !strings.Contains(r.body, "sleeps") {
		t.Errorf("asleep: %d %s", r.StatusCode, r.body)
	}
}
