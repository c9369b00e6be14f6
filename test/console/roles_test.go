package console

import (
	"net/http"
	"strings"
	"testing"

	"steward/test/harness"
)

// TestRoles: a process without the role console has none and is an API as ever; a role that there isn't is refused with those that there are, and so is a
// process that would do nothing.
func TestRoles(t *testing.T) {
	t.Parallel()
	s := harness.Prepare(t)
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
	status := func(path string) int {
		got, _, _ := request(t, http.MethodGet, "http://"+s.Listen()+path, "", func(*http.Request) {})
		return got
	}
	for _, c := range []struct {
		roles string
		want  int
	}{{"api", http.StatusNotFound}, {"api,console", http.StatusOK}} {
		s.Start("--roles", c.roles)
		if got := status("/console/"); got != c.want {
			t.Errorf("--roles %s: the console answers %d, want %d", c.roles, got, c.want)
		}
		if got, body := s.Call("GET", "/v4/databases/instances", nil, nil); got != http.StatusOK {
			t.Errorf("--roles %s: the API answers %d %s", c.roles, got, body)
		}
		s.Stop()
	}
}
