package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestCredentials by the API: nothing that was sent in is ever answered.
func TestCredentials(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = "/v4/managed/credentials"
	var answers strings.Builder
	send := func(method, path, body string, status int, headers ...string) reply {
		t.Helper()
		r := b.send(method, path, b.full, body, headers...)
		if r.StatusCode != status {
			t.Errorf("%s %s %s: %d %s; want %d", method, path, body, r.StatusCode, r.body, status)
		}
		answers.WriteString(r.body)
		return r
	}
	r := send("POST", all, `{"label":"router","username":"recognisable","password":"unmistakable"}`, 200)
	var made struct{ ID int64 }
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.body != fmt.Sprintf(`{"id":%d,"label":"router","last_decrypted":null}`+"\n", made.ID) {
		t.Fatalf("create: %s", r.body)
	}
	one := fmt.Sprintf("%s/%d", all, made.ID)
	send("POST", all, `{"label":"without a name","password":"unmistakable"}`, 200)
	send("POST", all, `{"label":"null name","username":null,"password":"unmistakable"}`, 200)
	send("GET", one, "", 200)
	if r := send("GET", all, "", 200, "X-Filter", `{"label":{"+contains":"name"},"id":{"+gt":0}}`); !strings.Contains(r.body, `"results":2`) {
		t.Errorf("filtered: %s", r.body)
	}
	if r := send("PUT", one, `{"label":"gateway","password":"unmistakable too"}`, 200); !strings.Contains(r.body, `"label":"gateway"`) {
		t.Errorf("relabelled: %s", r.body)
	}
	send("PUT", one, `{}`, 200)
	if r := send("POST", one+"/update", `{"password":"unmistakable anew"}`, 200); r.body != "{}\n" {
		t.Errorf("update: %s", r.body)
	}
	send("POST", one+"/update", `{"username":null,"password":"unmistakable anew"}`, 200)
	for _, test := range []struct {
		path, body string
		want       []string
	}{
		{all, "", []string{"label: label is required", "password: password is required"}},
		{all, `{"label":"gateway","username":7,"password":null}`, []string{
			"username: Must be a string", "password: password is required", "label: Label must be unique among your credentials",
		}},
		{all, `{"label":"g","password":"` + strings.Repeat("x", 5001) + `"}`, []string{
			"label: Length must be 2-75 characters", "password: Length must be 1-5000 characters",
		}},
		{one + "/update", `{"username":"only"}`, []string{"password: password is required"}},
	} {
		r := send("POST", test.path, test.body, 400)
		got := "\n" + strings.Join(r.faults(), "\n") + "\n"
		for _, want := range test.want {
			if !strings.Contains(got, "\n"+want+"\n") || len(r.faults()) != len(test.want) {
				t.Errorf("%.80s: no %q in%s", test.body, want, got)
			}
		}
	}
	send("GET", all, "", 400, "X-Filter", `{"password":{"+contains":"u"}}`)
	send("GET", all, "", 400, "X-Filter", `{"+order_by":"sealed_password"}`)
	if r := b.send("GET", one, b.restricted, ""); r.StatusCode != 403 {
		t.Errorf("a restricted user: %d", r.StatusCode)
	}
	if r := b.send("GET", one, b.readOnly, ""); r.StatusCode != 401 {
		t.Errorf("view with a token that only reads: %d", r.StatusCode)
	}
	if r := send("POST", one+"/revoke", "", 200); r.body != "{}\n" {
		t.Errorf("revoke: %s", r.body)
	}
	send("GET", one, "", 404)
	send("DELETE", fmt.Sprintf("%s/%d", all, made.ID+1), "", 200)
	send("GET", "/v4/account/events", "", 200)
	for _, secret := range []string{"recognisable", "unmistakable", "username\":\"r"} {
		if strings.Contains(answers.String(), secret) {
			t.Errorf("an answer has %q", secret)
		}
	}
}
