package api_test

import (
	"fmt"
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// TestSuspendAndResume by the paths of both versions; while it rests a database
// answers a sentence that says so to all that needs it to run.
func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	const beta = "/v4beta/databases/postgresql/instances/%d"
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	is := func(status cluster.Status) {
		t.Helper()
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = $1 WHERE id = $2", status, id); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(status cluster.Status) {
		t.Helper()
		if r := b.send("GET", one, b.full, ""); !strings.Contains(r.body, fmt.Sprintf(`"status":%q`, status)) {
			t.Errorf("%s", r.body)
		}
	}
	is(cluster.Active)
	if r := b.send("POST", one+"/suspend", b.full, ""); r.StatusCode != 200 || strings.TrimSpace(r.body) != "{}" {
		t.Errorf("suspend: %d %s", r.StatusCode, r.body)
	}
	shows(cluster.Suspending)
	is(cluster.Suspended)
	if r := b.send("POST", "/v4/databases/postgresql/instances", b.full, strings.Replace(goodCreate, `"shop"`, `"shelved"`, 1)); r.StatusCode != 200 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	var shelved int64
	if err := b.store.Pool().QueryRow(t.Context(), "UPDATE clusters SET status = 'suspended' WHERE label = 'shelved' RETURNING id").Scan(&shelved); err != nil {
		t.Fatal(err)
	}
	other := fmt.Sprintf("/v4/databases/postgresql/instances/%d", shelved)
	if r := b.send("DELETE", other, b.full, ""); r.StatusCode != 200 || b.send("GET", other, b.full, "").StatusCode != 404 {
		t.Errorf("delete while suspended: %d %s", r.StatusCode, r.body)
	}
	for _, request := range []string{"GET /credentials", "GET /ssl", "PUT ", "POST /patch", "POST /restart", "POST /switchover", "POST /suspend", "POST /credentials/reset"} {
		method, path, _ := strings.Cut(request, " ")
		if r := b.send(method, one+path, b.full, ""); r.StatusCode != 400 || !strings.Contains(r.body, "The database is suspended; it can be") {
			t.Errorf("%s while suspended: %d %s", request, r.StatusCode, r.body)
		}
	}
	if r := b.send("POST", fmt.Sprintf(beta, id)+"/resume", b.full, ""); r.StatusCode != 200 || strings.TrimSpace(r.body) != "{}" {
		t.Errorf("resume: %d %s", r.StatusCode, r.body)
	}
	shows(cluster.Resuming)
	if r := b.send("POST", fmt.Sprintf(beta, id)+"/suspend", b.full, ""); r.StatusCode != 400 {
		t.Errorf("suspend while resuming: %d %s", r.StatusCode, r.body)
	}
	for _, action := range []string{"database_suspend", "database_resume"} {
		if r := b.send("GET", "/v4/account/events", b.full, "", "X-Filter", fmt.Sprintf(`{"action":%q}`, action)); !strings.Contains(r.body, `"results":1`) {
			t.Errorf("%s: %s", action, r.body)
		}
	}
}

func TestMembersOfThreeNodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.send("POST", "/v4/databases/postgresql/instances", b.full, strings.Replace(goodCreate, "{", `{"cluster_size":3,"replication_commit_type":"remote_apply",`, 1))
	for _, part := range []string{`"cluster_size":3`, `"replication_type":"asynch"`, `"replication_commit_type":"remote_apply"`, `"members":{}`} {
		if r.StatusCode != 200 || !strings.Contains(r.body, part) {
			t.Fatalf("%s: %d %s", part, r.StatusCode, r.body)
		}
	}
	var id cluster.ID
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT max(id) FROM clusters").Scan(&id); err != nil {
		t.Fatal(err)
	}
	seen := platform.Observed{Members: map[string]string{"127.0.77.1": "failover", "127.0.77.2": "primary", "127.0.77.3": "failover"}}
	if err := b.store.RecordObserved(t.Context(), id, seen); err != nil {
		t.Fatal(err)
	}
	const want = `"members":{"127.0.77.1":"failover","127.0.77.2":"primary","127.0.77.3":"failover"}`
	if r := b.send("GET", fmt.Sprintf("/v4/databases/postgresql/instances/%d", id), b.full, ""); !strings.Contains(r.body, want) {
		t.Errorf("%s", r.body)
	}
}
