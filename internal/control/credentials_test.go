package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/seal"
	"steward/internal/store"
)

// login is a change to a user name and a password; "-" leaves the name.
func login(username, password string) control.LoginChange {
	in := control.LoginChange{Password: new(seal.NewSecret(password))}
	if username != "-" {
		in.Username = new(seal.NewSecret(username))
	}
	return in
}

func (b *bench) credential(p account.Principal, label string) monitor.Credential {
	b.t.Helper()
	c, err := b.ManagedCredentials.Create(b.t.Context(), p, label, login("user of "+label, "password of "+label), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// reveals wants what staff read.
func (b *bench) reveals(id monitor.CredentialID, username, password string) {
	b.t.Helper()
	got, err := b.ManagedCredentials.Reveal(b.t.Context(), id, "alice", "a test")
	if err != nil || got.Username.Reveal() != username || got.Password.Reveal() != password {
		b.t.Errorf("credential %d: %q, %q, %v; want %q, %q", id, got.Username.Reveal(), got.Password.Reveal(), err, username, password)
	}
}

func TestCredentialsAccess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner, stranger := b.tenant("owner"), b.tenant("stranger")
	limited := b.restricted(owner.Account, "limited")
	made := b.credential(owner, "router")
	b.credential(stranger, "router") // unique per account only
	calls := map[string]func(p account.Principal) error{
		"list": func(p account.Principal) error {
			found, total, err := b.ManagedCredentials.List(t.Context(), p, store.ListQuery{})
			if err == nil && (total != 1 || found[0].ID == made.ID) {
				t.Errorf("a stranger sees %v", found)
			}
			return err
		},
		"create": func(p account.Principal) error {
			_, err := b.ManagedCredentials.Create(t.Context(), p, "", control.LoginChange{}, nil)
			return err
		},
		"view": func(p account.Principal) error {
			_, err := b.ManagedCredentials.View(t.Context(), p, made.ID)
			return err
		},
		"relabel": func(p account.Principal) error {
			_, err := b.ManagedCredentials.Relabel(t.Context(), p, made.ID, new("mine"), nil)
			return err
		},
		"set login": func(p account.Principal) error {
			return b.ManagedCredentials.SetLogin(t.Context(), p, made.ID, login("-", "mine"), nil)
		},
		"delete": func(p account.Principal) error { return b.ManagedCredentials.Delete(t.Context(), p, made.ID) },
	}
	ofUnrestrictedUsers(t, calls, limited, stranger)
	b.reveals(made.ID, "user of router", "password of router")
}

func TestCredentialFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("owner")
	first, second := b.credential(p, "router"), b.credential(p, "switch")
	long := strings.Repeat("ü", 5001)
	_, err := b.ManagedCredentials.Create(t.Context(), p, "router", login(long, ""), nil)
	if diff := cmp.Diff([]string{
		"username: Length must be at most 5000 characters", "password: Length must be 1-5000 characters", "label: Label must be unique among your credentials",
	}, texts(err)); diff != "" {
		t.Error(diff)
	}
	_, err = b.ManagedCredentials.Create(t.Context(), p, "x", control.LoginChange{}, nil)
	if diff := cmp.Diff([]string{"label: Length must be 2-75 characters", "password: password is required"}, texts(err)); diff != "" {
		t.Error(diff)
	}
	_, err = b.ManagedCredentials.Relabel(t.Context(), p, second.ID, new("router"), nil)
	if diff := cmp.Diff([]string{"label: Label must be unique among your credentials"}, texts(err)); diff != "" {
		t.Error(diff)
	}
	if _, err := b.ManagedCredentials.Relabel(t.Context(), p, first.ID, new("router"), nil); err != nil {
		t.Errorf("its own label: %v", err)
	}
	if err := b.ManagedCredentials.SetLogin(t.Context(), p, first.ID, login(long, long), nil); len(texts(err)) != 2 {
		t.Errorf("%v", err)
	}
	if _, err := b.ManagedCredentials.Create(t.Context(), p, "longest", login(long[:10_000], long[:10_000]), nil); err != nil {
		t.Errorf("the longest: %v", err)
	}
	b.reveals(first.ID, "user of router", "password of router")
}

