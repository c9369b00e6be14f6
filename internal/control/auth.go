package control

import (
	"context"
	"crypto/sha256"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/store"
)

// Auth tells who stands behind a token.
type Auth struct{ store *store.Store }

// tokenLength is 32 random bytes in hexadecimal.
const tokenLength = 64

// Authenticate finds the principal of a token. The look-up is by hash, so its
// timing says nothing about how close a guess was. A revoked token is refused
// from the next request on: nothing is cached.
func (a *Auth) Authenticate(ctx context.Context, token string) (account.Principal, error) {
	if len(token) != tokenLength {
		return account.Principal{}, fault.NewUnauthenticated()
	}
	p, err := a.store.Principal(ctx, sha256.Sum256([]byte(token)))
	if fault.IsKind(err, fault.NotFound) {
		return p, fault.NewUnauthenticated()
	}
	return p, err
}
