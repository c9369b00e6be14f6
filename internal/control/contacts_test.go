package control_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

func (b *bench) contact(p account.Principal, name, group string) monitor.Contact {
	b.t.Helper()
	c, err := b.Contacts.Create(b.t.Context(), p, control.ContactChange{Name: &name, Email: new(name + "@example.org"), Group: &group}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// ofUnrestrictedUsers demands that calls about something of an account's, with empty input where they create, aren't for one of its restricted users, and
// that another account's user finds nothing.
func ofUnrestrictedUsers(t *testing.T, calls map[string]func(account.Principal) error, limited, stranger account.Principal) {
	t.Helper()
	for name, call := range calls {
		if err := call(limited); kind(err) != fault.Forbidden {
			t.Errorf("%s by a restricted user: %v", name, err)
		}
		want := map[string]fault.Kind{"list": 0, "create": fault.Invalid}[name]
		if want == 0 && name != "list" {
			want = fault.NotFound
		}
		if err := call(stranger); kind(err) != want {
			t.Errorf("%s by a stranger: %v", name, err)
		}
	}
}

// TestContactsAccess: contacts are the business of an account's unrestricted
// users, and nobody else finds them.
func TestContactsAccess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner, stranger := b.tenant("owner"), b.tenant("stranger")
	limited := b.restricted(owner.Account, "limited")
	made := b.contact(owner, "ann", "night")
	calls := map[string]func(p account.Principal) error{
		"list": func(p account.Principal) error {
			found, total, err := b.Contacts.List(t.Context(), p, store.ListQuery{})
			if err == nil && len(found)+total > 0 {
				t.Errorf("a stranger sees %v", found)
			}
			return err
		},
		"create": func(p account.Principal) error {
			_, err := b.Contacts.Create(t.Context(), p, control.ContactChange{}, nil)
			return err
		},
		"view": func(p account.Principal) error { _, err := b.Contacts.View(t.Context(), p, made.ID); return err },
		"update": func(p account.Principal) error {
			_, err := b.Contacts.Update(t.Context(), p, made.ID, control.ContactChange{Name: new("mine")}, nil)
			return err
		},
		"delete": func(p account.Principal) error { return b.Contacts.Delete(t.Context(), p, made.ID) },
	}
	ofUnrestrictedUsers(t, calls, limited, stranger)
	if got, err := b.Contacts.View(t.Context(), owner, made.ID); err != nil || cmp.Diff(made, got) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(made, got))
	}
}

func TestContactsOfGroup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner, stranger := b.tenant("owner"), b.tenant("stranger")
	b.contact(owner, "ann", "night")
	b.contact(owner, "bob", "")
	b.contact(owner, "cat", "night")
	b.contact(stranger, "eve", "night")
	for group, want := range map[string][]string{"": {"ann", "bob", "cat"}, "night": {"ann", "cat"}, "Night": nil, "day": nil} {
		inTx := func(tx *store.Tx) error {
			found, err := tx.ContactsOfGroup(t.Context(), owner.Account, group)
			var names []string
			for _, c := range found {
				names = append(names, c.Name)
			}
			if !slices.Equal(names, want) {
				t.Errorf("group %q: %v, want %v", group, names, want)
			}
			return err
		}
		if err := b.store.InTx(t.Context(), inTx); err != nil {
			t.Error(err)
		}
	}
}

// TestContactEvents: each change is told of, a refused one isn't.
func TestContactEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("owner")
	c := b.contact(p, "ann", "night")
	if _, err := b.Contacts.Update(t.Context(), p, c.ID, control.ContactChange{Email: new("nobody")}, nil); kind(err) != fault.Invalid {
		t.Errorf("%v", err)
	}
	if _, err := b.Contacts.Update(t.Context(), p, c.ID, control.ContactChange{Name: new("anne")}, nil); err != nil {
		t.Error(err)
	}
	if err := b.Contacts.Delete(t.Context(), p, c.ID); err != nil {
		t.Error(err)
	}
	all, _, err := b.Events.List(t.Context(), p, store.ListQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range slices.Backward(all) {
		got = append(got, string(o.Action)+" "+o.Label+" "+o.Username+" "+string(o.Status))
		if o.Entity != (operation.Entity{Type: operation.Contact, ID: int64(c.ID)}) {
			t.Errorf("%s is of %+v", o.Action, o.Entity)
		}
	}
	want := []string{"managed_contact_create ann owner finished", "managed_contact_update anne owner finished", "managed_contact_delete anne owner finished"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
