package api_test

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/notify/hook"
	"steward/internal/probe"
)

const definitions = "/v4/monitor/services/dbaas/alert-definitions"

// conditions are a rule_criteria and trigger_conditions that are well.
const conditions = `"rule_criteria":{"rules":[{"metric":"cpu_usage","aggregate_function":"avg","operator":"gt","threshold":80,
	"dimension_filters":[{"dimension_label":"node_type","operator":"eq","value":"primary"}]}]},
	"trigger_conditions":{"criteria_condition":"ALL","evaluation_period_seconds":300,"polling_interval_seconds":60,"trigger_occurrences":3}`

type definition struct {
	ID                                      int64
	Label, Description, Type, Status, Scope string
	Severity                                int
	Created, Updated                        *string
	UpdatedBy                               string                           `json:"updated_by"`
	Criteria                                struct{ Rules []map[string]any } `json:"rule_criteria"`
	Trigger                                 map[string]any                   `json:"trigger_conditions"`
	Channels                                []struct{ ID int64 }             `json:"alert_channels"`
	EntityIDs                               []string                         `json:"entity_ids"`
	Regions                                 []string
	Entities                                struct{ Count int }
}

// TestAlertDefinitions: system ones may be switched off and given other thresholds; own ones can be anything that databases can
// be judged by.
func TestAlertDefinitions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	get := func(path string) (d definition) {
		t.Helper()
		r := b.send("GET", path, b.readOnly, "")
		if r.StatusCode != 200 {
			t.Fatalf("%s: %d %s", path, r.StatusCode, r.body)
		}
		b.decode(r, &d)
		return d
	}
	put := func(path, body string) (d definition) {
		t.Helper()
		r := b.send("PUT", path, b.full, body)
		if r.StatusCode != 200 {
			t.Fatalf("%s %s: %d %s", path, body, r.StatusCode, r.body)
		}
		b.decode(r, &d)
		return d
	}
	first := definitions + "/1"
	if d := get(first); d.Type != "system" || d.Status != "enabled" || d.Updated != nil || d.Entities.Count != 1 || d.Criteria.Rules[0]["threshold"] != 80.0 || d.Channels[0].ID != 1 {
		t.Errorf("%+v", d)
	}
	if d := get(definitions + "/8"); d.Entities.Count != 1 { // archive_lag
		t.Errorf("%+v", d)
	}
	d := put(first, `{"status":"disabled","severity":3,"channel_ids":[],"rule_criteria":{"rules":[{"metric":"disk_usage","aggregate_function":"min","operator":"gt","threshold":60}]}}`)
	if d.Status != "disabled" || d.Severity != 3 || len(d.Channels) != 0 || d.Criteria.Rules[0]["clear_threshold"] != 56.25 || d.Updated == nil || d.Label != "Disk over 80 %" {
		t.Errorf("%+v", d)
	}
	if again := get(first); again.Status != "disabled" || again.Criteria.Rules[0]["threshold"] != 60.0 {
		t.Errorf("%+v", again)
	}
	if d := put(first, `{"status":"enabled"}`); d.Criteria.Rules[0]["threshold"] != 60.0 || d.Status != "enabled" {
		t.Errorf("%+v", d)
	}

	r := b.send("POST", definitions, b.full, fmt.Sprintf(`{"label":"busy","severity":2,"description":"Ask Ann.","channel_ids":[1,1],"entity_ids":["%d"],%s}`, id, conditions))
	var own definition
	b.decode(r, &own)
	if r.StatusCode != 200 || own.ID < 10000 || own.Type != "user" || own.Scope != "entity" || !slices.Equal(own.EntityIDs, []string{fmt.Sprint(id)}) || own.Criteria.Rules[0]["clear_threshold"] != 76.0 ||
		own.Trigger["trigger_occurrences"] != 3.0 || len(own.Channels) != 1 || own.Created == nil {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	one := fmt.Sprintf("%s/%d", definitions, own.ID)
	if r := b.send("GET", one+"/entities", b.full, ""); !strings.Contains(r.body, fmt.Sprintf(`"id":"%d","label":"shop"`, id)) {
		t.Errorf("%s", r.body)
	}
	if d := put(one, `{"label":"busier","scope":"account","entity_ids":[]}`); d.Label != "busier" || d.Scope != "account" || len(d.EntityIDs) != 0 || d.Description != "Ask Ann." || d.Entities.Count != 1 {
		t.Errorf("%+v", d)
	}
	if d := put(one, `{"scope":"region","regions":["local"],"channel_ids":null}`); !slices.Equal(d.Regions, []string{"local"}) || len(d.Channels) != 1 {
		t.Errorf("%+v", d)
	}
	for _, test := range []struct {
		method, path, body string
		want               []string
	}{
		{"POST", definitions, ``, []string{"channel_ids: channel_ids is required", "label: label is required", "rule_criteria: rule_criteria is required", "severity: severity is required", "trigger_conditions: trigger_conditions is required"}},
		{"POST", definitions, `{"label":"x","severity":4,"channel_ids":[7],"entity_ids":["x","999"],"scope":"entity","regions":["local"],
			"rule_criteria":{"rules":[{"metric":"nonsense","aggregate_function":"avg","operator":"gt","threshold":1},{"metric":"cpu_usage","aggregate_function":"p99","operator":"gt","threshold":1}]},
			"trigger_conditions":{"criteria_condition":"ALL","evaluation_period_seconds":299,"polling_interval_seconds":60,"trigger_occurrences":0}}`, []string{
			`channel_ids: 7 is not valid`, "entity_ids: x is no id of a database", "regions: Must be empty unless scope is region",
			"rule_criteria.rules.aggregate_function: Must be one of avg, max, min, sum", "severity: Must be 0-3",
			"trigger_conditions.evaluation_period_seconds: Must be one of 30, 60, 300, 600, 900, 1800, 3600", "trigger_conditions.trigger_occurrences: Must be 1-30",
		}},
		{"PUT", one, `{"scope":"entity","entity_ids":["999"],"rule_criteria":{"rules":[{"metric":"nonsense","aggregate_function":"avg","operator":"gt","threshold":1}]}}`, []string{
			"entity_ids: 999 is not valid", "rule_criteria.rules.metric: nonsense is no metric of databases: see metric-definitions",
		}},
		{"PUT", first, `{"label":"mine","scope":"region","regions":["local"],"rule_criteria":{"rules":[{"metric":"cpu_usage","aggregate_function":"avg","operator":"gt","threshold":80}]}}`, []string{
			"label: Can't be changed of a system alert: make one of your own, and switch this one off",
			"regions: Can't be changed of a system alert: make one of your own, and switch this one off",
			"rule_criteria.rules: Only the thresholds of a system alert can be changed: make one of your own, and switch this one off",
			"scope: Can't be changed of a system alert: make one of your own, and switch this one off",
		}},
		{"PUT", one, `{"regions":[],"rule_criteria":{"rules":[]}}`, []string{
			"regions: Must have an item at least when scope is region", "rule_criteria.rules: Must have 1-5 items",
		}},
		{"DELETE", first, ``, []string{": A system alert can't be deleted; it can be switched off with status disabled"}},
	} {
		r := b.send(test.method, test.path, b.full, test.body)
		if r.StatusCode != 400 {
			t.Errorf("%s %s: %d %s", test.method, test.body, r.StatusCode, r.body)
		}
		for _, want := range test.want {
			if !slices.Contains(r.faults(), want) {
				t.Errorf("%s %s: %q lacks %q", test.method, test.body, r.faults(), want)
			}
		}
	}
	for _, test := range []struct {
		method, path, token, body string
		want                      int
	}{
		{"GET", definitions, b.restricted, "", 403},
		{"POST", definitions, b.readOnly, "{}", 401},
		{"GET", definitions + "/99", b.full, "", 404},
		{"PUT", definitions + "/99", b.full, `{"status":"disabled"}`, 404},
		{"DELETE", definitions + "/10999", b.full, "", 404},
		{"GET", "/v4/monitor/services/linode/alert-definitions", b.full, "", 404},
	} {
		if r := b.send(test.method, test.path, test.token, test.body); r.StatusCode != test.want {
			t.Errorf("%s %s: %d %s", test.method, test.path, r.StatusCode, r.body)
		}
	}
	if r := b.send("DELETE", one, b.full, ""); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", "/v4/monitor/alert-definitions", b.full, "", "X-Filter", `{"type":"user"}`); !strings.Contains(r.body, `"results":0`) {
		t.Errorf("%s", r.body)
	}
	if r := b.send("GET", "/v4/account/events", b.full, "", "X-Filter", `{"action":"alert_definition_delete"}`); !strings.Contains(r.body, fmt.Sprintf(`"url":"%s"`, one)) {
		t.Errorf("%s", r.body)
	}
}

