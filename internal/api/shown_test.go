package api_test

import (
	"fmt"
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
		if _, err := b.store.Pool().Exec(t.Context(), `UPDATE clusters SET status = 'active', host_primary = '127.0.0.2', host_secondary = '127.0.0.3'`); err != nil {
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
		if !strings.Contains(listed.body, `"standby":"127.0.0.3"`) {
			t.Errorf("%s: standby isn't secondary: %s", engine, listed.body)
		}
	}
	if r := b.send("GET", "/v4/databases/instances", b.full, ""); r.StatusCode != 200 || strings.Contains(r.body, "database_name") || strings.Contains(r.body, "engine_config") {
		t.Errorf("the list over all engines: %s", r.body)
	}
}
