package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// Tokens are the use cases of a user's own personal access tokens.
type Tokens struct{ Deps }

// prefixLength is how much of a token is shown after it was made.
const prefixLength = 16

// NewToken is what a token is made of.
type NewToken struct {
	Label  string
	Scopes string
	// Expiry is nil for a token that never expires.
	Expiry *time.Time
}

// Create makes a token for the caller and returns its text, the only time.
// It can't exceed the scopes of the token it is made with.
func (s *Tokens) Create(ctx context.Context, p account.Principal, in NewToken, faults fault.Faults) (account.Token, string, error) {
	return s.create(ctx, p, p.User.Username, in, faults)
}

// CreateFor makes a token of any scopes for a user, for the operator's command.
func (s *Tokens) CreateFor(ctx context.Context, u account.User, in NewToken) (string, error) {
	_, text, err := s.create(ctx, account.Principal{Account: u.Account, User: u, Scopes: account.FullScopes()}, "", in, nil)
	return text, err
}

func (s *Tokens) create(ctx context.Context, p account.Principal, by string, in NewToken, faults fault.Faults) (account.Token, string, error) {
	scopes, err := account.ParseScopes(in.Scopes)
	found := append(faultsIn(err), validateTokenLabel(in.Label)...)
	if err == nil && !p.Scopes.Include(scopes) {
		found.Add("scopes", "Must not exceed the scopes of the token that makes it: %s", p.Scopes)
	}
	expiry, late := s.expiry(p, in.Expiry)
	found = append(found, late...)
	if err := combine(faults, found).Err(); err != nil {
		return account.Token{}, "", err
	}
	text, err := newToken()
	if err != nil {
		return account.Token{}, "", err
	}
	token := TokenOf(p.User.ID, in.Label, text, scopes, expiry)
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if token, err = tx.CreateToken(ctx, token, sha256.Sum256([]byte(text))); err != nil {
			return err
		}
		return Happened(ctx, tx, by, ofToken(operation.TokenCreate, p.User, token))
	})
	return token, text, err
}

// expiry of a token is in the future and not after that of the token that makes
// it: one that was lent for a day can't make itself last.
func (s *Tokens) expiry(p account.Principal, asked *time.Time) (*time.Time, fault.Faults) {
	switch {
	case asked == nil:
		return p.LentUntil(), nil
	case !asked.After(s.Now()):
		return nil, fault.Faults{fault.NewInvalid("expiry", "Must be in the future")}
	case p.LentUntil() != nil && asked.After(*p.LentUntil()):
		return nil, fault.Faults{fault.NewInvalid("expiry", "Must not be after the expiry of the token that makes it")}
	}
	return asked, nil
}

// TokenOf is the record of a token's text.
func TokenOf(user account.UserID, label, text string, scopes account.Scopes, expiry *time.Time) account.Token {
	return account.Token{User: user, Label: label, Prefix: text[:prefixLength], Scopes: scopes, Expiry: expiry}
}

func newToken() (string, error) {
	raw := make([]byte, tokenLength/2)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

func validateTokenLabel(label string) fault.Faults {
	if n := utf8.RuneCountInString(label); n < 1 || n > 100 {
		return fault.Faults{fault.Length("label", 1, 100)}
	}
	if strings.ContainsFunc(label, unicode.IsControl) {
		return fault.Faults{fault.NewInvalid("label", "Must not contain control characters")}
	}
	return nil
}

// List is a page of the caller's tokens.
func (s *Tokens) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]account.Token, int, error) {
	return s.Store.Tokens(ctx, p.User.ID, q)
}

// View is one of the caller's tokens.
func (s *Tokens) View(ctx context.Context, p account.Principal, id account.TokenID) (account.Token, error) {
	return s.Store.Token(ctx, p.User.ID, id)
}

// Relabel changes what a token of the caller's says it is for; nil leaves it.
func (s *Tokens) Relabel(ctx context.Context, p account.Principal, id account.TokenID, label *string, faults fault.Faults) (account.Token, error) {
	token, err := s.View(ctx, p, id)
	if err != nil {
		return account.Token{}, err
	}
	var found fault.Faults
	if label != nil {
		found = validateTokenLabel(*label)
	}
	if err := combine(faults, found).Err(); err != nil {
		return account.Token{}, err
	}
	if label == nil {
		return token, nil
	}
	token.Label = *label
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.RelabelToken(ctx, p.User.ID, id, *label); err != nil {
			return err
		}
		return Happened(ctx, tx, p.User.Username, ofToken(operation.TokenUpdate, p.User, token))
	})
	return token, err
}

// Delete revokes a token of the caller's.
func (s *Tokens) Delete(ctx context.Context, p account.Principal, id account.TokenID) error {
	defer s.principals.forget()
	token, err := s.View(ctx, p, id)
	if err != nil {
		return err
	}
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.DeleteToken(ctx, p.User.ID, id); err != nil {
			return err
		}
		return Happened(ctx, tx, p.User.Username, ofToken(operation.TokenDelete, p.User, token))
	})
}
