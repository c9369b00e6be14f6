package api_test

import (
	"net/http"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/api"
)

// TestSuspendedAccount walks the document: every operation refuses a token of a suspended
// account and says why. That is no guess: it isn't counted as one.
func TestSuspendedAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t, withinAMinute, func(o *api.Options) { o.FailedLoginsPerMinute = 5 })
	accounts := b.api.Control.Accounts
	if _, err := accounts.Suspend(t.Context(), account.First, account.Audit{}); err != nil {
		t.Fatal(err)
	}
	for name, op := range documented(t) {
		method, path, _ := strings.Cut(name, " ")
		if r := b.send(method, path, b.full, "{}"); r.StatusCode != http.StatusForbidden || !strings.Contains(r.body, "Your account is suspended") {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
		}
		if r := b.send(method, path, "", ""); op.Scope == "none" && r.StatusCode == http.StatusForbidden {
			t.Errorf("%s, which is public, without a token: %s", name, r.body)
		}
	}
	if _, err := accounts.Resume(t.Context(), account.First, account.Audit{}); err != nil {
		t.Fatal(err)
	}
	if r := b.send("GET", "/v4/profile", b.full, ""); r.StatusCode != http.StatusOK {
		t.Errorf("once it is resumed: %d %s", r.StatusCode, r.body)
	}
}
