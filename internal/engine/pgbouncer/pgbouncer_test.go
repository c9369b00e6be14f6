package pgbouncer

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"steward/internal/cluster"
)

// TestUsers: whatever users are called, each is one of its own, and none is our account.
func TestUsers(t *testing.T) {
	t.Parallel()
	users := map[string]string{
		"dbadmin": "SCRAM-SHA-256$4096:a$b:c", `a "quoted" one`: "v1", "on\ntwo lines": "v2", `"steward" "x`: "v3", `";admin_users=x`: "v4", `"`: "v5", "": "v6", "ünï": "v7",
	}
	given := maps.Clone(users)
	given["steward"], given["nul\x00"] = "not ours", "v8"
	content := Users(given, "console")
	if !strings.HasPrefix(string(content), "\"steward\" \"console\"\n") || strings.Contains(string(content), "not ours") {
		t.Errorf("our own account is not what it should be:\n%s", content)
	}
	if got := ReadUsers(content); !maps.Equal(got, users) {
		t.Errorf("read back as %q, want %q", got, users)
	}
	for cut := range content { // a torn file never gives anybody another's verifier
		for name, verifier := range ReadUsers(content[:cut]) {
			if users[name] != verifier {
				t.Errorf("cut after %d bytes, %q has %q", cut, name, verifier)
			}
		}
	}
}

// TestConfig: a name can't become a setting.
func TestConfig(t *testing.T) {
	t.Parallel()
	c := Config{
		Program: Program{Path: "/usr/sbin/pgbouncer", Major: 1, Minor: 18}, Listen: netip.MustParseAddrPort("10.0.0.5:21001"),
		Server: netip.MustParseAddrPort("10.0.0.6:21000"), Clients: 100,
		Pools: []cluster.Pool{{Label: "app", Database: `it's host=x [pgbouncer]`, Mode: cluster.PoolTransaction, Size: 7}},
	}
	text := string(c.render())
	want := `app = host=10.0.0.6 port=21000 dbname='it''s host=x [pgbouncer]' pool_mode=transaction pool_size=7 max_db_connections=7`
	if strings.Count(text, "\n"+want+"\n") != 1 || strings.Contains(text, "\n*") {
		t.Errorf("no line %s in\n%s", want, text)
	}
	if strings.Contains(text, "max_prepared_statements") || !strings.Contains(text, "client_tls_sslmode = allow\n") || !strings.Contains(text, "server_tls_sslmode = disable\n") {
		t.Errorf("%s", text)
	}
	c.Pools[0].User = "owner one"
	if text := string(c.doors()); !strings.Contains(text, "\nhost \"app\" \"owner one\" 0.0.0.0/0 scram-sha-256\nhost \"app\" all 0.0.0.0/0 reject\nhost all all 0.0.0.0/0 scram-sha-256\n") {
		t.Errorf("%s", text)
	}
	c.Program.Minor, c.TLSOnly, c.TLSToServer = 21, true, true
	if text := string(c.render()); !strings.Contains(text, "max_prepared_statements = ") || !strings.Contains(text, "client_tls_sslmode = require\n") || !strings.Contains(text, "server_tls_sslmode = verify-full\n") {
		t.Errorf("%s", text)
	}
}

// TestNewest: versions are compared as numbers.
func TestNewest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b     Program
		newer    bool
		prepares bool
	}{
		{Program{Major: 1, Minor: 21}, Program{Major: 1, Minor: 18}, true, true},
		{Program{Major: 1, Minor: 9}, Program{Major: 1, Minor: 18}, false, false},
		{Program{Major: 2, Minor: 0}, Program{Major: 1, Minor: 25}, true, true},
		{Program{Major: 1, Minor: 20}, Program{Major: 1, Minor: 20}, false, false},
	} {
		if got := c.a.newer(c.b); got != c.newer {
			t.Errorf("%s newer than %s: %v", c.a.Version(), c.b.Version(), got)
		}
		if got := c.a.Prepares(); got != c.prepares {
			t.Errorf("%s prepares: %v", c.a.Version(), got)
		}
	}
	if p, err := Find(t.Context()); err != nil || p.Version() != fmt.Sprintf("%d.%d", p.Major, p.Minor) || p.Major < 1 {
		t.Errorf("%+v, %v", p, err)
	}
}
