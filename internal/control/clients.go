package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// Clients are the use cases of OAuth clients: applications that act for users.
// Unrestricted users see those of the account, restricted ones their own.
type Clients struct{ Deps }

// clientIDLength is in bytes; written in hexadecimal.
const clientIDLength = 10

// ClientChange is what a client is made of or changed to; nil fields stay.
type ClientChange struct {
	Label       *string
	RedirectURI *string
	// Public can be said when a client is made only.
	Public bool
}

func (in ClientChange) apply(c account.Client) (account.Client, fault.Faults) {
	var faults fault.Faults
	if in.Label != nil {
		faults = append(faults, validateTokenLabel(*in.Label)...)
		c.Label = *in.Label
	}
	if in.RedirectURI != nil {
		faults = append(faults, account.ValidateRedirectURI(*in.RedirectURI)...)
		c.RedirectURI = *in.RedirectURI
	}
	return c, faults
}

// Create registers a client of the caller's and returns its secret, the only
// time; "" for a public one. By its own credentials it can do nothing that the
// token it was registered with couldn't.
func (s *Clients) Create(ctx context.Context, p account.Principal, in ClientChange, faults fault.Faults) (account.Client, string, error) {
	var missing fault.Faults
	if in.Label == nil {
		missing = append(missing, fault.Required("label"))
	}
	if in.RedirectURI == nil {
		missing = append(missing, fault.Required("redirect_uri"))
	}
	c, found := in.apply(account.Client{Account: p.Account, Owner: p.User.ID, Public: in.Public, OwnScopes: p.Scopes, OwnExpiry: p.LentUntil()})
	if err := combine(faults, append(missing, found...)).Err(); err != nil {
		return account.Client{}, "", err
	}
	raw := make([]byte, clientIDLength)
	if _, err := rand.Read(raw); err != nil {
		return account.Client{}, "", fmt.Errorf("make client id: %w", err)
	}
	c.ID = account.ClientID(hex.EncodeToString(raw))
	text, hash, err := newClientSecret(c)
	if err != nil {
		return account.Client{}, "", err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if c, err = tx.CreateClient(ctx, c, hash); err != nil {
			return err
		}
		return Happened(ctx, tx, p.User.Username, ofClient(operation.ClientCreate, c))
	})
	return c, text, err
}

// newClientSecret is a secret and its hash; both empty for a public client.
func newClientSecret(c account.Client) (text string, hash []byte, err error) {
	if c.Public {
		return "", []byte{}, nil
	}
	text, err = newToken()
	sum := sha256.Sum256([]byte(text))
	return text, sum[:], err
}

// owner is 0 for callers that see all clients of their account.
func owner(p account.Principal) account.UserID {
	if p.User.Restricted {
		return p.User.ID
	}
	return 0
}

// List is a page of the clients that the caller sees.
func (s *Clients) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]account.Client, int, error) {
	return s.Store.Clients(ctx, p.Account, owner(p), q)
}

// View is one of them.
func (s *Clients) View(ctx context.Context, p account.Principal, id account.ClientID) (account.Client, error) {
	if len(id) != 2*clientIDLength {
		return account.Client{}, fault.NewNotFound()
	}
	return s.Store.Client(ctx, p.Account, owner(p), id)
}

// Update changes label or redirect URI.
func (s *Clients) Update(ctx context.Context, p account.Principal, id account.ClientID, in ClientChange, faults fault.Faults) (account.Client, error) {
	before, err := s.View(ctx, p, id)
	if err != nil {
		return account.Client{}, err
	}
	c, found := in.apply(before)
	if err := combine(faults, found).Err(); err != nil {
		return account.Client{}, err
	}
	return c, s.tell(ctx, p, operation.ClientUpdate, c, func(tx *store.Tx) error { return tx.UpdateClient(ctx, c) })
}

// ResetSecret gives a client of the caller's own another secret and returns it,
// the only time. Who learns it can do what the client can by itself, in the name
// of its owner: that takes the owner, and a token that can do as much.
func (s *Clients) ResetSecret(ctx context.Context, p account.Principal, id account.ClientID) (account.Client, string, error) {
	c, err := s.View(ctx, p, id)
	if err != nil {
		return account.Client{}, "", err
	}
	if c.Owner != p.User.ID {
		return account.Client{}, "", fault.NewForbidden()
	}
	if c.Public {
		return account.Client{}, "", fault.NewPrecondition("A public client has no secret to reset.")
	}
	if !p.Scopes.Include(c.OwnScopes) || p.LentUntil() != nil && (c.OwnExpiry == nil || c.OwnExpiry.After(*p.LentUntil())) {
		return account.Client{}, "", fault.NewScopeTooSmall()
	}
	text, hash, err := newClientSecret(c)
	if err != nil {
		return account.Client{}, "", err
	}
	return c, text, s.tell(ctx, p, operation.ClientSecretReset, c, func(tx *store.Tx) error { return tx.SetClientSecret(ctx, c.ID, hash) })
}

// Delete removes a client; its tokens are refused from the next request on.
func (s *Clients) Delete(ctx context.Context, p account.Principal, id account.ClientID) error {
	c, err := s.View(ctx, p, id)
	if err != nil {
		return err
	}
	defer s.principals.forget()
	return s.tell(ctx, p, operation.ClientDelete, c, func(tx *store.Tx) error { return tx.DeleteClient(ctx, c.ID) })
}

// tell changes a client and records that.
func (s *Clients) tell(ctx context.Context, p account.Principal, action operation.Action, c account.Client, do func(tx *store.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return Happened(ctx, tx, p.User.Username, ofClient(action, c))
	})
}
