package api_test

import (
	"fmt"
	"strings"
	"testing"
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
