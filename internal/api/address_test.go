package api_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"steward/internal/account"
	"steward/internal/api"
)

// TestAddressBehindProxies: behind the operator's proxies it is the client's address
// that failures count against and that the audit trail names, and nobody chooses it.
func TestAddressBehindProxies(t *testing.T) {
	t.Parallel()
	const most = 3
	var mu sync.Mutex
	named := map[string]bool{}
	b := newBench(t, withinAMinute, func(o *api.Options) {
		o.FailedLoginsPerMinute = most
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")}
		o.Audit = func(line account.Audit) { mu.Lock(); named[line.Address] = true; mu.Unlock() }
	})
	for _, c := range []struct {
		name, peer string
		forwarded  func(i int) []string
		want       string
	}{
		{"a client", "10.0.0.1", func(int) []string { return []string{"203.0.113.1"} }, "203.0.113.1"},
		{"behind two proxies", "2001:db8::1", func(int) []string { return []string{"203.0.113.2, 10.1.1.1:4711"} }, "203.0.113.2"},
		{"in two lines", "10.0.0.1", func(int) []string { return []string{"203.0.113.3", "10.1.1.1"} }, "203.0.113.3"},
		{"that writes the header itself", "10.0.0.1", func(i int) []string { return []string{fmt.Sprintf("198.51.100.%d, 203.0.113.4", i)} }, "203.0.113.4"},
		{"and nonsense", "10.0.0.1", func(i int) []string { return []string{fmt.Sprintf("198.51.100.%d, nonsense, 10.1.1.2", i)} }, "10.1.1.2"},
		{"past no proxy", "203.0.113.5", func(i int) []string { return []string{fmt.Sprintf("198.51.100.%d", i)} }, "203.0.113.5"},
		{"of IPv6", "10.0.0.1", func(int) []string { return []string{"[2001:db8:1::7]:80"} }, "2001:db8:1::7"},
	} {
		for i := range most + 1 {
			var headers []string
			for _, line := range c.forwarded(i) {
				headers = append(headers, "X-Forwarded-For", line)
			}
			want := http.StatusUnauthorized
			if i == most {
				want = http.StatusTooManyRequests
			}
			if r := b.from(c.peer, "GET", "/v4/profile", fmt.Sprintf("%064x", i), headers...); r.StatusCode != want {
				t.Errorf("%s, guess %d: %d, want %d", c.name, i+1, r.StatusCode, want)
			}
		}
		if !named[c.want] {
			t.Errorf("%s: the audit trail doesn't name %s", c.name, c.want)
		}
	}
	for address := range named {
		if netip.MustParsePrefix("198.51.100.0/24").Contains(netip.MustParseAddr(address)) {
			t.Errorf("a client chose to be %s", address)
		}
	}
}
