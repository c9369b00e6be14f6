package console

import (
	"net/http"
	"strings"
	"testing"

	"steward/test/harness"
)

// roles: a process without the role console has none and is an API as ever; a role that there isn't is refused with those that there are, and so is a
// process that would do nothing. The server is stopped, and had a console with all roles.
func roles(t *testing.T, s *harness.Server) {
	t.Helper()
	for roles, want := range map[string][]string{"api,worker": {"worker", `"api"`, `"console"`}, "console": {"api can't be left out"}} {
		out, err := s.Command("serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--roles", roles)
		if err == nil {
			t.Errorf("--roles %s is taken: %s", roles, out)
		}
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("--roles %s isn't told %q: %s", roles, part, out)
			}
		}
	}
	s.Start("--roles", "api")
	if got, _, _ := request(t, http.MethodGet, "http://"+s.Listen()+"/console/", "", func(*http.Request) {}); got != http.StatusNotFound {
		t.Errorf("--roles api: the console answers %d", got)
	}
	if got, body := s.Call("GET", "/v4/databases/instances", nil, nil); got != http.StatusOK {
		t.Errorf("--roles api: the API answers %d %s", got, body)
	}
	s.Stop()
}
