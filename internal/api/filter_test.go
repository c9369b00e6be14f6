package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/monitor"
	"steward/internal/store"
)

// lists are the paths of all documented operations that answer an array of data.
func lists(t *testing.T) []string {
	t.Helper()
	type schema struct {
		Ref        string `yaml:"$ref"`
		Type       any
		Properties map[string]struct{ Type any }
	}
	var d struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct{ Schema schema }
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	readDocument(t, &d)
	var paths []string
	for path, methods := range d.Paths {
		answer := methods["get"].Responses["200"].Content["application/json"].Schema
		answer = d.Components.Schemas[strings.TrimPrefix(answer.Ref, "#/components/schemas/")]
		if answer.Properties["data"].Type == "array" {
			paths = append(paths, path)
		}
	}
	if len(paths) < 20 {
		t.Fatalf("only %d lists found: the walk is broken", len(paths))
	}
	return paths
}

// fill makes one item at least of everything that is listed.
func (b *bench) fill() (database, service, ticket int64) {
	b.t.Helper()
	database = b.create()
	ctx := b.t.Context()
	err := b.store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.EnsureHost(ctx, b.account, "host"); err != nil {
			return err
		}
		watched, err := tx.CreateService(ctx, monitor.Service{Account: b.account, Label: "Shop", Type: monitor.URL, Address: "https://example.org", Timeout: 5, Status: monitor.Pending, Since: time.Now()})
		if err != nil {
			return err
		}
		service = int64(watched.ID)
		i, err := tx.OpenIssue(ctx, monitor.Issue{Created: time.Now(), Account: b.account, Host: "host", Ticket: monitor.Ticket{Summary: "It broke"}})
		ticket = int64(i.Ticket.ID)
		if err != nil {
			return err
		}
		admin, err := tx.User(ctx, b.account, "admin")
		if err != nil {
			return err
		}
		login := account.Audit{At: time.Now(), Account: b.account, User: admin.ID, Username: "admin", Address: "192.0.2.7", Action: "POST /oauth/authorize", Status: 303}
		if err := tx.AddAudit(ctx, login); err != nil {
			return err
		}
		_, err = tx.AddReply(ctx, monitor.Reply{Ticket: i.Ticket.ID, Kind: monitor.Opened, By: "steward", FromStaff: true, Text: "It broke"})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	for path, body := range map[string]string{
		"/v4/managed/contacts":      `{"name":"Contact","email":"c@example.org"}`,
		"/v4/managed/credentials":   `{"label":"Credential","password":"x"}`,
		"/v4/account/oauth-clients": `{"label":"Client","redirect_uri":"https://example.org/"}`,
		"/v4/profile/tokens":        `{"label":"Token","scopes":"*"}`,
		"/v4/managed/status-pages":  `{"slug":"our-page","title":"Ours"}`,
	} {
		if r := b.send("POST", path, b.full, body); r.StatusCode != 200 {
			b.t.Fatalf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	return database, service, ticket
}

// TestFiltersAreObeyed walks the document: no list ignores X-Filter. One that
// isn't understood is refused, and the first item's own id or label finds it.
func TestFiltersAreObeyed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	database, service, ticket := b.fill()
	b.failedNotice(t)
	named := strings.NewReplacer("{instanceId}", fmt.Sprint(database), "{serviceId}", fmt.Sprint(service), "{ticketId}", fmt.Sprint(ticket), "{serviceType}", "dbaas", "{alertId}", "1", "{channelId}", "1")
	empty := 0
	for _, path := range lists(t) {
		place := named.Replace(path)
		for _, bad := range []string{`{`, `[]`, `{"no_such_member":1}`, `{"id":{"+like":1}}`} {
			if r := b.send("GET", place, b.full, "", "X-Filter", bad); r.StatusCode != 400 || !strings.HasPrefix(r.faults()[0], "X-Filter: ") {
				t.Errorf("%s with X-Filter %s: %d %.200s", place, bad, r.StatusCode, r.body)
			}
		}
		var all, same, none struct {
			Data    []map[string]any
			Results int
		}
		if strings.Contains(place, "/instances/") {
			continue // no backups while the database is provisioning, and none of the other engine's
		}
		b.decode(b.send("GET", place, b.full, ""), &all)
		if len(all.Data) == 0 {
			empty++
			continue
		}
		member := "id"
		for _, m := range []string{"region", "started", "username", "name", "id", "label"} {
			if all.Data[0][m] != nil {
				member = m
			}
		}
		value, err := json.Marshal(all.Data[0][member])
		if err != nil {
			t.Fatal(err)
		}
		b.decode(b.send("GET", place, b.full, "", "X-Filter", fmt.Sprintf(`{%q:%s}`, member, value)), &same)
		if len(same.Data) == 0 || same.Results != len(same.Data) {
			t.Errorf("%s: nothing has its own %s %s", place, member, value)
		}
		for _, item := range same.Data {
			if item[member] != all.Data[0][member] {
				t.Errorf("%s: %v isn't %s", place, item[member], value)
			}
		}
		b.decode(b.send("GET", place, b.full, "", "X-Filter", fmt.Sprintf(`{"+and":[{%q:%s},{%q:{"+neq":%s}}]}`, member, value, member, value)), &none)
		if len(none.Data) != 0 || none.Results != 0 {
			t.Errorf("%s: %v both is %s and isn't", place, none.Data, value)
		}
	}
	if empty > 7 { // among them the account's children, dashboards and last backups of deleted databases, of which there are none
		t.Errorf("%d lists had nothing to be filtered", empty)
	}
}

func (b *bench) decode(r reply, out any) {
	b.t.Helper()
	if r.StatusCode != 200 {
		b.t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), out); err != nil {
		b.t.Fatal(err)
	}
}
