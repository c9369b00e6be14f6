package control

import (
	"context"
	"slices"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/seal"
	"steward/internal/store"
)

// ManagedCredentials are the use cases of the user names and passwords that an account
// gives into our care. All of them are for unrestricted users, and none shows
// what is sealed, but Reveal, which is the operator's.
type ManagedCredentials struct{ Deps }

// LoginChange is what a credential is to hold. A nil user name stays as it is;
// a nil password is a fault.
type LoginChange struct{ Username, Password *seal.Secret }

func (in LoginChange) validate() fault.Faults {
	clear := func(s *seal.Secret) *string {
		if s == nil {
			return nil
		}
		return new(s.Reveal())
	}
	return monitor.ValidateLogin(clear(in.Username), clear(in.Password))
}

func credentialEntity(c monitor.Credential) operation.Entity {
	return operation.Entity{Type: operation.Credential, ID: int64(c.ID)}
}

// List is a page of the account's credentials.
func (s *ManagedCredentials) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]monitor.Credential, int, error) {
	return unrestrictedPage(ctx, p, q, s.Store.Credentials)
}

// View is one credential.
func (s *ManagedCredentials) View(ctx context.Context, p account.Principal, id monitor.CredentialID) (monitor.Credential, error) {
	return unrestrictedOne(ctx, p, id, s.Store.Credential)
}

// Create seals a user name and a password.
func (s *ManagedCredentials) Create(ctx context.Context, p account.Principal, label string, in LoginChange, faults fault.Faults) (monitor.Credential, error) {
	if err := unrestricted(p); err != nil {
		return monitor.Credential{}, err
	}
	c := monitor.Credential{Account: p.Account, Label: label}
	found := combine(faults, append(c.Validate(), in.validate()...))
	found, err := s.withLabelTaken(ctx, c, found)
	if err != nil {
		return c, err
	}
	if err := found.Err(); err != nil {
		return c, err
	}
	key, err := s.Store.DataKey(ctx, p.Account)
	if err != nil {
		return c, err
	}
	login := store.Login{Username: changed(in.Username, seal.Secret{}), Password: *in.Password}
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if c, err = tx.CreateCredential(ctx, c, key, login); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.CredentialCreate, credentialEntity(c), c.Label)
	})
	return c, err
}

// withLabelTaken adds to a request's faults that its label is taken.
func (s *ManagedCredentials) withLabelTaken(ctx context.Context, c monitor.Credential, faults fault.Faults) (fault.Faults, error) {
	if slices.ContainsFunc(faults, func(f *fault.Fault) bool { return f.Field == "label" }) {
		return faults, nil
	}
	taken, err := s.Store.CredentialLabelTaken(ctx, c.Account, c.Label, c.ID)
	if taken {
		faults = append(faults, monitor.CredentialLabelTaken())
	}
	return faults, err
}

// Relabel changes what a credential is called; nil leaves it.
func (s *ManagedCredentials) Relabel(ctx context.Context, p account.Principal, id monitor.CredentialID, label *string, faults fault.Faults) (monitor.Credential, error) {
	if err := unrestricted(p); err != nil {
		return monitor.Credential{}, err
	}
	var c monitor.Credential
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if c, err = tx.LockCredential(ctx, p.Account, id); err != nil {
			return err
		}
		c.Label = changed(label, c.Label)
		if err := combine(faults, c.Validate()).Err(); err != nil {
			return err
		}
		if c, err = tx.RelabelCredential(ctx, c); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.CredentialUpdate, credentialEntity(c), c.Label)
	})
	return c, err
}

// SetLogin seals a new password, and a new user name if there is one.
func (s *ManagedCredentials) SetLogin(ctx context.Context, p account.Principal, id monitor.CredentialID, in LoginChange, faults fault.Faults) error {
	if _, err := s.View(ctx, p, id); err != nil {
		return err
	}
	if err := combine(faults, in.validate()).Err(); err != nil {
		return err
	}
	key, err := s.Store.DataKey(ctx, p.Account)
	if err != nil {
		return err
	}
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		c, err := tx.LockCredential(ctx, p.Account, id)
		if err != nil {
			return err
		}
		if err := tx.SetLogin(ctx, c, key, in.Username, *in.Password); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.CredentialUpdate, credentialEntity(c), c.Label)
	})
}

// Delete removes a credential for good, also from the services that name it.
// Their checks don't use it, and go on as they are.
func (s *ManagedCredentials) Delete(ctx context.Context, p account.Principal, id monitor.CredentialID) error {
	return unrestrictedDelete(ctx, s.Deps, p, id, operation.CredentialDelete, (*store.Tx).LockCredential, (*store.Tx).DeleteCredential, func(c monitor.Credential) (operation.Entity, string) {
		return credentialEntity(c), c.Label
	})
}

// Reveal reads a credential of any account for the operator's staff. Who read it
// and what for is recorded, and told to the customer, before it is returned.
func (s *ManagedCredentials) Reveal(ctx context.Context, id monitor.CredentialID, staff, purpose string) (store.Login, error) {
	r := monitor.Reveal{Credential: id, Staff: staff, Purpose: purpose}
	if err := r.Validate().Err(); err != nil {
		return store.Login{}, err
	}
	c, err := s.Store.CredentialForWork(ctx, id)
	if err != nil {
		return store.Login{}, err
	}
	key, err := s.Store.DataKey(ctx, c.Account)
	if err != nil {
		return store.Login{}, err
	}
	var login store.Login
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if c, err = tx.LockCredential(ctx, c.Account, id); err != nil {
			return err
		}
		r.Account, r.Label = c.Account, c.Label
		if login, err = tx.RevealCredential(ctx, r, key); err != nil {
			return err
		}
		_, err = tx.CreateOperation(ctx, operation.Operation{
			Account: c.Account, Entity: credentialEntity(c), Label: c.Label, Action: operation.CredentialReveal,
			Status: operation.Notification, Message: "Read by support staff: " + purpose,
		})
		return err
	})
	if err != nil {
		return store.Login{}, err // not even what was read, when it wasn't recorded
	}
	return login, nil
}
