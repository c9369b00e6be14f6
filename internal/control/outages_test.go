package control_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/monitor"
	"steward/internal/store"
)

// failing makes a service of a group and has it found down.
func (b *bench) failing(p account.Principal, label, group string) monitor.Service {
	b.t.Helper()
	in := watching("https://"+label+".example/", 0)
	in.Label, in.Group = &label, &group
	s, err := b.Services.Create(b.t.Context(), p, in, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	found := monitor.Result{Started: b.now, Class: monitor.Refused, Detail: "The connection was refused."}
	err = b.store.InTx(b.t.Context(), func(tx *store.Tx) error {
		if _, err := tx.ServiceJudged(b.t.Context(), s.ID, s.Generation, monitor.Down, found.Started, found.Detail); err != nil {
			return err
		}
		return b.Services.Issues.Begin(b.t.Context(), tx, s, found)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// mails are the subjects of all that a contact is sent, oldest first.
func (b *bench) mails(to string) (subjects []string) {
	b.t.Helper()
	notices, err := b.store.Notices(b.t.Context(), store.NoticeQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Reverse(notices)
	for _, n := range notices {
		if n.Recipient == to+"@example.org" {
			subjects = append(subjects, n.Letter().Subject)
		}
	}
	return subjects
}

func (b *bench) expectMails(to string, want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.mails(to)); diff != "" {
		b.t.Errorf("mails to %s (-want +got):\n%s", to, diff)
	}
}

// TestDisablingAFailingServiceIsNoRecovery: nor is deleting it. Its issue closes, and
// nobody is told that it is well.
func TestDisablingAFailingServiceIsNoRecovery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Services.Networks = &monitor.Networks{}
	owner := b.tenant("owner")
	b.contact(owner, "ann", "web")
	shop, mail := b.failing(owner, "shop", "web"), b.failing(owner, "mail", "web")
	if _, err := b.Services.Disable(t.Context(), owner, shop.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.Services.Delete(t.Context(), owner, mail.ID); err != nil {
		t.Fatal(err)
	}
	b.expectMails("ann", "Problem: shop: The connection was refused.", "Problem: mail: The connection was refused.", "No longer watched: shop", "No longer watched: mail")
	issues, _, err := b.Issues.List(t.Context(), owner, store.ListQuery{})
	if err != nil || len(issues) != 2 || issues[0].Closed == nil || issues[1].Closed == nil {
		t.Errorf("%+v, %v", issues, err)
	}
}

// TestContactsOfAFailingServiceAreTold: those that a group gets, and those of the
// group that a service gets, while it fails.
func TestContactsOfAFailingServiceAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Services.Networks = &monitor.Networks{}
	owner := b.tenant("owner")
	const down = "Problem: shop: The connection was refused."
	b.contact(owner, "ann", "web")
	shop := b.failing(owner, "shop", "web")
	b.contact(owner, "bob", "web")
	cid := b.contact(owner, "cid", "")
	b.contact(owner, "dan", "mail")
	b.expectMails("ann", down)
	b.expectMails("bob", down)
	b.expectMails("cid")
	if _, err := b.Contacts.Update(t.Context(), owner, cid.ID, control.ContactChange{Group: new("web")}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Services.Update(t.Context(), owner, shop.ID, control.ServiceChange{Group: new("mail")}, nil); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"ann", "bob", "cid", "dan"} {
		b.expectMails(who, down)
	}
}
