package api_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestDatabaseSaysWhatToConnectTo: an answer has all that it takes to connect,
// and the members that newer clients look for, for each engine; the list over all
// engines keeps to its own.
func TestDatabaseSaysWhatToConnectTo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for engine, config := range map[string]string{"mysql": `{"mysql":{}}`, "postgresql": `{"pg":{},"pglookout":{}}`} {
		all := fmt.Sprintf("/v4/databases/%s/instances", engine)
		series := map[string]string{"mysql": "10.11", "postgresql": "15"}[engine]
		made := b.send("POST", all, b.full, fmt.Sprintf(`{"label":"of-%s","engine":"%s/%s","region":"local","type":"g6-nanode-1"}`, engine, engine, series))
		var port int
		const settled = `UPDATE clusters SET status = 'active', host_primary = '127.0.0.2', host_secondary = '127.0.0.3' WHERE label = $1 RETURNING port`
		if err := b.store.Pool().QueryRow(t.Context(), settled, "of-"+engine).Scan(&port); err != nil {
			t.Fatal(err)
		}
		listed := b.send("GET", all, b.full, "")
		for _, r := range []reply{made, listed} {
			for _, want := range []string{`"database_name":"defaultdb"`, `"platform":"rdbms-default"`, `"private_network":null`, `"engine_config":` + config} {
				if r.StatusCode != 200 || !strings.Contains(r.body, want) {
					t.Errorf("%s: no %s in %s", engine, want, r.body)
				}
			}
		}
		if !strings.Contains(made.body, `"standby":null,"endpoints":[]`) {
			t.Errorf("%s: addresses before there are any: %s", engine, made.body)
		}
		hosts := strings.ReplaceAll(`"hosts":{"primary":"127.0.0.2","secondary":"127.0.0.3","standby":"127.0.0.3","endpoints":[`+
			`{"role":"primary","address":"127.0.0.2","port":PORT,"public_access":true},`+
			`{"role":"standby","address":"127.0.0.3","port":PORT,"public_access":true}]}`, "PORT", strconv.Itoa(port))
		for _, shown := range []string{listed.body, b.send("GET", "/v4/databases/instances", b.full, "").body} {
			if !strings.Contains(shown, hosts) {
				t.Errorf("%s: no %s in %s", engine, hosts, shown)
			}
		}
	}
	if r := b.send("GET", "/v4/databases/instances", b.full, ""); r.StatusCode != 200 || strings.Contains(r.body, "database_name") || strings.Contains(r.body, "engine_config") {
		t.Errorf("the list over all engines: %s", r.body)
	}
}
