package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestContacts by the API: whole and partial bodies, null and absence, faults.
func TestContacts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = "/v4/managed/contacts"
	r := b.send("POST", all, b.full, `{"name":"Ann","email":"ann@example.org","group":"night shift","phone":{"primary":"+49 30 1234567","secondary":null}}`)
	var made struct {
		ID      int64
		Updated string
	}
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.StatusCode != 200 || len(made.Updated) != len("2026-01-31T18:04:05") {
		t.Fatalf("create: %d %s", r.StatusCode, r.body)
	}
	one := fmt.Sprintf("%s/%d", all, made.ID)
	want := func(when, name, group, primary, secondary string) {
		t.Helper()
		r := b.send("GET", one, b.full, "")
		members := fmt.Sprintf(`"name":%q,"email":"ann@example.org","group":%s,"phone":{"primary":%s,"secondary":%s}`, name, group, primary, secondary)
		if r.StatusCode != 200 || !strings.Contains(r.body, members) {
			t.Errorf("%s: %d %s; want %s", when, r.StatusCode, r.body, members)
		}
	}
	want("made", "Ann", `"night shift"`, `"+49 30 1234567"`, "null")
	for _, step := range []struct{ body, name, group, primary, secondary string }{
		{`{}`, "Ann", `"night shift"`, `"+49 30 1234567"`, "null"},
		{`{"name":"Anne"}`, "Anne", `"night shift"`, `"+49 30 1234567"`, "null"},
		{`{"phone":{"secondary":"030 7654321"}}`, "Anne", `"night shift"`, `"+49 30 1234567"`, `"030 7654321"`},
		{`{"phone":{}}`, "Anne", `"night shift"`, `"+49 30 1234567"`, `"030 7654321"`},
		{`{"phone":{"primary":null},"group":null}`, "Anne", "null", "null", `"030 7654321"`},
		{`{"phone":null,"group":"day"}`, "Anne", `"day"`, "null", "null"},
	} {
		if r := b.send("PUT", one, b.full, step.body); r.StatusCode != 200 {
			t.Errorf("%s: %d %s", step.body, r.StatusCode, r.body)
		}
		want("after "+step.body, step.name, step.group, step.primary, step.secondary)
	}
	for _, test := range []struct {
		method, path, body string
		want               []string
	}{
		{"POST", all, "", []string{"name: name is required", "email: email is required"}},
		{"POST", all, `{"name":null,"email":"nobody","group":"","phone":[]}`, []string{
			"name: name is required", "phone: Must be an object", "group: Length must be 2-50 characters", "email: Must be an e-mail address",
		}},
		{"PUT", one, `{"name":"x","email":null,"phone":{"primary":"123","secondary":"abcdefgh"}}`, []string{
			"name: Length must be 2-64 characters", "email: Must not be null",
			"phone.primary: Length must be 7-32 characters", "phone.secondary: May only contain digits, spaces and + - ( ) . x",
		}},
	} {
		r := b.send(test.method, test.path, b.full, test.body)
		seen, wanted := map[string]bool{}, map[string]bool{}
		for _, f := range r.faults() {
			seen[f] = true
		}
		for _, f := range test.want {
			wanted[f] = true
		}
		if diff := cmp.Diff(wanted, seen); diff != "" || r.StatusCode != 400 || len(r.faults()) != len(test.want) {
			t.Errorf("%s %s: %d -want +got\n%s", test.method, test.body, r.StatusCode, diff)
		}
	}
	want("after refused changes", "Anne", `"day"`, "null", "null")
	b.send("POST", all, b.full, `{"name":"Bob","email":"bob@example.org"}`)
	for filter, results := range map[string]int{
		`{"group":"day"}`: 1, `{"group":null}`: 1, `{"name":{"+contains":"B"}}`: 1, `{"email":"nobody@example.org"}`: 0,
		fmt.Sprintf(`{"id":{"+gte":%d},"+order_by":"email","+order":"desc"}`, made.ID): 2,
	} {
		if r := b.send("GET", all, b.full, "", "X-Filter", filter); r.StatusCode != 200 || !strings.Contains(r.body, fmt.Sprintf(`"results":%d}`, results)) {
			t.Errorf("%s: %d %s", filter, r.StatusCode, r.body)
		}
	}
	if r := b.send("GET", all, b.full, "", "X-Filter", `{"phone":null}`); r.StatusCode != 400 {
		t.Errorf("a filter by the phone: %d", r.StatusCode)
	}
	if r := b.send("GET", all+"?page=9", b.full, ""); r.StatusCode != 200 || r.body != `{"data":[],"page":9,"pages":1,"results":2}`+"\n" {
		t.Errorf("past the end: %d %s", r.StatusCode, r.body)
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if r := b.send(method, one, b.restricted, ""); r.StatusCode != 403 {
			t.Errorf("%s by a restricted user: %d", method, r.StatusCode)
		}
	}
	if r := b.send("DELETE", one, b.full, ""); r.StatusCode != 200 || r.body != "{}\n" {
		t.Errorf("delete: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", one, b.full, ""); r.StatusCode != 404 {
		t.Errorf("after the delete: %d", r.StatusCode)
	}
	r = b.send("GET", "/v4/account/events", b.full, "", "X-Filter", `{"entity.type":"managed_contact","action":"managed_contact_delete"}`)
	if !strings.Contains(r.body, fmt.Sprintf(`"entity":{"id":%d,"label":"Anne","type":"managed_contact","url":"%s"}`, made.ID, one)) {
		t.Errorf("the event: %s", r.body)
	}
}
