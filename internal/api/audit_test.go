package api_test

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steward/internal/account"
	"steward/internal/api"
)

// trail collects lines.
type trail struct {
	mu    sync.Mutex
	lines []account.Audit
}

func (t *trail) record(line account.Audit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// take empties the trail.
func (t *trail) take() []account.Audit {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	t.lines = nil
	return lines
}

var volatile = cmpopts.IgnoreFields(account.Audit{}, "At", "RequestID")

// TestAudit: what changes state and what is refused is written down, with who
// and from where; reading and being too fast isn't.
func TestAudit(t *testing.T) {
	t.Parallel()
	var lines trail
	b := newOAuthBench(t, func(o *api.Options) { o.Audit = lines.record })
	admin, err := b.store.User(t.Context(), b.account, "admin")
	if err != nil {
		t.Fatal(err)
	}
	limited, err := b.store.User(t.Context(), b.account, "limited")
	if err != nil {
		t.Fatal(err)
	}
	const one = "/v4/databases/postgresql/instances"
	line := account.Audit{Account: b.account, User: admin.ID, Username: "admin", Token: 1, Address: "192.0.2.1", Action: "POST " + one, Path: one, Status: 200}
	but := func(change func(a *account.Audit)) account.Audit { other := line; change(&other); return other }
	for _, step := range []struct {
		name, method, path, token, body string
		want                            []account.Audit
	}{
		{"a read", "GET", one, b.full, "", nil},
		{"a change", "POST", one, b.full, goodCreate, []account.Audit{line}},
		{"a change that failed", "POST", one, b.full, `{"label":"a secret in a body"}`, []account.Audit{but(func(a *account.Audit) { a.Status = 400 })}},
		{"a stranger", "GET", one, "", "", []account.Audit{{Address: "192.0.2.1", Action: "GET " + one, Path: one, Status: 401}}},
		{"a restricted user", "GET", "/v4/account/users", b.restricted, "", []account.Audit{{
			Account: b.account, User: limited.ID, Username: "limited", Token: 3, Address: "192.0.2.1", Action: "GET /v4/account/users", Path: "/v4/account/users", Status: 403,
		}}},
		{"another spelling", "DELETE", "/v4beta/profile/tokens/999/?secret=in-the-query", b.full, "", []account.Audit{but(func(a *account.Audit) {
			a.Action, a.Path, a.Status = "DELETE /v4/profile/tokens/{tokenId}", "/v4beta/profile/tokens/999/", 404
		})}},
		{"nothing there", "POST", "/v4/nothing", b.full, "", nil},
	} {
		b.send(step.method, step.path, step.token, step.body)
		if diff := cmp.Diff(step.want, lines.take(), volatile); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.name, diff)
		}
	}

	c := b.confidential()
	config := b.config(c, "account:read_write")
	lines.take()
	address := config.AuthCodeURL("some-state")
	b.login(address, "admin", "a wrong password", "allow")
	token, err := config.Exchange(t.Context(), b.code(address, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	b.send("DELETE", "/v4/profile/tokens/999", token.AccessToken, "")
	flow := account.Audit{Account: b.account, User: admin.ID, Username: "admin", Client: account.ClientID(c.ID), Address: "127.0.0.1"}
	step := func(action, username string, status int) account.Audit {
		a := flow
		a.Action, a.Path, a.Username, a.Status = action, strings.Fields(action)[1], username, status
		return a
	}
	used := step("DELETE /v4/profile/tokens/{tokenId}", "admin", 404)
	used.Path, used.Address = "/v4/profile/tokens/999", "192.0.2.1"
	got := lines.take()
	if last := len(got) - 1; last >= 0 && got[last].Token == 0 {
		t.Error("the token that was used isn't named")
	} else if last >= 0 {
		got[last].Token = 0
	}
	want := []account.Audit{
		step("POST /oauth/authorize", "admin", 401), step("POST /oauth/authorize", "admin", 303), step("POST /oauth/token", "", 200), used,
	}
	if diff := cmp.Diff(want, got, volatile); diff != "" {
		t.Errorf("the flow: -want +got\n%s", diff)
	}
	do(t, browser(t), "POST", b.url+"/oauth/token", url.Values{"client_id": {c.ID}, "client_secret": {"wrong"}, "grant_type": {"client_credentials"}})
	if diff := cmp.Diff([]account.Audit{{Address: "127.0.0.1", Action: "POST /oauth/token", Path: "/oauth/token", Status: 401}}, lines.take(), volatile); diff != "" {
		t.Errorf("a wrong client secret: -want +got\n%s", diff)
	}
}
