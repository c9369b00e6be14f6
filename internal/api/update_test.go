package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"steward/internal/cluster"
)

// TestUnchangedMembersAreNoChange: clients send back all that they were shown.
// What is there already changes nothing, not even the time of the last change;
// what can't be changed is refused by its name.
func TestUnchangedMembersAreNoChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.is(id, cluster.Active)
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET updated = '2026-01-31T18:04:05Z' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	for _, body := range []string{
		`{}`, `{"type":"g6-nanode-1","allow_list":["127.0.0.1"]}`, `{"label":"shop"}`,
		`{"region":"local","encrypted":false,"ssl_connection":true,"replication_type":"none","replication_commit_type":"local","version":"15","cluster_size":1,"engine":"postgresql"}`,
		`{"engine":"postgresql/15","private_network":null,"engine_config":{"pg":{},"pglookout":{}}}`, `{"engine_config":null}`, `{"engine_config":{}}`,
		`{"engine_config":{"pg":{"work_mem":null},"work_mem":null}}`,
	} {
		r := b.send("PUT", one, b.full, body)
		if r.StatusCode != 200 || !strings.Contains(r.body, `"updated":"2026-01-31T18:04:05"`) || !strings.Contains(r.body, `"status":"active"`) {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	r := b.send("PUT", one, b.full, `{"engine":"postgresql/17","region":"mars","encrypted":true,"ssl_connection":false,"replication_type":"asynch","replication_commit_type":"on","version":"17"}`)
	if got := r.faults(); r.StatusCode != 400 || len(got) != 7 {
		t.Errorf("%d %q", r.StatusCode, got)
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET allow_list = '{192.0.2.1/24}', updated = '2026-01-31T18:04:05Z' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	if r := b.send("PUT", one, b.full, `{"allow_list":["192.0.2.1/24"]}`); r.StatusCode != 200 || !strings.Contains(r.body, `"updated":"2026-01-31T18:04:05"`) {
		t.Errorf("a list of earlier times, as it is: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("PUT", one, b.full, `{"type":"g6-nanode-1","allow_list":["127.0.0.2"]}`); r.StatusCode != 200 || !strings.Contains(r.body, `"status":"updating"`) {
		t.Errorf("an allow_list beside the type that it has: %d %s", r.StatusCode, r.body)
	}
}

// TestClusterSizeIsChanged: nodes are asked for like a bigger plan, with what suits
// as many unless something else that does is asked for.
func TestClusterSizeIsChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, c := range []struct {
		body    string
		status  int
		answers []string
	}{
		{`{"cluster_size":3}`, 200, []string{`"cluster_size":3`, `"replication_type":"asynch"`, `"replication_commit_type":"local"`, `"status":"updating"`}},
		{`{"cluster_size":3,"replication_type":"none","replication_commit_type":"local"}`, 200, []string{`"replication_type":"asynch"`}},
		{`{"cluster_size":3,"replication_commit_type":"remote_apply"}`, 200, []string{`"replication_commit_type":"remote_apply"`}},
		{`{"cluster_size":3,"type":"g6-standard-1","label":"bigger"}`, 200, []string{`"cluster_size":3`, `"type":"g6-standard-1"`, `"label":"bigger"`}},
		{`{"cluster_size":1,"replication_type":"none"}`, 200, []string{`"status":"active"`}},
		{`{"cluster_size":2}`, 400, []string{`"field":"cluster_size","reason":"Must be one of 1, 3`}},
		{`{"cluster_size":3,"replication_type":"semi_synch"}`, 400, []string{`"field":"replication_type","reason":"Must be asynch`}},
		{`{"cluster_size":2,"replication_type":"x","replication_commit_type":"y"}`, 400, []string{`"field":"cluster_size"`, `"field":"replication_type"`, `"field":"replication_commit_type"`}},
		{`{"replication_commit_type":"on"}`, 400, []string{`"field":"replication_commit_type"`, "together with cluster_size"}},
	} {
		var made struct{ ID int64 }
		spec := strings.Replace(goodCreate, `"shop"`, fmt.Sprintf(`"shop-%d"`, i), 1)
		if r := b.send("POST", "/v4/databases/postgresql/instances", b.full, spec); json.Unmarshal([]byte(r.body), &made) != nil || r.StatusCode != 200 {
			t.Fatal(r.body)
		}
		id := made.ID
		b.is(id, cluster.Active)
		r := b.send("PUT", fmt.Sprintf("/v4/databases/postgresql/instances/%d", id), b.full, c.body)
		if r.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.body, r.StatusCode, r.body)
		}
		for _, want := range c.answers {
			if !strings.Contains(r.body, want) {
				t.Errorf("%s: no %s in %s", c.body, want, r.body)
			}
		}
	}
}

