package control_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
)

const goodPassword = "a long enough one"

func TestLogin(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, other := b.tenant("acme"), b.tenant("other")
	if err := b.Logins.SetPassword(t.Context(), p.User, goodPassword); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name           string
		in             account.ID
		user, password string
		want           fault.Kind
	}{
		{"right", p.Account, "acme", goodPassword, 0},
		{"wrong", p.Account, "acme", goodPassword + " ", fault.Unauthenticated},
		{"empty", p.Account, "acme", "", fault.Unauthenticated},
		{"of another account", other.Account, "acme", goodPassword, fault.Unauthenticated},
		{"without a password", other.Account, "other", goodPassword, fault.Unauthenticated},
		{"without a password, empty", other.Account, "other", "", fault.Unauthenticated},
		{"not a name", p.Account, "acme\x00", goodPassword, fault.Unauthenticated},
		{"huge", p.Account, "acme", strings.Repeat("x", 1<<20), fault.Unauthenticated},
	}
	for _, test := range tests {
		u, err := b.Logins.Login(t.Context(), control.Attempt{Account: test.in, Username: test.user, Password: test.password})
		if kind(err) != test.want || err == nil && u.ID != p.User.ID || u.ID == p.User.ID && test.in != p.Account {
			t.Errorf("%s: %+v, %v", test.name, u, err)
		}
	}
	const another = "another long enough one"
	if err := b.Logins.SetPassword(t.Context(), p.User, another); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Logins.Login(t.Context(), control.Attempt{Account: p.Account, Username: "acme", Password: goodPassword}); !fault.IsKind(err, fault.Unauthenticated) {
		t.Errorf("the old password: %v", err)
	}
	if _, err := b.Logins.Login(t.Context(), control.Attempt{Account: p.Account, Username: "acme", Password: another}); err != nil {
		t.Errorf("the new one: %v", err)
	}
}

// TestHashOfAPassword: it is what RFC 9106 recommends where nothing else is configured, and then a log-in's.
func TestHashOfAPassword(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(d *control.Deps) { d.PasswordCost = control.PasswordCost{} })
	p := b.tenant("acme")
	if err := b.Logins.SetPassword(t.Context(), p.User, goodPassword); err != nil {
		t.Fatal(err)
	}
	var hash string
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT hash FROM passwords").Scan(&hash); err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=65536,t=3,p=4$") {
		t.Errorf("the hash is %q (%v), not what RFC 9106 recommends", hash, err)
	}
	if _, err := b.Logins.Login(t.Context(), control.Attempt{Account: p.Account, Username: "acme", Password: goodPassword}); err != nil {
		t.Error(err)
	}
}

// TestLoginTakesAsLong for users that aren't there: the answer's time doesn't
// tell which there are.
func TestLoginTakesAsLong(t *testing.T) {
	// It takes ten times what asking the store does.
	b := newBench(t, func(d *control.Deps) { d.PasswordCost = control.PasswordCost{MemoryKiB: 8 << 10, Passes: 1, Lanes: 1} })
	p := b.tenant("acme")
	if err := b.Logins.SetPassword(t.Context(), p.User, goodPassword); err != nil {
		t.Fatal(err)
	}
	took := func(user string) time.Duration {
		begun := time.Now()
		if _, err := b.Logins.Login(t.Context(), control.Attempt{Account: p.Account, Username: user, Password: "a wrong password"}); !fault.IsKind(err, fault.Unauthenticated) {
			t.Fatal(err)
		}
		return time.Since(begun)
	}
	known, unknown := time.Hour, time.Hour
	for round := range 20 { // the fastest of each of three, or of more: the machine is shared
		known, unknown = min(known, took("acme")), min(unknown, took("nobody"))
		if round >= 2 && unknown >= known/3 && known >= unknown/3 {
			return
		}
	}
	t.Errorf("a user that is there takes %s, one that isn't %s", known, unknown)
}

func TestValidatePassword(t *testing.T) {
	t.Parallel()
	for password, ok := range map[string]bool{
		goodPassword: true, strings.Repeat("ö", 12): true, strings.Repeat("x", 128): true,
		"": false, "short": false, strings.Repeat("x", 129): false, "administrator": false, "ADMINISTRATOR": false, "twelve bytes\xff": false,
	} {
		if got := len(control.ValidatePassword("administrator", password)) == 0; got != ok {
			t.Errorf("%q: %v", password, got)
		}
	}
}
