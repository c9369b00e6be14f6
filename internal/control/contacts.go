package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/store"
)

// Contacts are the use cases of whom an account wants told of issues. All of
// them are for unrestricted users.
type Contacts struct{ Deps }

// ContactChange is what a contact is made of or changed to; nil fields stay,
// and "" takes group and numbers away.
type ContactChange struct {
	Name, Email        *string
	Group              *string
	Primary, Secondary *string
}

func (in ContactChange) apply(c monitor.Contact) monitor.Contact {
	c.Name, c.Email, c.Group = changed(in.Name, c.Name), changed(in.Email, c.Email), changed(in.Group, c.Group)
	c.Phone = monitor.Phone{Primary: changed(in.Primary, c.Phone.Primary), Secondary: changed(in.Secondary, c.Phone.Secondary)}
	return c
}

func contactEntity(c monitor.Contact) operation.Entity {
	return operation.Entity{Type: operation.Contact, ID: int64(c.ID)}
}

// List is a page of the account's contacts.
func (s *Contacts) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]monitor.Contact, int, error) {
	return unrestrictedPage(ctx, p, q, s.Store.Contacts)
}

// View is one contact.
func (s *Contacts) View(ctx context.Context, p account.Principal, id monitor.ContactID) (monitor.Contact, error) {
	return unrestrictedOne(ctx, p, id, s.Store.Contact)
}

// Create adds a contact, and tells it of what goes on.
func (s *Contacts) Create(ctx context.Context, p account.Principal, in ContactChange, faults fault.Faults) (monitor.Contact, error) {
	if err := unrestricted(p); err != nil {
		return monitor.Contact{}, err
	}
	c := in.apply(monitor.Contact{Account: p.Account})
	if err := combine(faults, c.Validate()).Err(); err != nil {
		return monitor.Contact{}, err
	}
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if c, err = tx.CreateContact(ctx, c); err != nil {
			return err
		}
		if err := s.Issues.TellNewcomers(ctx, tx, c.Account); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.ContactCreate, contactEntity(c), c.Name)
	})
	return c, err
}

// Update changes a contact.
func (s *Contacts) Update(ctx context.Context, p account.Principal, id monitor.ContactID, in ContactChange, faults fault.Faults) (monitor.Contact, error) {
	if err := unrestricted(p); err != nil {
		return monitor.Contact{}, err
	}
	var c monitor.Contact
	err := s.Store.InTx(ctx, func(tx *store.Tx) error {
		before, err := tx.LockContact(ctx, p.Account, id)
		if err != nil {
			return err
		}
		c = in.apply(before)
		if err := combine(faults, c.Validate()).Err(); err != nil {
			return err
		}
		if c, err = tx.UpdateContact(ctx, c); err != nil {
			return err
		}
		if before.Email != c.Email || before.Group != c.Group {
			if err := s.Issues.TellNewcomers(ctx, tx, c.Account); err != nil {
				return err
			}
		}
		return s.tell(ctx, tx, p, operation.ContactUpdate, contactEntity(c), c.Name)
	})
	return c, err
}

// Delete removes a contact: it is told of nothing any more.
func (s *Contacts) Delete(ctx context.Context, p account.Principal, id monitor.ContactID) error {
	return unrestrictedDelete(ctx, s.Deps, p, id, operation.ContactDelete, (*store.Tx).LockContact, (*store.Tx).DeleteContact, func(c monitor.Contact) (operation.Entity, string) {
		return contactEntity(c), c.Name
	})
}