// TestUnofferedIsRefused: what clients can ask for elsewhere isn't taken and then
// ignored, in requests to create and to update.
func TestUnofferedIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.is(id, cluster.Active)
	const all = "/v4/databases/postgresql/instances"
	const made = `"label":"other","region":"local","type":"g6-nanode-1","engine":"postgresql/15"`
	for _, c := range []struct{ member, field string }{
		{`"private_network":{"vpc_id":1}`, "private_network"},
		{`"private_network":{}`, "private_network"},
		{`"private_network":7`, "private_network"},
		{`"engine_config":{"pg":{"work_mem":4}}`, "engine_config.pg.work_mem"},
		{`"engine_config":{"mysql":{"connect_timeout":4}}`, "engine_config.mysql"},
		{`"engine_config":[]`, "engine_config"},
	} {
		for _, r := range []reply{
			b.send("PUT", fmt.Sprintf("%s/%d", all, id), b.full, "{"+c.member+"}"), b.send("POST", all, b.full, "{"+made+","+c.member+"}"),
		} {
			if got := r.faults(); r.StatusCode != 400 || len(got) != 1 || !strings.HasPrefix(got[0], c.field+":") {
				t.Errorf("%s: %d %s", c.member, r.StatusCode, r.body)
			}
		}
	}
	if r := b.send("POST", all, b.full, "{"+made+`,"private_network":null,"engine_config":{"pg":{},"pglookout":{}}}`); r.StatusCode != 200 {
		t.Errorf("nothing asked for: %d %s", r.StatusCode, r.body)
	}
}

// TestTypeAndAllowListTogether: one request changes both, by one piece of work.
func TestTypeAndAllowListTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.is(id, cluster.Active)
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	r := b.send("PUT", one, b.full, `{"type":"g6-standard-1","allow_list":["192.0.2.7"]}`)
	if r.StatusCode != 200 || !strings.Contains(r.body, `"type":"g6-standard-1"`) || !strings.Contains(r.body, `"allow_list":["192.0.2.7"]`) {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
}

// TestEnginesByMajorVersion: clients name an engine by its major version, and send
// that back; answers have the series.
func TestEnginesByMajorVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = "/v4/databases/mysql/instances"
	made := b.send("POST", all, b.full, `{"label":"shop","engine":"mysql/10","region":"local","type":"g6-nanode-1"}`)
	if made.StatusCode != 200 || !strings.Contains(made.body, `"version":"10.11"`) {
		t.Fatalf("%d %s", made.StatusCode, made.body)
	}
	var d struct{ ID int64 }
	if err := json.Unmarshal([]byte(made.body), &d); err != nil {
		t.Fatal(err)
	}
	b.is(d.ID, cluster.Active)
	one := fmt.Sprintf("%s/%d", all, d.ID)
	for _, body := range []string{`{"version":"10"}`, `{"version":"10.11"}`, `{"engine":"mysql/10"}`, `{"engine":"mysql/10.11"}`, `{"engine":"mysql"}`} {
		if r := b.send("PUT", one, b.full, body); r.StatusCode != 200 || !strings.Contains(r.body, `"version":"10.11"`) {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	for body, field := range map[string]string{`{"version":"11"}`: "version", `{"version":"1"}`: "version", `{"version":""}`: "version", `{"engine":"mysql/"}`: "engine", `{"engine":"postgresql/10"}`: "engine"} {
		if r := b.send("PUT", one, b.full, body); r.StatusCode != 400 || len(r.faults()) != 1 || !strings.HasPrefix(r.faults()[0], field+":") {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	for _, engine := range []string{"mysql/1", "mysql/11", "mysql/", "mysql", "postgresql/15"} {
		r := b.send("POST", all, b.full, fmt.Sprintf(`{"label":"other","engine":%q,"region":"local","type":"g6-nanode-1"}`, engine))
		if got := r.faults(); r.StatusCode != 400 || len(got) != 1 || got[0] != "engine: engine is not valid; offered: mysql/10.11" {
			t.Errorf("%s: %d %s", engine, r.StatusCode, r.body)
		}
	}
}