// TestLoginsComeBackAsTheyWere whatever they are, and lie in the store sealed.
func TestLoginsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("owner")
	c := b.credential(p, "router")
	b.reveals(c.ID, "user of router", "password of router")
	known := "user of router"
	rapid.Check(t, func(r *rapid.T) {
		username := rapid.OneOf(rapid.Just("-"), rapid.Just(""), rapid.String()).Draw(r, "user name")
		password := rapid.StringN(1, 100, -1).Draw(r, "password")
		if err := b.ManagedCredentials.SetLogin(context.Background(), p, c.ID, login(username, password), nil); err != nil {
			r.Fatal(err)
		}
		if username != "-" {
			known = username
		}
		b.reveals(c.ID, known, password)
	})
	if err := b.ManagedCredentials.SetLogin(t.Context(), p, c.ID, login("recognisable", "unmistakable"), nil); err != nil {
		t.Fatal(err)
	}
	var row string
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT encode(sealed_username || sealed_password, 'escape') FROM credentials").Scan(&row); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(row, "recognisable") || strings.Contains(row, "unmistakable") {
		t.Errorf("in clear in the store: %s", row)
	}
}

// TestMovedLoginsDontOpen: who can write to the store can't pass one credential
// off as another, nor a password as a user name.
func TestMovedLoginsDontOpen(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]string{
		"another credential's": "UPDATE credentials SET sealed_password = (SELECT sealed_password FROM credentials WHERE label = 'switch') WHERE label = 'router'",
		"another account's":    "UPDATE credentials SET sealed_password = (SELECT sealed_password FROM credentials WHERE label = 'foreign') WHERE label = 'router'",
		"the password":         "UPDATE credentials SET sealed_username = sealed_password",
		"another account's key": `UPDATE account_keys SET sealed = (SELECT sealed FROM account_keys WHERE account_id <> c.account_id)
			FROM credentials c WHERE c.label = 'router' AND account_keys.account_id = c.account_id`,
		"the account": "UPDATE credentials SET account_id = (SELECT account_id FROM credentials WHERE label = 'foreign') WHERE label = 'router'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			owner := b.tenant("owner")
			c := b.credential(owner, "router")
			b.credential(owner, "switch")
			b.credential(b.tenant("other"), "foreign")
			if _, err := b.store.Pool().Exec(t.Context(), move); err != nil {
				t.Fatal(err)
			}
			got, err := b.ManagedCredentials.Reveal(t.Context(), c.ID, "alice", "a test")
			if err == nil || got != (store.Login{}) {
				t.Errorf("opened: %q, %q, %v", got.Username.Reveal(), got.Password.Reveal(), err)
			}
			if all, err := b.store.Reveals(t.Context()); err != nil || len(all) > 0 {
				t.Errorf("recorded what was not read: %v, %v", all, err)
			}
		})
	}
}

// TestOneDataKeyPerAccount: also when the first credentials are made at once.
func TestOneDataKeyPerAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("owner")
	made := make([]monitor.Credential, 8)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			var err error
			label := fmt.Sprintf("number %d", i)
			if made[i], err = b.ManagedCredentials.Create(context.Background(), p, label, login("u", label), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, c := range made {
		b.reveals(c.ID, "u", fmt.Sprintf("number %d", i))
	}
	var keys int
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT count(*) FROM account_keys").Scan(&keys); err != nil || keys != 1 {
		t.Errorf("%d keys, %v", keys, err)
	}
}

