package api_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestTenants: an account sees nothing of another, by id, list, filter, label
// clash or event.
func TestTenants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	theirs := b.stranger()
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	const absent = "/v4/databases/postgresql/instances/999999"
	for _, request := range []string{
		"GET ", "PUT ", "DELETE ", "POST /patch", "POST /suspend", "POST /resume", "GET /credentials", "POST /credentials/reset", "GET /ssl",
		"GET /backups", "POST /backups", "GET /backups/1", "DELETE /backups/1", "POST /backups/1/restore",
	} {
		method, path, _ := strings.Cut(request, " ")
		foreign, missing := b.send(method, one+path, theirs, ""), b.send(method, absent+path, theirs, "")
		if foreign.StatusCode != 404 || foreign.body != missing.body {
			t.Errorf("%s of another account's: %d %s; of what isn't there: %d %s", request, foreign.StatusCode, foreign.body, missing.StatusCode, missing.body)
		}
	}
	for _, list := range []string{"/v4/databases/instances", "/v4/databases/postgresql/instances", "/v4/account/events"} {
		if r := b.send("GET", list, theirs, ""); !strings.Contains(r.body, `"results":0`) {
			t.Errorf("%s shows another account's: %s", list, r.body)
		}
	}
	if r := b.send("GET", "/v4/databases/instances", theirs, "", "X-Filter", `{"+or":[{"label":"shop"},{"+and":[]}]}`); !strings.Contains(r.body, `"results":0`) {
		t.Errorf("a filter shows another account's: %s", r.body)
	}
	for _, event := range []string{"GET /v4/account/events/1", "POST /v4/account/events/1/seen", "POST /v4/account/events/1/read", "GET /v4/account/users/admin", "GET /v4/profile/tokens/1", "DELETE /v4/profile/tokens/1"} {
		method, path, _ := strings.Cut(event, " ")
		if r := b.send(method, path, theirs, ""); r.StatusCode != 404 {
			t.Errorf("%s: %d %s", event, r.StatusCode, r.body)
		}
	}
	if r := b.send("POST", "/v4/databases/postgresql/instances", theirs, goodCreate); r.StatusCode != 200 {
		t.Errorf("a label that another account has: %d %s", r.StatusCode, r.body)
	}
}
