package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

// accountView is what `steward account view --json` prints.
type accountView struct {
	Name, Email, Status string
	Users               int
	Used                struct{ Databases, Nodes, Services int }
	Quotas              map[string]*int
}

// accounts: an operator makes an account with quotas, suspends it, resumes it and
// deletes it, beside a server that runs, with a real database. There is no other one.
func accounts(t *testing.T, s *harness.Server) {
	defer func(token string) { s.Token = token }(s.Token)
	run := func(args ...string) string {
		t.Helper()
		out, err := s.Command(append(args, "--data", s.Data)...)
		if err != nil {
			t.Fatalf("steward %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := s.Command(append(args, "--data", s.Data)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("steward %s: %v, want a refusal with %q\n%s", strings.Join(args, " "), err, want, out)
		}
	}
	view := func(args ...string) (v accountView) {
		t.Helper()
		out := run(append(args, "--json")...)
		if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &v); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return v
	}
	answered := func(status int) {
		t.Helper()
		s.Eventually(fmt.Sprintf("requests are answered %d", status), func() error {
			if got, body := s.Call("GET", "/v4/profile", nil, nil); got != status {
				return fmt.Errorf("%d %s", got, body)
			}
			return nil
		})
	}

	if v := view("account", "create", "acme", "--email", "a@example.org", "--max-databases", "1", "--max-services", "0"); v.Status != "active" || *v.Quotas["max_databases"] != 1 || v.Quotas["max_nodes"] != nil {
		t.Errorf("%+v", v)
	}
	refused("an account of this name", "account", "create", "acme")
	refused("unlimited or default", "account", "create", "other", "--max-nodes", "many")
	refused("nothing to change", "account", "update", "acme")
	refused("no account", "user", "create", "ann", "--account", "nobody", "--email", "ann@example.org")
	for _, of := range []string{"acme", "default"} {
		run("user", "create", "ann", "--account", of, "--email", "ann@example.org")
	}
	refused("--account", "token", "create", "--user", "ann", "--scopes", "*")
	s.Token = strings.TrimSpace(run("token", "create", "--user", "ann", "--account", "acme", "--scopes", "*"))
	d := s.CreateActive(harness.Small("first", "postgresql/15"))
	c := s.Credentials(d)
	if status, body := s.Call("POST", "/v4/databases/postgresql/instances", harness.Small("second", "postgresql/15"), nil); status != 400 || !strings.Contains(body, "max_databases") {
		t.Errorf("beyond the quota: %d %s", status, body)
	}
	if v := view("account", "update", "acme", "--max-databases", "unlimited", "--max-services", "default"); *v.Quotas["max_databases"] != -1 || v.Quotas["max_services"] != nil || v.Used.Databases != 1 || v.Users != 1 {
		t.Errorf("%+v", v)
	}
	if out := run("account", "list"); !strings.Contains(out, "acme") || !strings.Contains(out, "default") {
		t.Errorf("account list printed %s", out)
	}

	if v := view("account", "suspend", "acme"); v.Status != "suspended" {
		t.Errorf("%+v", v)
	}
	answered(403)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if db, err := harness.Connect(ctx, d, c, ""); err == nil {
		db.Close()
		t.Error("a suspended account's database serves")
	}
	view("account", "resume", "acme")
	answered(200)
	s.AwaitStatus(d, "active")
	db, err := harness.Connect(t.Context(), d, c, "")
	if err != nil {
		t.Fatalf("after a resume: %v", err)
	}
	db.Close()

	refused("can't be deleted", "account", "delete", "default", "--yes")
	for _, answers := range []string{"", "no\n", "acme\n", "acme\n2\n"} {
		if out, err := answering(s, answers, "account", "delete", "acme"); err == nil || !strings.Contains(out, "nothing was deleted") {
			t.Errorf("answered %q: %v %s", answers, err, out)
		}
	}
	if out, err := answering(s, "acme\n1\n", "account", "delete", "acme"); err != nil || !strings.Contains(out, "acme is deleted.") {
		t.Fatalf("%v %s", err, out)
	}
	answered(401)
	if err := s.Leftovers(); err != nil {
		t.Error(err)
	}
	refused("no account", "account", "view", "acme")
	if out := run("audit", "--json"); !strings.Contains(out, "steward account delete") || !strings.Contains(out, "steward account suspend") {
		t.Errorf("the audit trail lacks something: %s", out)
	}
}

// answering gives a command that asks.
func answering(s *harness.Server, answers string, args ...string) (string, error) {
	cmd := exec.Command(s.BinaryPath(), append(args, "--data", s.Data)...)
	cmd.Stdin = strings.NewReader(answers)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
