package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
)

// TestMaintenance: what waits for a window is shown with its database and in the
// account's list, to whom the database is shown.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.active()
	const list = "/v4/account/maintenance"
	if r := b.send("GET", one, b.full, ""); !strings.Contains(r.body, `"pending":[]`) {
		t.Errorf("nothing waits: %s", r.body)
	}
	var id cluster.ID
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT max(id) FROM clusters").Scan(&id); err != nil {
		t.Fatal(err)
	}
	ends := time.Date(2026, 12, 31, 18, 4, 5, 0, time.UTC)
	err := b.store.RecordTasks(t.Context(), id, []cluster.Task{
		{Kind: cluster.TaskUpdate, From: "15.17", To: "15.18"}, {Kind: cluster.TaskCertificate, Deadline: &ends},
	})
	if err != nil {
		t.Fatal(err)
	}
	window, _ := cluster.Cluster{Spec: cluster.Spec{Size: 1, Updates: cluster.DefaultWindow(id)}}.NextWindow(time.Now())
	planned := fmt.Sprintf(`"planned_for":"%s"}`, window.Format("2006-01-02T15:04:05"))
	for _, path := range []string{one, "/v4/databases/instances"} {
		r := b.send("GET", path, b.full, "")
		for _, want := range []string{
			`{"deadline":null,"description":"The servers move from version 15.17 to 15.18.",` + planned,
			`{"deadline":"2026-12-31T18:04:05","description":"The servers' certificates are renewed.",` + planned,
		} {
			if !strings.Contains(r.body, want) {
				t.Errorf("%s: no %s in %s", path, want, r.body)
			}
		}
	}
	for _, test := range []struct {
		name, token, filter string
		status              int
		want                string
	}{
		{"all", b.full, "", 200, `"results":2`},
		{"read only", b.readOnly, "", 200, `"results":2`},
		{"by status and type", b.full, `{"status":"pending","type":"version_update"}`, 200, `"results":1`},
		{"by id and time", b.full, fmt.Sprintf(`{"entity.id":%d,"when":{"+gt":"2026-01-01T00:00:00"}}`, id), 200, `"results":2`},
		{"by label", b.full, `{"entity.label":"other"}`, 200, `"results":0`},
		{"an unknown field", b.full, `{"colour":"red"}`, 400, `"field":"X-Filter"`},
		{"not JSON", b.full, `{`, 400, `"field":"X-Filter"`},
		{"a user without a grant", b.restricted, "", 200, `"results":0`},
		{"another account", b.stranger(), "", 200, `"results":0`},
	} {
		headers := []string{}
		if test.filter != "" {
			headers = []string{"X-Filter", test.filter}
		}
		if r := b.send("GET", list, test.token, "", headers...); r.StatusCode != test.status || !strings.Contains(r.body, test.want) {
			t.Errorf("%s: %d %s", test.name, r.StatusCode, r.body)
		}
	}
	r := b.send("GET", list, b.full, "")
	want := fmt.Sprintf(`{"entity":{"id":%d,"label":"shop","type":"database","url":"%s"},"type":"version_update","status":"pending"`, id, one)
	if !strings.Contains(r.body, want) {
		t.Errorf("no %s in %s", want, r.body)
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'suspended'"); err != nil {
		t.Fatal(err)
	}
	if r := b.send("GET", one, b.full, ""); !strings.Contains(r.body, `"planned_for":null`) {
		t.Errorf("suspended: %s", r.body)
	}
}
