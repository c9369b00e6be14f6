package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/store"
)

// TestStatusPages by the API: whole and partial bodies, faults, and what everybody sees.
func TestStatusPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	database, service, ticket := b.fill()
	const all = "/v4/managed/status-pages"
	r := b.send("POST", all, b.full, fmt.Sprintf(`{"slug":"shop","title":"<b>Shop</b>","services":[%d],"databases":[%d],"show_response_times":true}`, service, database))
	var made struct{ ID, Days int64 }
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.StatusCode != 200 || made.Days != 90 {
		t.Fatalf("create: %d %s", r.StatusCode, r.body)
	}
	one := fmt.Sprintf("%s/%d", all, made.ID)
	var changed struct {
		Slug, Title         string
		Services, Databases []int64
		Days                int
	}
	b.decode(b.send("PUT", one, b.full, `{"days":30}`), &changed)
	if changed.Slug != "shop" || changed.Title != "<b>Shop</b>" || len(changed.Services) != 1 || len(changed.Databases) != 1 || changed.Days != 30 {
		t.Errorf("update: %+v", changed)
	}
	for body, want := range map[string][]string{
		``: {"slug: slug is required", "title: title is required"},
		`{"slug":"Up","title":"","days":0,"services":[9999999],"databases":[9999999]}`: {
			"slug: Length must be 3-48 characters", "title: Length must be 1-100 characters", "days: Must be 1-400", "services: services is not valid", "databases: databases is not valid",
		},
		`{"slug":"a--b","title":"x","services":[1,1]}`: {"slug: Must be of small letters a to z and digits, with single hyphens between", "services: Must not name one twice"},
		`{"slug":"shop","title":"x"}`:                  {"slug: Another status page has this slug"},
	} {
		r := b.send("POST", all, b.full, body)
		if r.StatusCode != 400 {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
			continue
		}
		for _, reason := range want {
			if !strings.Contains(strings.Join(r.faults(), "\n"), reason) {
				t.Errorf("%s: %q lacks %s", body, r.faults(), reason)
			}
		}
	}
	b.asEverybody(service, ticket)
	if r := b.send("DELETE", one, b.full, ""); r.StatusCode != 200 {
		t.Errorf("delete: %d %s", r.StatusCode, r.body)
	}
	if _, err := b.api.Control.StatusPages.Public(t.Context(), "shop"); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a page that is gone: %v", err)
	}
}

// asEverybody looks at the page of the slug shop: incidents are those of which somebody wrote for everybody, without
// what steward noted and found.
func (b *bench) asEverybody(service, ticket int64) {
	b.t.Helper()
	ctx := b.t.Context()
	public := func() monitor.PublicPage {
		b.t.Helper()
		page, err := b.api.Control.StatusPages.Public(ctx, "shop")
		if err != nil {
			b.t.Fatal(err)
		}
		return page
	}
	at := time.Now()
	err := b.store.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.Pgx().Exec(ctx, "INSERT INTO issue_services (issue_id, account_id, service_id, label, joined) SELECT id, account_id, $2, 'Shop', $3 FROM issues WHERE ticket_id = $1", ticket, service, at); err != nil {
			return err
		}
		_, err := tx.Pgx().Exec(ctx, "INSERT INTO check_days (service_id, day, checks, failures, total_ms, longest_ms) VALUES ($1, (now() AT TIME ZONE 'UTC')::date - 1, 1000, 10, 50000, 900)", service)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	page := public()
	if len(page.Entries) != 2 || page.Entries[0].Name != "Shop" || len(page.Entries[0].Days) != 30 || len(page.Incidents) != 0 {
		b.t.Fatalf("%+v", page)
	}
	yesterday := page.Entries[0].Days[28]
	if yesterday.Uptime == nil || *yesterday.Uptime != 99 || page.Entries[0].Mean == nil || *page.Entries[0].Mean != 50*time.Millisecond || page.Entries[0].Days[0].Uptime != nil {
		b.t.Errorf("yesterday %+v, mean %v", yesterday, page.Entries[0].Mean)
	}
	replies := fmt.Sprintf("/v4/support/tickets/%d/replies", ticket)
	if r := b.send("POST", replies, b.full, `{"description":"among us"}`); r.StatusCode != 200 {
		b.t.Fatal(r.body)
	}
	if page := public(); len(page.Incidents) != 0 {
		b.t.Errorf("what was written among us is public: %+v", page.Incidents)
	}
	var reply struct{ ID int64 }
	b.decode(b.send("POST", replies, b.full, `{"description":"We look at it.","public":true}`), &reply)
	page = public()
	if len(page.Incidents) != 1 || len(page.Incidents[0].Updates) != 1 || page.Incidents[0].Updates[0].Text != "We look at it." || strings.Join(page.Incidents[0].Names, ",") != "Shop" || page.Incidents[0].Ended != nil {
		b.t.Errorf("%+v", page.Incidents)
	}
	if text := fmt.Sprintf("%+v", page); strings.Contains(text, "It broke") || strings.Contains(text, "example.org") {
		b.t.Errorf("what was found shows: %s", text)
	}
	if r := b.send("PUT", fmt.Sprintf("%s/%d", replies, reply.ID), b.full, `{"public":false}`); r.StatusCode != 200 || !strings.Contains(r.body, `"public":false`) {
		b.t.Errorf("withdraw: %d %s", r.StatusCode, r.body)
	}
	if page := public(); len(page.Incidents) != 0 {
		b.t.Errorf("what was withdrawn is public: %+v", page.Incidents)
	}
	var first struct{ Data []struct{ ID int64 } }
	b.decode(b.send("GET", replies, b.full, ""), &first)
	if r := b.send("PUT", fmt.Sprintf("%s/%d", replies, first.Data[0].ID), b.full, `{"public":true}`); r.StatusCode != 400 || !strings.HasPrefix(r.faults()[0], "public: ") {
		b.t.Errorf("publish what steward noted: %d %s", r.StatusCode, r.body)
	}
}
