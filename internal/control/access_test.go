package control_test

import (
	"context"
	"crypto/sha256"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

type ctx = context.Context

func TestTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	made, text, err := b.Tokens.Create(t.Context(), p, control.NewToken{Label: "ci", Scopes: "databases:read_only"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(text) || made.Prefix != text[:16] || made.Expiry != nil {
		t.Errorf("%q, %+v", text, made)
	}
	who, err := b.Auth.Authenticate(t.Context(), text)
	if err != nil || who.Account != p.Account || who.User.ID != p.User.ID || who.Token != made.ID || who.Scopes.String() != "databases:read_only" {
		t.Errorf("%+v, %v", who, err)
	}
	var kept string
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT t::text FROM tokens t").Scan(&kept); err != nil || strings.Contains(kept, text) {
		t.Errorf("what is kept of it: %s, %v", kept, err)
	}
	renamed, err := b.Tokens.Relabel(t.Context(), p, made.ID, new("deploy"), nil)
	if err != nil || renamed.Label != "deploy" || renamed.Scopes.String() != made.Scopes.String() {
		t.Errorf("%+v, %v", renamed, err)
	}
	if same, err := b.Tokens.Relabel(t.Context(), p, made.ID, nil, nil); err != nil || same.Label != "deploy" {
		t.Errorf("%+v, %v", same, err)
	}
	if err := b.Tokens.Delete(t.Context(), p, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Auth.Authenticate(t.Context(), text); kind(err) != fault.Unauthenticated {
		t.Errorf("a revoked token: %v", err)
	}
}

func TestAuthenticateRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	_, text, err := b.Tokens.Create(t.Context(), p, control.NewToken{Label: "x", Scopes: "*", Expiry: new(b.now.Add(time.Hour))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "x", text[:63], text + "0", strings.ToUpper(text), strings.Repeat("0", 64), strings.Repeat("\x00", 64)} {
		if _, err := b.Auth.Authenticate(t.Context(), token); kind(err) != fault.Unauthenticated {
			t.Errorf("%q: %v", token, err)
		}
	}
	if _, err := b.Auth.Authenticate(t.Context(), text); err != nil {
		t.Errorf("before it expires: %v", err)
	}
	b.now = b.now.Add(time.Hour)
	if _, err := b.Auth.Authenticate(t.Context(), text); kind(err) != fault.Unauthenticated {
		t.Errorf("expired: %v", err)
	}
	if _, n, err := b.Tokens.List(t.Context(), p, store.ListQuery{}); err != nil || n != 0 {
		t.Errorf("an expired token is listed: %d, %v", n, err)
	}
}

func TestTokenFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	full := b.tenant("one")
	narrow := full
	narrow.Scopes, _ = account.ParseScopes("databases:read_write account:read_write")
	lent := full
	lent.TokenExpiry = new(b.now.Add(time.Hour))
	console := lent
	console.Client = account.ConsoleClient
	for _, c := range []struct {
		name string
		p    account.Principal
		in   control.NewToken
		door fault.Faults
		want []string
	}{
		{"exceeding by area", narrow, control.NewToken{Label: "x", Scopes: "events:read_only"}, nil, []string{"scopes: Must not exceed the scopes of the token that makes it: account:read_write databases:read_write"}},
		{"exceeding by all", narrow, control.NewToken{Label: "x", Scopes: "*"}, nil, []string{"scopes: Must not exceed the scopes of the token that makes it: account:read_write databases:read_write"}},
		{"within", narrow, control.NewToken{Label: "x", Scopes: "databases:read_only"}, nil, nil},
		{"all wrong", full, control.NewToken{Scopes: "nonsense", Expiry: new(b.now)}, nil, []string{"scopes: Unknown scope(s): nonsense", "label: Length must be 1-100 characters", "expiry: Must be in the future"}},
		{"named by the door already", full, control.NewToken{}, fault.Faults{fault.Required("label"), fault.Required("scopes")}, []string{"label: label is required", "scopes: scopes is required"}},
		{"long label", full, control.NewToken{Label: strings.Repeat("ä", 101), Scopes: "*"}, nil, []string{"label: Length must be 1-100 characters"}},
		{"a label that no text can hold", full, control.NewToken{Label: "a\x00b", Scopes: "*"}, nil, []string{"label: Must not contain control characters"}},
		{"outliving its maker", lent, control.NewToken{Label: "x", Scopes: "*", Expiry: new(b.now.Add(2 * time.Hour))}, nil, []string{"expiry: Must not be after the expiry of the token that makes it"}},
		{"outliving the console's", console, control.NewToken{Label: "x", Scopes: "*", Expiry: new(b.now.Add(2 * time.Hour))}, nil, nil},
	} {
		_, _, err := b.Tokens.Create(t.Context(), c.p, c.in, c.door)
		if diff := cmp.Diff(c.want, texts(err)); diff != "" || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
	made, _, err := b.Tokens.Create(t.Context(), lent, control.NewToken{Label: "x", Scopes: "*"}, nil)
	if err != nil || made.Expiry == nil || !made.Expiry.Equal(*lent.TokenExpiry) {
		t.Errorf("a lent token makes one that lasts: %+v, %v", made, err)
	}
}

// TestTokensArePrivate: not even another user of the account sees them.
func TestTokensArePrivate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	made, _, err := b.Tokens.Create(t.Context(), p, control.NewToken{Label: "x", Scopes: "*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []account.Principal{b.tenant("two"), b.user(p.Account, account.User{Username: "colleague"})} {
		if _, err := b.Tokens.View(t.Context(), other, made.ID); kind(err) != fault.NotFound {
			t.Errorf("view: %v", err)
		}
		if _, err := b.Tokens.Relabel(t.Context(), other, made.ID, new("mine"), nil); kind(err) != fault.NotFound {
			t.Errorf("relabel: %v", err)
		}
		if err := b.Tokens.Delete(t.Context(), other, made.ID); kind(err) != fault.NotFound {
			t.Errorf("delete: %v", err)
		}
		if found, n, err := b.Tokens.List(t.Context(), other, store.ListQuery{}); err != nil || n != 0 || len(found) != 0 {
			t.Errorf("list: %d, %v", n, err)
		}
	}
	if _, err := b.Tokens.View(t.Context(), p, made.ID); err != nil {
		t.Errorf("the owner: %v", err)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("owner")
	made, err := b.Users.Create(t.Context(), p, control.UserChange{Username: new("anna"), Email: new("anna@example.org")}, nil)
	if err != nil || !made.Restricted || made.AddDatabases || made.Account != p.Account {
		t.Errorf("%+v, %v", made, err)
	}
	changed, err := b.Users.Update(t.Context(), p, "anna", control.UserChange{Username: new("anne"), Restricted: new(false)}, nil)
	if err != nil || changed.Username != "anne" || changed.Restricted || changed.Email != "anna@example.org" {
		t.Errorf("%+v, %v", changed, err)
	}
	if got, err := b.Users.View(t.Context(), p, "anne"); err != nil || got != changed {
		t.Errorf("%+v, %v", got, err)
	}
	if _, n, err := b.Users.List(t.Context(), p, store.ListQuery{}); err != nil || n != 2 {
		t.Errorf("%d users, %v", n, err)
	}
	if err := b.Users.Delete(t.Context(), p, "anne"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"anne", "anna", "", "\x00", strings.Repeat("x", 1000), "a' OR 1=1"} {
		if _, err := b.Users.View(t.Context(), p, name); kind(err) != fault.NotFound {
			t.Errorf("view %q: %v", name, err)
		}
		if err := b.Users.Delete(t.Context(), p, name); kind(err) != fault.NotFound {
			t.Errorf("delete %q: %v", name, err)
		}
	}
}

func TestUserFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("owner")
	const letters = "username: May only contain letters, digits, -, _ and ., and must start and end with a letter or a digit"
	const address = "email: Must be an e-mail address of at most 128 characters"
	for _, c := range []struct {
		name, username, email string
		want                  []string
	}{
		{"fine", "anna.b-c_d9", "a@example.org", nil},
		{"short and no address", "ab", "nobody", []string{"username: Length must be 3-32 characters", address}},
		{"long", strings.Repeat("a", 33), "a@example.org", []string{"username: Length must be 3-32 characters"}},
		{"a dot at the end", "anna.", "a@example.org", []string{letters}},
		{"a slash", "an/na", "a@example.org", []string{letters}},
		{"other letters", "änna", "a@example.org", []string{letters}},
		{"a name with the address", "anna", "Anna <a@example.org>", []string{address}},
		{"two addresses", "anna", "a@example.org, b@example.org", []string{address}},
		{"a zero byte", "anna", "\"a\x00\"@example.org", []string{address}},
		{"taken", "owner", "a@example.org", []string{"username: Username taken"}},
	} {
		_, err := b.Users.Create(t.Context(), p, control.UserChange{Username: &c.username, Email: &c.email}, nil)
		if diff := cmp.Diff(c.want, texts(err)); diff != "" || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
	_, err := b.Users.Create(t.Context(), p, control.UserChange{}, nil)
	if diff := cmp.Diff([]string{"username: username is required", "email: email is required"}, texts(err)); diff != "" {
		t.Error(diff)
	}
}

// TestNobodyLocksTheAccountOut: the caller and the last unrestricted user stay.
func TestNobodyLocksTheAccountOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("owner")
	b.restricted(p.Account, "limited")
	if err := b.Users.Delete(t.Context(), p, "owner"); kind(err) != fault.Precondition {
		t.Errorf("delete yourself: %v", err)
	}
	if _, err := b.Users.Update(t.Context(), p, "owner", control.UserChange{Restricted: new(true)}, nil); kind(err) != fault.Invalid {
		t.Errorf("restrict yourself: %v", err)
	}
	second := b.user(p.Account, account.User{Username: "second"})
	if _, err := b.Users.Update(t.Context(), p, "owner", control.UserChange{Restricted: new(true)}, nil); kind(err) != fault.Invalid {
		t.Errorf("restrict yourself with another there: %v", err)
	}
	// Both at the same time must not leave nobody.
	errs := make(chan error, 2)
	go func() { errs <- b.Users.Delete(t.Context(), p, "second") }()
	go func() { errs <- b.Users.Delete(t.Context(), second, "owner") }()
	failed := 0
	for range 2 {
		if err := <-errs; err != nil {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d of two deletes of each other failed", failed)
	}
}

// TestUsersAccess: users are the business of unrestricted ones, and of their own account.
func TestUsersAccess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner, stranger := b.tenant("owner"), b.tenant("stranger")
	limited := b.restricted(owner.Account, "limited")
	b.restricted(owner.Account, "third")
	calls := map[string]func(p account.Principal) error{
		"list": func(p account.Principal) error {
			_, _, err := b.Users.List(t.Context(), p, store.ListQuery{})
			return err
		},
		"view": func(p account.Principal) error { _, err := b.Users.View(t.Context(), p, "third"); return err },
		"create": func(p account.Principal) error {
			_, err := b.Users.Create(t.Context(), p, control.UserChange{}, nil)
			return err
		},
		"update": func(p account.Principal) error {
			_, err := b.Users.Update(t.Context(), p, "third", control.UserChange{Restricted: new(false)}, nil)
			return err
		},
		"delete": func(p account.Principal) error { return b.Users.Delete(t.Context(), p, "third") },
		"grants": func(p account.Principal) error { _, err := b.Users.Grants(t.Context(), p, "third"); return err },
		"set grants": func(p account.Principal) error {
			_, err := b.Users.SetGrants(t.Context(), p, "third", control.GrantsChange{AddDatabases: new(true)}, nil)
			return err
		},
	}
	for name, call := range calls {
		if err := call(limited); kind(err) != fault.Forbidden {
			t.Errorf("%s by a restricted user: %v", name, err)
		}
		if name == "list" || name == "create" {
			continue
		}
		if err := call(stranger); kind(err) != fault.NotFound {
			t.Errorf("%s by a stranger: %v", name, err)
		}
	}
	if found, n, err := b.Users.List(t.Context(), stranger, store.ListQuery{}); err != nil || n != 1 || found[0].Username != "stranger" {
		t.Errorf("%v, %d, %v", found, n, err)
	}
	if got, err := b.Users.View(t.Context(), limited, "limited"); err != nil || got.ID != limited.User.ID {
		t.Errorf("a restricted user looks at itself: %v", err)
	}
}

func TestSetGrants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner, stranger := b.tenant("owner"), b.tenant("stranger")
	b.restricted(owner.Account, "limited")
	mine, other, foreign := b.create(owner), b.create(owner), b.create(stranger)
	set := func(in control.GrantsChange) (control.Grants, error) {
		return b.Users.SetGrants(t.Context(), owner, "limited", in, nil)
	}
	got, err := set(control.GrantsChange{AddDatabases: new(true), Databases: map[cluster.ID]account.Permission{mine.ID: account.ReadOnly}})
	want := control.Grants{Restricted: true, AddDatabases: true, Databases: []account.Grant{
		{Cluster: int64(mine.ID), Label: mine.Label, Permission: account.ReadOnly}, {Cluster: int64(other.ID), Label: other.Label},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	_, err = set(control.GrantsChange{AddDatabases: new(false), Databases: map[cluster.ID]account.Permission{
		mine.ID: account.ReadWrite, foreign.ID: account.ReadWrite, 99999: account.ReadOnly, other.ID: "owner",
	}})
	if diff := cmp.Diff([]string{
		"database.permissions: Must be one of read_only, read_write", "database.id: 3 is not valid", "database.id: 99999 is not valid",
	}, texts(err)); diff != "" {
		t.Error(diff)
	}
	if again, err := b.Users.Grants(t.Context(), owner, "limited"); err != nil || cmp.Diff(want, again) != "" {
		t.Errorf("a refused change did something: %+v, %v", again, err)
	}
	if got, err = set(control.GrantsChange{Databases: map[cluster.ID]account.Permission{mine.ID: account.NoPermission}}); err != nil || got.Databases[0].Permission != "" || !got.AddDatabases {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := b.Users.SetGrants(t.Context(), owner, "owner", control.GrantsChange{}, nil); kind(err) != fault.Precondition {
		t.Errorf("an unrestricted user: %v", err)
	}
	if own, err := b.Users.OwnGrants(t.Context(), owner); err != nil || own.Restricted {
		t.Errorf("%+v, %v", own, err)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner, stranger := b.tenant("owner"), b.tenant("stranger")
	limited := b.restricted(owner.Account, "limited")
	first, second := b.create(owner), b.create(owner)
	b.grant(limited, second.ID, account.ReadOnly)
	ids := b.woken
	for _, p := range []account.Principal{stranger, limited} {
		if _, err := b.Events.View(t.Context(), p, ids[0]); kind(err) != fault.NotFound {
			t.Errorf("%s views: %v", p.User.Username, err)
		}
		if err := b.Events.Seen(t.Context(), p, ids[0]); kind(err) != fault.NotFound {
			t.Errorf("%s has seen: %v", p.User.Username, err)
		}
		if err := b.Events.Read(t.Context(), p, ids[0]); kind(err) != fault.NotFound {
			t.Errorf("%s has read: %v", p.User.Username, err)
		}
	}
	if found, n, err := b.Events.List(t.Context(), limited, store.ListQuery{}); err != nil || n != 1 || found[0].Cluster != second.ID {
		t.Errorf("%v, %d, %v", found, n, err)
	}
	if err := b.Events.Read(t.Context(), owner, ids[1]); err != nil {
		t.Error(err)
	}
	if err := b.Events.Seen(t.Context(), owner, ids[1]); err != nil {
		t.Error(err)
	}
	found, n, err := b.Events.List(t.Context(), owner, store.ListQuery{})
	if err != nil || n != 2 || found[0].ID != ids[1] || found[1].Cluster != first.ID {
		t.Fatalf("%v, %d, %v", found, n, err)
	}
	if !found[0].Read || found[1].Read || !found[0].Seen || !found[1].Seen || found[0].Status != operation.Scheduled {
		t.Errorf("%+v", found)
	}
}

func TestTokenOfIsWhatIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	text := strings.Repeat("ab", 32)
	if _, err := b.store.CreateToken(t.Context(), control.TokenOf(p.User.ID, "first", text, account.FullScopes(), nil), sha256.Sum256([]byte(text))); err != nil {
		t.Fatal(err)
	}
	if who, err := b.Auth.Authenticate(t.Context(), text); err != nil || !who.Scopes.All {
		t.Errorf("%+v, %v", who, err)
	}
}
