package control

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// LinkLifetime is how long a link is good with which a user sets a password.
const LinkLifetime = 24 * time.Hour

// LinkTo is where, in the console at an origin, a user sets a password with the secret of a link. It is behind the #:
// browsers send that to no server, and no proxy notes it.
func LinkTo(origin, secret string) string {
	return strings.TrimRight(origin, "/") + "/console/first#" + secret
}

// MakeLink returns the secret of a link with which the user sets a password, once.
// Earlier links of the user end.
func (s *Logins) MakeLink(ctx context.Context, u account.User) (string, error) {
	secret, err := newToken()
	if err != nil {
		return "", err
	}
	hash := store.TokenHash(sha256.Sum256([]byte(secret)))
	return secret, s.Store.InTx(ctx, func(tx *store.Tx) error { return tx.ReplaceLoginLink(ctx, hash, u.ID, s.Now().Add(LinkLifetime)) })
}

// HasPassword reports whether the user can log in.
func (s *Logins) HasPassword(ctx context.Context, u account.User) (bool, error) {
	hash, err := s.Store.Password(ctx, u.ID)
	return hash != "", err
}

// UseLink sets the password of the link's user, and ends the link. The link stays
// when the password won't do.
func (s *Logins) UseLink(ctx context.Context, secret, password, address string) (account.User, error) {
	if len(secret) != tokenLength {
		return account.User{}, fault.NewNotFound()
	}
	hash := store.TokenHash(sha256.Sum256([]byte(secret)))
	user, err := s.Store.LoginLink(ctx, hash)
	if err != nil {
		return user, err
	}
	if err := ValidatePassword(user.Username, password).Err(); err != nil {
		return user, err
	}
	hashed, err := s.hasher.hash(ctx, password)
	if err != nil {
		return user, err
	}
	return user, s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.UseLoginLink(ctx, hash); err != nil {
			return err
		}
		if err := tx.SetPassword(ctx, user.ID, hashed); err != nil {
			return err
		}
		if err := Happened(ctx, tx, user.Username, OfUser(operation.ProfileUpdate, user)); err != nil {
			return err
		}
		return tx.AddAudit(ctx, account.Audit{
			At: s.Now(), Account: user.Account, User: user.ID, Username: user.Username, Client: account.ConsoleClient,
			Address: address, Action: "POST /console/first", Path: "/console/first", Status: 200,
		})
	})
}
