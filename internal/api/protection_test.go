package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
)

// TestDeletionProtection: a database is deleted only once its protection is taken back, which is no work.
func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = "/v4/databases/mysql/instances"
	made := b.send("POST", all, b.full, `{"label":"kept","engine":"mysql/10.11","region":"local","type":"g6-nanode-1","deletion_protection":true}`)
	if made.StatusCode != 200 || !strings.Contains(made.body, `"deletion_protection":true`) {
		t.Fatalf("%d %s", made.StatusCode, made.body)
	}
	var id int64
	if err := b.store.Pool().QueryRow(t.Context(), "UPDATE clusters SET status = 'active' RETURNING id").Scan(&id); err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf("%s/%d", all, id)
	expect := func(method, body string, status int, want string) {
		t.Helper()
		if r := b.send(method, one, b.full, body); r.StatusCode != status || !strings.Contains(r.body, want) {
			t.Errorf("%s %s: %d %s", method, body, r.StatusCode, r.body)
		}
	}
	expect("DELETE", "", 400, `"field":"deletion_protection"`)
	expect("PUT", `{"label":"still-kept"}`, 200, `"deletion_protection":true`)
	expect("PUT", `{"deletion_protection":"no"}`, 400, `"field":"deletion_protection"`)
	expect("DELETE", "", 400, `"field":"deletion_protection"`)
	expect("PUT", `{"deletion_protection":false}`, 200, `"status":"active"`)
	expect("PUT", `{"deletion_protection":true}`, 200, `"deletion_protection":true`)
	expect("PUT", `{"deletion_protection":false}`, 200, `"deletion_protection":false`)
	expect("DELETE", "", 200, "{}")
	expect("GET", "", 404, "")
}

// TestFinalBackup: a delete that is to take a last backup names at once all that keeps it from that, and begins with a backup otherwise.
func TestFinalBackup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = "/v4/databases/mysql/instances"
	if made := b.send("POST", all, b.full, `{"label":"last","engine":"mysql/10.11","region":"local","type":"g6-nanode-1","deletion_protection":true}`); made.StatusCode != 200 {
		t.Fatalf("%d %s", made.StatusCode, made.body)
	}
	var id int64
	if err := b.store.Pool().QueryRow(t.Context(), "UPDATE clusters SET status = 'active' RETURNING id").Scan(&id); err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf("%s/%d", all, id)
	expect := func(method, path, body string, status int, want ...string) {
		t.Helper()
		r := b.send(method, path, b.full, body)
		for _, text := range want {
			if r.StatusCode != status || !strings.Contains(r.body, text) {
				t.Errorf("%s %s: %d %s, want %d %s", method, path, r.StatusCode, r.body, status, text)
			}
		}
	}
	expect("DELETE", one+"?final_backup=perhaps", "", 400, `"field":"final_backup"`)
	expect("DELETE", one+"?final_backup=true", "", 400, `"field":"deletion_protection"`, `{"field":"final_backup","reason":"Must be false: the operator keeps no backups of deleted databases"}`)
	b.api.Control.Clusters.KeepFinal = time.Hour
	expect("DELETE", one+"?final_backup=true", "", 400, `{"errors":[{"field":"deletion_protection"`)
	expect("PUT", one, `{"deletion_protection":false}`, 200, `"deletion_protection":false`)
	expect("DELETE", one+"?final_backup=true", "", 200, "{}")
	expect("GET", one, "", 404, "")
	var kept bool
	err := b.store.Pool().QueryRow(t.Context(), "SELECT count(*) = 1 FROM backups WHERE cluster_id = $1 AND state = 'running'", id).Scan(&kept)
	if err != nil || !kept {
		t.Errorf("a backup is begun: %v, %v", kept, err)
	}
}

// TestAllowListNotes: notes go with the items that they are on, and with a fork's own list.
func TestAllowListNotes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = "/v4/databases/mysql/instances"
	create := `{"label":"noted","engine":"mysql/10.11","region":"local","type":"g6-nanode-1","allow_list":["192.0.2.1","10.0.0.0/8"],"allow_list_notes":`
	if r := b.send("POST", all, b.full, create+`{"192.0.2.9":"gone"}}`); r.StatusCode != 400 || !strings.Contains(r.body, `"field":"allow_list_notes"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	made := b.send("POST", all, b.full, create+`{"192.0.2.1":"Office"}}`)
	if made.StatusCode != 200 || !strings.Contains(made.body, `"allow_list_notes":{"192.0.2.1":"Office"}`) {
		t.Fatalf("%d %s", made.StatusCode, made.body)
	}
	var id int64
	if err := b.store.Pool().QueryRow(t.Context(), "UPDATE clusters SET status = 'active' RETURNING id").Scan(&id); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"label":"still"}`, 200, `"allow_list_notes":{"192.0.2.1":"Office"}`},
		{`{"allow_list_notes":{"192.0.2.1":"Office","10.0.0.0/8":"VPN"}}`, 200, `"allow_list_notes":{"10.0.0.0/8":"VPN","192.0.2.1":"Office"}`},
		{`{"allow_list_notes":{"192.0.2.1":null,"10.0.0.0/8":7}}`, 400, `[{"field":"allow_list_notes.10.0.0.0/8","reason":"Must be a string"},{"field":"allow_list_notes.192.0.2.1","reason":"Must not be null"}]`},
		{`{"allow_list_notes":{"192.0.2.7":"nobody"}}`, 400, `Notes on what isn't in allow_list: 192.0.2.7`},
		{`{"allow_list":["nonsense"],"allow_list_notes":{"nonsense":"x"}}`, 400, `"field":"allow_list","reason"`},
		{`{"allow_list_notes":{}}`, 200, `"status":"active"`},
		{`{"allow_list_notes":{"10.0.0.0/8":"VPN"}}`, 200, `"allow_list_notes":{"10.0.0.0/8":"VPN"}`},
		{`{"allow_list":["192.0.2.1"]}`, 200, `"allow_list_notes":{}`},
	} {
		if r := b.send("PUT", fmt.Sprintf("%s/%d", all, id), b.full, c.body); r.StatusCode != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s", c.body, r.StatusCode, r.body)
		}
	}
}

// TestAutoscale: a database says when it moves to the next type; members that are left out stay.
func TestAutoscale(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.is(id, cluster.Active)
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{}`, 200, `"autoscale":{"enabled":false,"threshold_percent":80,"max_type":null}`},
		{`{"autoscale":{"enabled":true}}`, 400, `"field":"autoscale.max_type"`},
		{`{"autoscale":{"enabled":true,"threshold_percent":95,"max_type":"huge"}}`, 400, `"field":"autoscale.threshold_percent"`},
		{`{"autoscale":{"enabled":true,"max_type":"huge"}}`, 400, `"field":"autoscale.max_type","reason":"autoscale.max_type is not valid"`},
		{`{"autoscale":{"enabled":true,"threshold_percent":70,"max_type":"g6-standard-1"}}`, 200, `"autoscale":{"enabled":true,"threshold_percent":70,"max_type":"g6-standard-1"}`},
		{`{"autoscale":{"enabled":false}}`, 200, `"autoscale":{"enabled":false,"threshold_percent":70,"max_type":"g6-standard-1"}`},
	} {
		if r := b.send("PUT", one, b.full, c.body); r.StatusCode != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s", c.body, r.StatusCode, r.body)
		}
	}
}
