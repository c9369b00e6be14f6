package crash

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"steward/test/harness"
)

// operator gives one of the operator's commands.
func (w *world) operator(args ...string) (string, error) {
	return w.Command(append(args, "--data", w.Data)...)
}

func (w *world) mustDo(args ...string) string {
	w.t.Helper()
	out, err := w.operator(args...)
	if err != nil {
		w.t.Fatalf("steward %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// tenant makes an account with a database and a service, unless there is one. It is called before failpoints
// count.
func (w *world) tenant() {
	w.t.Helper()
	if w.db.ID != 0 {
		return
	}
	w.owner = fmt.Sprintf("crash-%d", w.n)
	w.mustDo("account", "create", w.owner)
	w.mustDo("user", "create", "ann", "--account", w.owner, "--email", "ann@example.org")
	w.tenantsToken()
	w.fresh()
	service := map[string]any{"label": "web", "service_type": "tcp", "address": "127.0.0.1:1", "timeout": 1, "region": "local"}
	if status, body := w.Call("POST", "/v4/managed/services", service, nil); status != 200 {
		w.t.Fatalf("create a service: %d %s", status, body)
	}
}

// tenantsToken has requests sent in the account's name.
func (w *world) tenantsToken() {
	w.t.Helper()
	w.Token = strings.TrimSpace(w.mustDo("token", "create", "--user", "ann", "--account", w.owner, "--scopes", "*"))
}

// command gives a command about the account that doesn't wait for what the server does.
func (w *world) command(args ...string) (int, error) {
	if out, err := w.operator(append(args, "--wait", "0")...); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	return 200, nil
}

// TestAccountsThorough kills steward while it does what follows from an operator's command.
func TestAccountsThorough(t *testing.T) {
	const kills = 2
	w := newWorld(t, postgresql)
	for _, op := range []operation{
		{
			name: "suspend", steps: 17,
			prepare: (*world).tenant,
			ask:     func(w *world) (int, error) { return w.command("account", "suspend", w.owner) },
			check: func(t *testing.T, w *world, _ bool) {
				w.mustDo("account", "suspend", w.owner) // waits
				w.disarm()
				w.mustBeClosed(t)
				w.mustDo("account", "resume", w.owner)
				w.mustServe(t)
			},
		},
		{
			name: "resume", steps: 25,
			prepare: func(w *world) {
				w.tenant()
				w.mustDo("account", "suspend", w.owner)
			},
			ask: func(w *world) (int, error) { return w.command("account", "resume", w.owner) },
			check: func(t *testing.T, w *world, _ bool) {
				w.mustDo("account", "resume", w.owner)
				w.disarm()
				w.mustServe(t)
			},
		},
		{
			name: "delete", steps: 35,
			prepare: (*world).tenant,
			ask:     func(w *world) (int, error) { return w.command("account", "delete", w.owner, "--yes") },
			check: func(t *testing.T, w *world, accepted bool) {
				if !accepted {
					w.mustDo("account", "delete", w.owner, "--yes")
				}
				w.mustBeGone(t)
			},
		},
	} {
		w.try(kills, op)
	}
}

// mustBeClosed demands that the database doesn't serve.
func (w *world) mustBeClosed(t *testing.T) {
	t.Helper()
	if err := w.query(w.db, w.cred); err == nil {
		t.Error("a suspended account's database serves")
	}
}

// mustServe demands that the account is served again.
func (w *world) mustServe(t *testing.T) {
	t.Helper()
	w.tenantsToken()
	w.AwaitStatus(w.db, "active")
	w.mustQuery(t)
}

// mustBeGone demands that nothing is left of the account.
func (w *world) mustBeGone(t *testing.T) {
	t.Helper()
	w.Eventually("the account is gone", func() error {
		if out, err := w.operator("account", "view", w.owner); err == nil || !strings.Contains(out, "no account") {
			return errors.New(out)
		}
		return nil
	})
	w.Eventually("its database is gone", w.Leftovers)
	w.db = harness.Database{}
}
