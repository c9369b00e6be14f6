package control_test

import (
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
)

// TestLoginLink: a link sets one password, once, within a day, and the last one made counts.
func TestLoginLink(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("acme")
	link := func() string {
		t.Helper()
		secret, err := b.Logins.MakeLink(t.Context(), p.User)
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	use := func(secret, password string) fault.Kind {
		_, err := b.Logins.UseLink(t.Context(), secret, password, "192.0.2.1")
		return kind(err)
	}
	old, secret := link(), link()
	if got := use(old, goodPassword); got != fault.NotFound {
		t.Errorf("a link that another replaced: %v", got)
	}
	if got := use("x", goodPassword); got != fault.NotFound {
		t.Errorf("no link: %v", got)
	}
	if got := use(secret, "short"); got != fault.Invalid {
		t.Errorf("a short password: %v", got)
	}
	if has, err := b.Logins.HasPassword(t.Context(), p.User); has || err != nil {
		t.Errorf("a password before there is one: %v, %v", has, err)
	}
	if got := use(secret, goodPassword); got != 0 {
		t.Errorf("the link: %v", got)
	}
	if has, err := b.Logins.HasPassword(t.Context(), p.User); !has || err != nil {
		t.Errorf("no password after it was set: %v, %v", has, err)
	}
	if got := use(secret, goodPassword+"2"); got != fault.NotFound {
		t.Errorf("the link again: %v", got)
	}
	if _, err := b.Logins.Login(t.Context(), control.Attempt{Account: p.Account, Username: "acme", Password: goodPassword}); err != nil {
		t.Errorf("log-in: %v", err)
	}
	late := link()
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE login_links SET expiry = expiry - $1::interval", control.LinkLifetime+time.Second); err != nil {
		t.Fatal(err)
	}
	if got := use(late, goodPassword); got != fault.NotFound {
		t.Errorf("a day later: %v", got)
	}
}

// TestLoginToTheConsole: it is every account's, so the account's name stands before the
// user's; without, the first is meant.
func TestLoginToTheConsole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, p := b.tenant(account.First), b.tenant("acme")
	for _, who := range []account.Principal{first, p} {
		if err := b.Logins.SetPassword(t.Context(), who.User, goodPassword); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]account.UserID{
		first.User.Username: first.User.ID, account.First + "/" + first.User.Username: first.User.ID, "acme/acme": p.User.ID,
		"acme": 0, "nobody/acme": 0, "/acme": 0, "acme/": 0, "acme/acme/acme": 0, account.First + "/acme": 0,
	} {
		u, err := b.Logins.Login(t.Context(), control.Attempt{Username: name, Password: goodPassword})
		if want == 0 && kind(err) != fault.Unauthenticated || want != 0 && (err != nil || u.ID != want) {
			t.Errorf("%s: user %d, %v", name, u.ID, err)
		}
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE accounts SET status = 'suspended' WHERE name = 'acme'"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Logins.Login(t.Context(), control.Attempt{Username: "acme/acme", Password: goodPassword}); kind(err) != fault.Unauthenticated {
		t.Errorf("of a suspended account: %v", err)
	}
}
