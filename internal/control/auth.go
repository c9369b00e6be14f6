package control

import (
	"context"
	"crypto/sha256"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/store"
)

// Auth tells who stands behind a token.
type Auth struct{ Deps }

// tokenLength is 32 random bytes in hexadecimal.
const tokenLength = 64

// Authenticate finds the principal of a token. The look-up is by hash, so its
// timing says nothing about how close a guess was. A revoked token is refused
// from the next request on.
func (a *Auth) Authenticate(ctx context.Context, token string) (account.Principal, error) {
	if len(token) != tokenLength {
		return account.Principal{}, fault.NewUnauthenticated()
	}
	hash := store.TokenHash(sha256.Sum256([]byte(token)))
	p, generation, known := a.principals.find(hash, a.Now())
	if known {
		return p, nil
	}
	p, err := a.Store.Principal(ctx, hash)
	if fault.IsKind(err, fault.NotFound) {
		return p, fault.NewUnauthenticated()
	}
	if err == nil {
		a.principals.remember(hash, p, generation)
	}
	return p, err
}
