package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/internal/cluster"
)

// TestEngineConfig: settings come with a create, are merged by a PUT, null takes one
// away; the same again is no change, and a change is an update.
func TestEngineConfig(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = "/v4/databases/postgresql/instances"
	made := b.send("POST", all, b.full, `{"label":"tuned","region":"local","type":"g6-nanode-1","engine":"postgresql/15","engine_config":{"pg":{"jit":true,"autovacuum_naptime":30},"work_mem":8}}`)
	var d struct{ ID int64 }
	if err := json.Unmarshal([]byte(made.body), &d); err != nil || made.StatusCode != 200 {
		t.Fatalf("%d %s", made.StatusCode, made.body)
	}
	b.is(d.ID, cluster.Active)
	one := fmt.Sprintf("%s/%d", all, d.ID)
	shows := func(r reply, config, status string) {
		t.Helper()
		if r.StatusCode != 200 || !strings.Contains(r.body, `"engine_config":`+config) || !strings.Contains(r.body, `"status":"`+status+`"`) {
			t.Errorf("%d %s", r.StatusCode, r.body)
		}
	}
	shows(b.send("GET", one, b.full, ""), `{"pg":{"autovacuum_naptime":30,"jit":true},"pglookout":{},"work_mem":8}`, "active")
	for _, same := range []string{`{"pg":{"jit":true}}`, `{"pg":{"autovacuum_naptime":30,"jit":true},"pglookout":{},"work_mem":8}`, `{"pg":{"bgwriter_delay":null}}`, `{}`, `null`} {
		shows(b.send("PUT", one, b.full, `{"engine_config":`+same+`}`), `{"pg":{"autovacuum_naptime":30,"jit":true},"pglookout":{},"work_mem":8}`, "active")
	}
	shows(b.send("PUT", one, b.full, `{"engine_config":{"pg":{"jit":null,"deadlock_timeout":2000},"work_mem":null}}`), `{"pg":{"autovacuum_naptime":30,"deadlock_timeout":2000},"pglookout":{}}`, "updating")
	b.is(d.ID, cluster.Active)
	shows(b.send("PUT", one, b.full, `{"label":"tuned2","engine_config":{"pg":null}}`), `{"pg":{},"pglookout":{}}`, "updating")
	b.is(d.ID, cluster.Active)
}

// TestEngineConfigFaults: each value at fault is named, all at once, on create and on
// change.
func TestEngineConfigFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", b.create())
	for body, want := range map[string][]string{
		`{"pg":{"nonsense":1,"jit":"on","autovacuum_naptime":0,"track_io_timing":"maybe","max_connections":900},"work_mem":1.5}`: {
			"engine_config.pg.autovacuum_naptime: Must be from 1 to 86400", "engine_config.pg.jit: Must be true or false",
			"engine_config.pg.max_connections: Can't be chosen: it follows from the type's memory",
			"engine_config.pg.nonsense: There is no such parameter; GET /v4/databases/postgresql/config lists those there are",
			"engine_config.pg.track_io_timing: Must be one of off, on", "engine_config.work_mem: Must be a whole number",
		},
		`{"pg":7}`:              {"engine_config.pg: Must be an object"},
		`{"work_mem":1024}`:     {"engine_config.work_mem: Must be at most 14 with the type g6-nanode-1: shared_buffers (256 MB), work_mem for 33 sessions at once (33792 MB) and 3 autovacuum workers (192 MB) must fit into 921 MB"},
		`{"pg":{"work_mem":4}}`: {"engine_config.pg.work_mem: There is no such parameter; GET /v4/databases/postgresql/config lists those there are"},
	} {
		for _, r := range []reply{
			b.send("PUT", one, b.full, `{"engine_config":`+body+`}`),
			b.send("POST", "/v4/databases/postgresql/instances", b.full, `{"label":"other","region":"local","type":"g6-nanode-1","engine":"postgresql/15","engine_config":`+body+`}`),
		} {
			if got := slices.DeleteFunc(r.faults(), func(f string) bool { return !strings.HasPrefix(f, "engine_config") }); r.StatusCode != 400 || !slices.Equal(got, want) {
				t.Errorf("%s: %d\n%q, wanted\n%q", body, r.StatusCode, got, want)
			}
		}
	}
}

// TestParameterCatalog: the settings are listed in their sections, as clients read them.
func TestParameterCatalog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var pg struct {
		PG map[string]struct {
			Type            string
			Minimum         *float64
			RequiresRestart bool `json:"requires_restart"`
			Enum            []string
		}
		PGLookout map[string]any
		WorkMem   struct{ Maximum float64 } `json:"work_mem"`
	}
	r := b.send("GET", "/v4/databases/postgresql/config", b.full, "")
	if err := json.Unmarshal([]byte(r.body), &pg); err != nil {
		t.Fatal(err)
	}
	if p := pg.PG["max_locks_per_transaction"]; p.Type != "integer" || *p.Minimum != 64 || !p.RequiresRestart || pg.WorkMem.Maximum != 1024 || pg.PGLookout == nil {
		t.Errorf("%+v", pg)
	}
	if p := pg.PG["track_functions"]; p.Minimum != nil || !slices.Equal(p.Enum, []string{"all", "pl", "none"}) || p.RequiresRestart {
		t.Errorf("%+v", p)
	}
	r = b.send("GET", "/v4/databases/mysql/config", b.full, "")
	for _, want := range []string{`"binlog_retention_period":{"description"`, `"mysql":{"connect_timeout":{`, `Only on MySQL.`, `"maxLength":1024`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
}
