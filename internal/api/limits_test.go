package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/api"
)

// TestLimitsOfServersTogether: two servers over one store let a token, and an
// address without one, exactly its requests through.
func TestLimitsOfServersTogether(t *testing.T) {
	t.Parallel()
	const most = 40
	now := time.Now().Truncate(time.Minute)
	first, second := benches(t, true, func(o *api.Options) {
		o.RequestsPerMinute, o.Now = most, func() time.Time { return now }
	})
	for name, send := range map[string]func(b *bench) *http.Response{
		"a token":               func(b *bench) *http.Response { return b.send("GET", "/v4/profile", b.full, "").Response },
		"another token":         func(b *bench) *http.Response { return b.send("GET", "/v4/profile", b.readOnly, "").Response },
		"an address without it": func(b *bench) *http.Response { return b.send("GET", "/v4/regions", "", "").Response },
	} {
		passed := 0
		for i := range 4 * most {
			r := send([]*bench{first, second}[i%2])
			switch {
			case r.StatusCode == http.StatusOK:
				passed++
			case r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") != "60" || r.Header.Get("X-RateLimit-Remaining") != "0":
				t.Fatalf("%s: %d %v", name, r.StatusCode, r.Header)
			}
		}
		if passed != most {
			t.Errorf("%s: %d requests of %d were let through", name, passed, most)
		}
	}
	now = now.Add(time.Minute)
	r := first.send("GET", "/v4/profile", first.full, "")
	if r.StatusCode != http.StatusOK || r.Header.Get("X-RateLimit-Limit") != "40" || r.Header.Get("X-RateLimit-Remaining") != "39" {
		t.Errorf("in the next minute: %d %v", r.StatusCode, r.Header)
	}
}

// TestStatsLimit: statistics have a limit of their own.
func TestStatsLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options) { o.RequestsPerMinute, o.StatsPerMinute = 500, 2 })
	for name := range documented(t) {
		method, path, _ := strings.Cut(name, " ")
		if want := map[bool]string{true: "2", false: "500"}[strings.HasSuffix(path, "/stats")]; method == "GET" {
			// A token each, so that none runs out.
			if r := b.send(method, path, b.restrictedTo("*"), ""); r.Header.Get("X-RateLimit-Limit") != want {
				t.Errorf("%s: limit %q, want %s", name, r.Header.Get("X-RateLimit-Limit"), want)
			}
		}
	}
}
