package e2e

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"

	"steward/internal/sshlogin/sshdtest"
	"steward/test/harness"
)

// machines goes through what customers and operators do with machines, with
// the built binary and a real SSH server.
func machines(t *testing.T, s *harness.Server) {
	server := sshdtest.New(t)
	_, port, _ := net.SplitHostPort(server.Address)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := s.Command(args...)
		if err != nil {
			t.Fatalf("steward %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	key := run("ssh-key")
	if !strings.HasPrefix(key, "ssh-ed25519 ") {
		t.Fatalf("SSH key: %s", key)
	}
	run("compute", "settings", "update", name, "--user", server.User, "--port", port)
	refused, err := s.Command("compute", "check", name, "--json", "--data", s.Data)
	var report struct {
		OK    bool
		Steps []struct {
			Step string
			OK   bool
		}
	}
	if decoded := json.Unmarshal([]byte(refused), &report); err == nil || decoded != nil || report.OK || len(report.Steps) != 3 || report.Steps[2].Step != "log in" {
		t.Errorf("before the key is there: %v, %s", err, refused)
	}
	server.Allow(key)
	if out := run("compute", "check", name, "--data", s.Data); strings.Count(out, " ok ") != 4 {
		t.Errorf("the key is there: %s", out)
	}
	run("compute", "settings", "update", name, "--no-access")
	if out, err := s.Command("compute", "check", name, "--data", s.Data); err == nil || !strings.Contains(out, "FAILED") {
		t.Errorf("without access: %v, %s", err, out)
	}
	run("compute", "add", "web-1", "--source", "http://127.0.0.1:9/metrics", "--group", "web", "--data", s.Data)
	if out := run("compute", "list", "--data", s.Data); !strings.Contains(out, name) || !strings.Contains(out, "http://127.0.0.1:9/metrics") {
		t.Errorf("listed: %s", out)
	}
	if out := run("compute", "settings", "list"); !strings.Contains(out, name) || !strings.Contains(out, "web-1") {
		t.Errorf("the customer's list: %s", out)
	}
	run("compute", "remove", "web-1", "--data", s.Data)
	if out, err := s.Command("compute", "remove", name, "--data", s.Data); err == nil {
		t.Errorf("this host can be removed: %s", out)
	}
}
