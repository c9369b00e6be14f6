package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/api"
)

// TestTheStoreIsAway: a request whose store doesn't answer is told so, in time, by every kind of route; one that may have been carried out has another status.
func TestTheStoreIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) { o.StoreTime = 300 * time.Millisecond })
	locked := func(tables, mode string, do func()) {
		t.Helper()
		tx, err := b.store.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		if _, err := tx.Exec(t.Context(), fmt.Sprintf("LOCK TABLE %s IN %s MODE", tables, mode)); err != nil {
			t.Fatal(err)
		}
		do()
	}
	away := func(method, path, token, body, want string) {
		t.Helper()
		r := b.send(method, path, token, body)
		if r.StatusCode != 503 || r.Header.Get("Retry-After") != "5" || !strings.Contains(r.body, want) {
			t.Errorf("%s %s: %d %v %s", method, path, r.StatusCode, r.Header, r.body)
		}
	}
	const inEnvelope = `{"errors":[{"reason":"The server's own store doesn't answer, and nothing was done. Try again in some seconds"}]}`
	locked("tokens", "ACCESS EXCLUSIVE", func() {
		away("GET", "/v4/profile", b.full, "", inEnvelope)
		away("GET", "/v4/account/events/stream", b.full, "", inEnvelope)
		away("POST", "/oauth/introspect", b.full, "", inEnvelope)
	})
	locked("clusters, operations", "ACCESS EXCLUSIVE", func() {
		away("GET", "/v4/databases/instances", b.full, "", inEnvelope)
		away("GET", "/v4/databases/postgresql/instances/1/metrics", b.full, "", inEnvelope)
		away("GET", "/v4/databases/postgresql/instances/1/prometheus", b.full, "", inEnvelope)
		away("GET", "/v4/account/events", b.full, "", inEnvelope)
	})
	locked("clusters", "SHARE", func() {
		away("POST", "/v4/databases/postgresql/instances", b.full, `{"label":"shop","engine":"postgresql/15","region":"local","type":"g6-nanode-1"}`, inEnvelope)
	})
	locked("oauth_clients", "ACCESS EXCLUSIVE", func() {
		away("GET", "/oauth/authorize?response_type=code&client_id="+string(account.ConsoleClient), "", "", "own store")
	})
	locked("user_settings", "SHARE", func() {
		r := b.send("PUT", "/v4/profile/preferences", b.full, `{"theme":"dark"}`)
		if r.StatusCode != 504 || r.Header.Get("Retry-After") != "" || !strings.Contains(r.body, "isn't known") {
			t.Errorf("what may have been written: %d %v %s", r.StatusCode, r.Header, r.body)
		}
	})
	for _, path := range []string{"/v4/profile", "/v4/databases/instances", "/v4/account/events"} {
		if r := b.send("GET", path, b.full, ""); r.StatusCode != 200 {
			t.Errorf("%s afterwards: %d %s", path, r.StatusCode, r.body)
		}
	}
}