// TestReveal: who read what and for what is recorded, shown to the customer, and
// outlives the credential; without a record nothing is read.
func TestReveal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("owner")
	c := b.credential(p, "router")
	if c.LastDecrypted != nil {
		t.Errorf("read at %v before anybody did", c.LastDecrypted)
	}
	for _, bad := range [][2]string{{"", ""}, {"a\nb", strings.Repeat("x", 501)}} {
		if got, err := b.ManagedCredentials.Reveal(t.Context(), c.ID, bad[0], bad[1]); len(texts(err)) != 2 || got != (store.Login{}) {
			t.Errorf("by %q for %q: %v", bad[0], bad[1], err)
		}
	}
	if _, err := b.ManagedCredentials.Reveal(t.Context(), 999, "alice", "x"); kind(err) != fault.NotFound {
		t.Errorf("one that isn't there: %v", err)
	}
	b.now = b.now.Add(time.Hour)
	if _, err := b.ManagedCredentials.Reveal(t.Context(), c.ID, "alice", "the router is down"); err != nil {
		t.Fatal(err)
	}
	seen, err := b.ManagedCredentials.View(t.Context(), p, c.ID)
	if err != nil || seen.LastDecrypted == nil || !seen.LastDecrypted.Equal(b.now) {
		t.Errorf("last decrypted %v, %v", seen.LastDecrypted, err)
	}
	if err := b.ManagedCredentials.Delete(t.Context(), p, c.ID); err != nil {
		t.Fatal(err)
	}
	all, err := b.store.Reveals(t.Context())
	want := monitor.Reveal{Account: p.Account, Credential: c.ID, Label: "router", Staff: "alice", Purpose: "the router is down"}
	if err != nil || len(all) != 1 || !all[0].Created.Equal(b.now) {
		t.Fatalf("%v, %v", all, err)
	}
	all[0].Created = time.Time{}
	if diff := cmp.Diff(want, all[0]); diff != "" {
		t.Error(diff)
	}
	events, _, err := b.Events.List(t.Context(), p, store.ListQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, o := range slices.Backward(events) {
		actions = append(actions, string(o.Action)+" "+o.Label+" "+o.Message)
		if o.Entity != (operation.Entity{Type: operation.Credential, ID: int64(c.ID)}) {
			t.Errorf("%s is of %+v", o.Action, o.Entity)
		}
	}
	if diff := cmp.Diff([]string{
		"managed_credential_create router ", "managed_credential_reveal router Read by support staff: the router is down", "managed_credential_delete router ",
	}, actions); diff != "" {
		t.Error(diff)
	}
}

// TestNothingIsReadUnrecorded: when the record can't be written the secret isn't given out.
func TestNothingIsReadUnrecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.credential(b.tenant("owner"), "router")
	if _, err := b.store.Pool().Exec(t.Context(), "ALTER TABLE credential_reveals ADD CHECK (staff <> 'alice')"); err != nil {
		t.Fatal(err)
	}
	got, err := b.ManagedCredentials.Reveal(t.Context(), c.ID, "alice", "x")
	if err == nil || got != (store.Login{}) {
		t.Errorf("%q, %v", got.Password.Reveal(), err)
	}
	if strings.Contains(errors.Join(err, nil).Error(), "password of router") {
		t.Errorf("the error shows the password: %v", err)
	}
}

// TestDeletedCredentialsLeaveTheirServices, which are checked on as before.
func TestDeletedCredentialsLeaveTheirServices(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("owner")
	gone, stays := b.credential(p, "router"), b.credential(p, "switch")
	if _, err := b.store.Pool().Exec(t.Context(), `WITH made AS (
		INSERT INTO services (account_id, label, service_type, address, timeout, body, consultation_group, notes, region, check_interval, status, since, generation, created, updated)
		VALUES ($1, 'web', 'url', 'http://192.0.2.1', 5, '', '', '', '', 0, 'ok', now(), 7, now(), now()) RETURNING id)
		INSERT INTO service_credentials (service_id, credential_id, position) SELECT id, unnest($2::bigint[]), 0 FROM made`,
		p.Account, []monitor.CredentialID{gone.ID, stays.ID}); err != nil {
		t.Fatal(err)
	}
	if err := b.ManagedCredentials.Delete(t.Context(), p, gone.ID); err != nil {
		t.Fatal(err)
	}
	var left []int64
	var generation int
	if err := b.store.Pool().QueryRow(t.Context(), `SELECT array_agg(credential_id), max(generation)
		FROM service_credentials JOIN services ON id = service_id`).Scan(&left, &generation); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(left, []int64{int64(stays.ID)}) || generation != 7 {
		t.Errorf("left %v, generation %d", left, generation)
	}
}
