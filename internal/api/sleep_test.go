package api_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestAutoSuspend: it is asked for at creation and changed later, and bad values are named.
func TestAutoSuspend(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = "/v4/databases/mysql/instances"
	ask := func(method, path, suspend string) reply {
		body := `{"auto_suspend":` + suspend + `}`
		if method == "POST" {
			body = `{"label":"asleep","engine":"mysql/10.11","region":"local","type":"g6-nanode-1","auto_suspend":` + suspend + `}`
		}
		return b.send(method, path, b.full, body)
	}
	refused := func(method, path string) {
		t.Helper()
		for _, bad := range []string{`{"idle_minutes":-1}`, `{"idle_minutes":10081}`, `{"idle_minutes":"ten"}`} {
			if r := ask(method, path, bad); r.StatusCode != 400 || !strings.Contains(r.body, `"field":"auto_suspend.idle_minutes"`) {
				t.Errorf("%s %s: %d %s", method, bad, r.StatusCode, r.body)
			}
		}
	}
	refused("POST", all)
	made := ask("POST", all, `{"idle_minutes":10080}`)
	if made.StatusCode != 200 || !strings.Contains(made.body, `"auto_suspend":{"idle_minutes":10080},"sleeping":false,"sleeping_since":null`) {
		t.Fatalf("%d %s", made.StatusCode, made.body)
	}
	var id int64
	if err := b.store.Pool().QueryRow(t.Context(), "UPDATE clusters SET status = 'active', sleeping_since = '2026-01-31T18:04:05Z' RETURNING id").Scan(&id); err != nil {
		t.Fatal(err)
	}
	one := fmt.Sprintf("%s/%d", all, id)
	refused("PUT", one)
	for _, same := range []string{`{"idle_minutes":10080}`, `{}`} {
		if r := ask("PUT", one, same); r.StatusCode != 200 || !strings.Contains(r.body, `"status":"active"`) {
			t.Errorf("as it is: %d %s", r.StatusCode, r.body)
		}
	}
	r := ask("PUT", one, `{"idle_minutes":0}`)
	if r.StatusCode != 200 || !strings.Contains(r.body, `"status":"updating"`) || !strings.Contains(r.body, `"auto_suspend":{"idle_minutes":0},"sleeping":true,"sleeping_since":"2026-01-31T18:04:05"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
