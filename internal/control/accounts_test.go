package control_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/store"
)

var operator = account.Audit{Username: "operator:root", Address: "local", Action: "steward account", Status: 200}

func TestAccounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	made, err := b.Accounts.Create(ctx, "acme", control.AccountChange{Email: new("a@example.org"), Quotas: account.Quotas{Nodes: new(3)}}, nil, operator)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Accounts.Create(ctx, "acme", control.AccountChange{}, nil, operator); err == nil || err.Error() != "name: There is an account of this name" {
		t.Errorf("a second one of the name: %v", err)
	}
	_, err = b.Accounts.Create(ctx, "-", control.AccountChange{Email: new("nobody"), Quotas: account.Quotas{DiskGB: new(-2)}}, nil, operator)
	if got := strings.Join(texts(err), "\n"); !strings.Contains(got, "name: ") || !strings.Contains(got, "email: ") || !strings.Contains(got, "max_disk_gb: ") {
		t.Errorf("all faults at once: %s", got)
	}
	if _, err := b.Accounts.Update(ctx, "acme", control.AccountChange{Quotas: account.Quotas{DiskGB: new(7)}, Reset: control.ResetQuotas{Nodes: true}}, nil, operator); err != nil {
		t.Fatal(err)
	}
	shown, err := b.Accounts.View(ctx, "acme")
	if err != nil || shown.ID != made.ID || shown.Email != "a@example.org" || shown.Status != account.Active || shown.Quotas.Nodes != nil || *shown.Quotas.DiskGB != 7 {
		t.Errorf("%+v %v", shown, err)
	}
	if _, err := b.Accounts.View(ctx, "nobody"); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("one that isn't there: %v", err)
	}
	lines := 0
	err = b.store.Audit(ctx, time.Time{}, "", func(l account.Audit) error {
		if l.Account != made.ID || l.Path != "acme" || l.Username != operator.Username {
			t.Errorf("%+v", l)
		}
		lines++
		return nil
	})
	if err != nil || lines != 2 {
		t.Errorf("%d lines in the audit trail, %v", lines, err)
	}
}

// TestTokensOfAccounts: tokens are refused as long as the account is suspended, and for
// ever once it is being deleted.
func TestTokensOfAccounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	p := b.tenant("acme")
	_, text, err := b.Tokens.Create(ctx, p, control.NewToken{Label: "x", Scopes: "*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.store.InTx(ctx, func(tx *store.Tx) error { _, err := tx.EnsureAdmin(ctx); return err }); err != nil {
		t.Fatal(err)
	}
	step := func(do func() (account.Account, error), want fault.Kind) {
		t.Helper()
		if _, err := do(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Auth.Authenticate(ctx, text); kind(err) != want {
			t.Errorf("%v", err)
		}
	}
	suspend := func() (account.Account, error) { return b.Accounts.Suspend(ctx, "acme", operator) }
	resume := func() (account.Account, error) { return b.Accounts.Resume(ctx, "acme", operator) }
	remove := func() (account.Account, error) { return b.Accounts.Delete(ctx, "acme", operator) }
	step(suspend, fault.Forbidden)
	step(suspend, fault.Forbidden) // again is no change
	if _, err := b.Clusters.Create(ctx, p, b.spec(), nil); kind(err) != fault.Forbidden {
		t.Errorf("a create by an earlier request: %v", err)
	}
	step(resume, 0)
	step(remove, fault.Unauthenticated)
	step(remove, fault.Unauthenticated)
	for what, do := range map[string]func() (account.Account, error){
		"suspend": suspend, "resume": resume,
		"update": func() (account.Account, error) {
			return b.Accounts.Update(ctx, "acme", control.AccountChange{Email: new("")}, nil, operator)
		},
	} {
		if _, err := do(); kind(err) != fault.Precondition {
			t.Errorf("%s of one that is being deleted: %v", what, err)
		}
	}
	if _, err := b.Accounts.Delete(ctx, account.First, operator); kind(err) != fault.Precondition {
		t.Errorf("the first account: %v", err)
	}
	if _, err := b.Accounts.Suspend(ctx, account.First, operator); err != nil {
		t.Errorf("suspending the first account: %v", err)
	}
}

// TestClientsOfAccounts: an application of a suspended account is none.
func TestClientsOfAccounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	p := b.tenant("acme")
	c, _, err := b.Clients.Create(ctx, p, control.ClientChange{Label: new("app"), RedirectURI: new("https://app.example.org/")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do   func() (account.Account, error)
		want fault.Kind
	}{
		{func() (account.Account, error) { return b.Accounts.Suspend(ctx, "acme", operator) }, fault.NotFound},
		{func() (account.Account, error) { return b.Accounts.Resume(ctx, "acme", operator) }, 0},
	} {
		if _, err := step.do(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Authorizations.Client(ctx, c.ID); kind(err) != step.want {
			t.Errorf("%v", err)
		}
	}
}