const alertChannels = "/v4/monitor/alert-channels"

// TestAlertChannels: they are shown without what is secret, lead where checks may go and nowhere else, and a webhook's requests
// are signed with what was shown once.
func TestAlertChannels(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	type request struct {
		path   string
		header http.Header
		body   []byte
	}
	got := make(chan request, 10)
	answer := http.StatusOK
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a short one fails the comparison
		got <- request{r.URL.String(), r.Header, body}
		w.Header().Set("Location", "https://192.0.2.1/")
		w.WriteHeader(answer)
	}))
	defer receiver.Close()
	roots := x509.NewCertPool()
	roots.AddCert(receiver.Certificate())
	networks := &monitor.Networks{Regions: map[string][]netip.Prefix{"local": {netip.MustParsePrefix("127.0.0.0/8")}}}
	channels := b.api.Control.AlertChannels
	channels.Networks = networks
	channels.Senders = map[string]notify.Sender{monitor.AccountChannel: &hook.Sender{
		Poster: probe.New(probe.Options{Networks: networks, Roots: roots, UserAgent: "test"}), Targets: b.store,
	}}
	make := func(body string) (id int64, secret string) {
		t.Helper()
		r := b.send("POST", alertChannels, b.full, body)
		var v struct {
			ID     int64
			Secret *string
		}
		b.decode(r, &v)
		if r.StatusCode != 200 {
			t.Fatalf("%s: %d %s", body, r.StatusCode, r.body)
		}
		if v.Secret != nil {
			secret = *v.Secret
		}
		return v.ID, secret
	}
	hookID, secret := make(fmt.Sprintf(`{"label":"ops","channel_type":"webhook","details":{"webhook":{"url":"%s/in?token=hidden","region":"local"}}}`, receiver.URL))
	chatID, none := make(fmt.Sprintf(`{"label":"chat","channel_type":"slack","details":{"slack":{"url":"%s/services/hidden","region":"local"}}}`, receiver.URL))
	if len(secret) < 40 || none != "" {
		t.Errorf("secrets %q and %q", secret, none)
	}
	list := b.send("GET", alertChannels, b.readOnly, "")
	if list.StatusCode != 200 || strings.Contains(list.body, "hidden") || strings.Contains(list.body, secret) || !strings.Contains(list.body, receiver.URL+"/in") || !strings.Contains(list.body, `"Contacts"`) {
		t.Errorf("%d %s", list.StatusCode, list.body)
	}
	try := func(id int64) (told struct {
		Delivered bool
		Problem   *string
	},
	) {
		t.Helper()
		r := b.send("POST", fmt.Sprintf("%s/%d/test", alertChannels, id), b.full, "")
		if r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
		b.decode(r, &told)
		return told
	}
	if told := try(hookID); !told.Delivered {
		t.Fatalf("%v", *told.Problem)
	}
	in := <-got
	var message hook.Message
	if err := json.Unmarshal(in.body, &message); err != nil || message.Kind != monitor.NoticeTest || in.path != "/in?token=hidden" {
		t.Errorf("%s: %s, %v", in.path, in.body, err)
	}
	if want := hook.Sign(secret, in.header.Get(hook.TimestampHeader), in.body); in.header.Get(hook.SignatureHeader) != want || len(want) != 67 {
		t.Errorf("signed %q, want %q", in.header.Get(hook.SignatureHeader), want)
	}
	if r := b.send("POST", fmt.Sprintf("%s/%d/test", alertChannels, hookID), b.full, ""); r.StatusCode != 400 {
		t.Errorf("twice in a minute: %d %s", r.StatusCode, r.body)
	}
	answer = http.StatusFound // which isn't followed
	if told := try(chatID); told.Delivered || *told.Problem != "The answer has status 302." {
		t.Errorf("%+v", told)
	}
	if in := <-got; !strings.HasPrefix(string(in.body), `{"text":"Test: `) || in.header.Get(hook.SignatureHeader) != "" {
		t.Errorf("%s %v", in.body, in.header)
	}
	r := b.send("PUT", fmt.Sprintf("%s/%d", alertChannels, hookID), b.full, `{"label":"ops again","rotate_secret":true}`)
	if r.StatusCode != 200 || !strings.Contains(r.body, `"secret":"`) || strings.Contains(r.body, secret) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for _, test := range []struct{ method, path, body, want string }{
		{"POST", alertChannels, `{"label":"x","channel_type":"webhook","details":{}}`, "details.webhook.url: details.webhook.url is required"},
		{"POST", alertChannels, `{"label":"x","channel_type":"webhook","details":{"webhook":{"url":"ftp://x"}}}`, "details.webhook.url: "},
		{"POST", alertChannels, `{"label":"x","channel_type":"webhook","details":{"webhook":{"url":"http://127.0.0.1/"}}}`, "details.webhook.region: "},
		{"POST", alertChannels, `{"label":"x","channel_type":"webhook","details":{"webhook":{"url":"http://169.254.169.254/"}}}`, "details.webhook.url: "},
		{"POST", alertChannels, `{"label":"x","channel_type":"slack","details":{"webhook":{"url":"https://x.example.org/"}}}`, "details.webhook: Isn't for a channel of type slack"},
		{"POST", alertChannels, `{"label":"x","channel_type":"email","details":{"email":{"usernames":["owner"]}}}`, "details.email.usernames: Users aren't told by name: give addresses"},
		{"POST", alertChannels, `{"label":"x","channel_type":"email","details":{"email":{"addresses":["nobody"]}}}`, "details.email.addresses: Must be e-mail addresses"},
		{"POST", alertChannels, `{"label":"chat","channel_type":"email","details":{"email":{"addresses":["ann@example.org"]}}}`, "label: Another channel has this label"},
		{"PUT", fmt.Sprintf("%s/%d", alertChannels, chatID), `{"channel_type":"webhook"}`, "channel_type: Can't be changed: make another channel"},
		{"PUT", fmt.Sprintf("%s/%d", alertChannels, chatID), `{"rotate_secret":true}`, "rotate_secret: Only webhooks have a secret"},
		{"PUT", alertChannels + "/1", `{"label":"mine"}`, ": This channel is the account's contacts: change these"},
		{"DELETE", alertChannels + "/1", ``, ": This channel is the account's contacts: change these"},
	} {
		r := b.send(test.method, test.path, b.full, test.body)
		if r.StatusCode != 400 || !slices.ContainsFunc(r.faults(), func(f string) bool { return strings.HasPrefix(f, test.want) }) {
			t.Errorf("%s: %d %s; want %s", test.body, r.StatusCode, r.body, test.want)
		}
	}
	made := b.send("POST", definitions, b.full, fmt.Sprintf(`{"label":"busy","severity":2,"channel_ids":[%d,%d],"scope":"account",%s}`, hookID, chatID, conditions))
	if r := b.send("GET", fmt.Sprintf("%s/%d/alerts", alertChannels, chatID), b.full, ""); made.StatusCode != 200 || !strings.Contains(r.body, `"results":1`) {
		t.Errorf("%s %s", made.body, r.body)
	}
	if r := b.send("DELETE", fmt.Sprintf("%s/%d", alertChannels, chatID), b.full, ""); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	var d definition
	b.decode(made, &d)
	after := b.send("GET", fmt.Sprintf("%s/%d", definitions, d.ID), b.full, "")
	if b.decode(after, &d); len(d.Channels) != 1 || d.Channels[0].ID != hookID {
		t.Errorf("%s", after.body)
	}
	if r := b.send("GET", alertChannels, b.restricted, ""); r.StatusCode != 403 {
		t.Errorf("%d", r.StatusCode)
	}
}
