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
// from the next request on. Those of a suspended account are refused as long as it
// is; those of an account that is being deleted are gone.
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
	switch {
	case fault.IsKind(err, fault.NotFound), err == nil && p.Status == account.Deleting:
		return account.Principal{}, fault.NewUnauthenticated()
	case err == nil && p.Status == account.Suspended:
		return account.Principal{}, fault.NewSuspended()
	case err == nil:
		a.principals.remember(hash, p, generation, a.Now())
	}
	return p, err
}
