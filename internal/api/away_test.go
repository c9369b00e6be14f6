package api_test

import (
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/api"
	"steward/internal/await"
	"steward/internal/pgtest"
)

// TestTheStoreIsAway: a request whose store doesn't answer is told so, in time, by every kind of route; one that may have been carried out has another status.
func TestTheStoreIsAway(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t, func(o *api.Options) { o.StoreTime = 300 * time.Millisecond })
	client, form := b.confidential(), []string{"Content-Type", "application/x-www-form-urlencoded"}
	own := url.Values{"client_id": {client.ID}, "client_secret": {client.Secret}}
	locked := func(tables, mode string, do func()) {
		t.Helper()
		pgtest.Locked(t, b.store, tables, mode, do)
	}
	away := func(method, path, token, body, want string, headers ...string) {
		t.Helper()
		r := b.send(method, path, token, body, headers...)
		if r.StatusCode != 503 || r.Header.Get("Retry-After") != "5" || !strings.Contains(r.body, want) {
			t.Errorf("%s %s: %d %v %s", method, path, r.StatusCode, r.Header, r.body)
		}
	}
	const inEnvelope = `{"errors":[{"reason":"The server's own store doesn't answer, and nothing was done. Try again in some seconds"}]}`
	// Of a token that is new to the server: others it knows for a moment.
	locked("tokens", "ACCESS EXCLUSIVE", func() {
		away("GET", "/v4/profile", b.readOnly, "", inEnvelope)
		away("GET", "/v4/account/events/stream", b.readOnly, "", inEnvelope)
		away("GET", "/v4/monitor/services/dbaas/prometheus-sd", b.readOnly, "", inEnvelope)
		away("POST", "/oauth/introspect", b.readOnly, "", inEnvelope)
	})
	locked("clusters, operations", "ACCESS EXCLUSIVE", func() {
		away("GET", "/v4/databases/instances", b.full, "", inEnvelope)
		away("GET", "/v4/databases/postgresql/instances/1/metrics", b.full, "", inEnvelope)
		away("GET", "/v4/databases/postgresql/instances/1/prometheus", b.full, "", inEnvelope)
		away("GET", "/v4/account/events", b.full, "", inEnvelope)
		away("GET", "/v4/monitor/services/dbaas/prometheus-sd", b.full, "", inEnvelope)
	})
	locked("clusters", "SHARE", func() {
		away("POST", "/v4/databases/postgresql/instances", b.full, `{"label":"shop","engine":"postgresql/15","region":"local","type":"g6-nanode-1"}`, inEnvelope)
	})
	locked("oauth_clients", "ACCESS EXCLUSIVE", func() {
		away("GET", "/oauth/authorize?response_type=code&client_id="+string(account.ConsoleClient), "", "", "own store")
		away("POST", "/oauth/token", "", own.Encode()+"&grant_type=client_credentials&scope=databases:read_only", "own store", form...)
		away("POST", "/oauth/revoke", "", own.Encode()+"&token="+strings.Repeat("0", 64), "own store", form...)
	})
	locked("authorization_codes, authorizations, refresh_tokens", "ACCESS EXCLUSIVE", func() {
		for _, more := range []url.Values{
			{"grant_type": {"authorization_code"}, "code": {strings.Repeat("0", 64)}, "redirect_uri": {callback}},
			{"grant_type": {"refresh_token"}, "refresh_token": {strings.Repeat("0", 64)}},
			{"grant_type": {"client_credentials"}, "scope": {"databases:read_only"}},
		} {
			maps.Copy(more, own)
			away("POST", "/oauth/token", "", more.Encode(), "own store", form...)
		}
	})
	locked("tokens, refresh_tokens", "ACCESS EXCLUSIVE", func() {
		away("POST", "/oauth/revoke", "", own.Encode()+"&token="+strings.Repeat("0", 64), "own store", form...)
	})
	for _, tables := range []string{"users, passwords", "authorizations"} {
		locked(tables, "ACCESS EXCLUSIVE", func() {
			r := b.login(b.config(client, "databases:read_only").AuthCodeURL("some-state"), "admin", password, "allow")
			if r.StatusCode != 503 || r.Header.Get("Retry-After") != "5" || !strings.Contains(r.body, "own store") {
				t.Errorf("a log-in without %s: %d %v %s", tables, r.StatusCode, r.Header, r.body)
			}
		})
	}
	// in is what is answered in time: on a busy machine a store that is well can be late, too, to know the token.
	in := func(method, path, body string) (r reply) {
		t.Helper()
		await.True(t, "the store is in time for "+path, func() bool {
			r = b.send(method, path, b.full, body)
			return r.StatusCode != 503
		})
		return r
	}
	locked("user_settings", "SHARE", func() {
		r := in("PUT", "/v4/profile/preferences", `{"theme":"dark"}`)
		if r.StatusCode != 504 || r.Header.Get("Retry-After") != "" || !strings.Contains(r.body, "isn't known") {
			t.Errorf("what may have been written: %d %v %s", r.StatusCode, r.Header, r.body)
		}
	})
	for _, path := range []string{"/v4/profile", "/v4/databases/instances", "/v4/account/events"} {
		if r := in("GET", path, ""); r.StatusCode != 200 {
			t.Errorf("%s afterwards: %d %s", path, r.StatusCode, r.body)
		}
	}
}
