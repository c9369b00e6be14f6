package e2e

import (
	"net/http"
	"strings"
	"testing"

	"steward/test/harness"
)

// inside makes a logical database and users by the API and the command line; what is wrong with a request is said all at once.
func inside(t *testing.T, s *harness.Server, d harness.Database, c harness.Credentials) {
	expect := func(method, path string, body any, status int, want ...string) {
		t.Helper()
		got, text := s.Call(method, d.Path()+path, body, nil)
		for _, w := range append(want, "") {
			if got != status || !strings.Contains(text, w) {
				t.Errorf("%s %s: %d %s, want %d %s", method, path, got, text, status, w)
			}
		}
	}
	grant := func(database, privilege string) []map[string]string {
		return []map[string]string{{"database": database, "privilege": privilege}}
	}
	expect("POST", "/databases", map[string]any{"name": "", "encoding": "", "nonsense": 1}, http.StatusBadRequest, `"field":"name"`, `"field":"encoding"`)
	expect("POST", "/databases", map[string]any{"name": "mysql/../postgres"}, http.StatusBadRequest, `"field":"name"`)
	expect("POST", "/users", map[string]any{"username": "steward", "grants": grant("defaultdb", "all")}, http.StatusBadRequest, `"field":"username"`, `"field":"grants`)
	expect("POST", "/users", map[string]any{"username": "app", "grants": grant("none", "read")}, http.StatusBadRequest, `"field":"grants`, "none")
	expect("DELETE", "/users/nobody", nil, http.StatusNotFound)
	expect("DELETE", "/databases/nowhere", nil, http.StatusNotFound)
	expect("POST", "/databases", map[string]any{"name": "shop"}, http.StatusOK, `"name":"shop"`)
	expect("POST", "/databases", map[string]any{"name": "shop"}, http.StatusBadRequest, `"field":"name"`)
	user := harness.Credentials{CA: c.CA}
	if status, text := s.Call("POST", d.Path()+"/users", map[string]any{"username": "app", "grants": append(grant("shop", "write"), grant("defaultdb", "read")...)}, &user); status != http.StatusOK || user.Password == "" {
		t.Fatalf("make a user: %d %s", status, text)
	}
	if out, err := s.Command("db", "user", "list", d.Label); err != nil || !strings.Contains(out, "shop=write") || strings.Contains(out, user.Password) {
		t.Errorf("db user list: %v\n%s", err, out)
	}
	s.MustConnect(d, user)
	expect("PUT", "/users/app", map[string]any{"grants": grant("defaultdb", "read")}, http.StatusOK, `"privilege":"read"`)
	if out, err := s.Command("db", "user", "delete", d.Label, "app"); err != nil {
		t.Errorf("db user delete: %v\n%s", err, out)
	}
	if out, err := s.Command("db", "database", "delete", d.Label, "shop", "--yes"); err != nil {
		t.Errorf("db database delete: %v\n%s", err, out)
	}
	if d.Engine == "mysql" {
		expect("GET", "/extensions", nil, http.StatusNotFound)
		expect("GET", "/connection-pools", nil, http.StatusNotFound)
	}
}
