package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/ory/fosite"

	"steward/internal/account"
	"steward/internal/store"
)

// strategy makes codes and tokens as the API makes them: 32 random bytes in
// hexadecimal, known by their SHA-256. Nothing needs a key that servers would have
// to share. Whether one is still good is the storage's to say: it answers live
// ones only.
type strategy struct{}

func generate() (token, signature string, err error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", "", err
	}
	token = hex.EncodeToString(raw)
	return token, sign(token), nil
}

func sign(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// hashOf is what the store keeps of what a signature is of.
func hashOf(signature string) (hash store.TokenHash, err error) {
	raw, err := hex.DecodeString(signature)
	if err != nil || len(raw) != len(hash) {
		return hash, errors.New("a signature that isn't the strategy's")
	}
	return store.TokenHash(raw), nil
}

// AccessTokenSignature is part of oauth2.AccessTokenStrategy; the other methods
// are of that, of oauth2.RefreshTokenStrategy and oauth2.AuthorizeCodeStrategy.
func (strategy) AccessTokenSignature(_ context.Context, token string) string { return sign(token) }

// GenerateAccessToken makes an access token.
func (strategy) GenerateAccessToken(context.Context, fosite.Requester) (token, signature string, err error) {
	return generate()
}

// ValidateAccessToken has nothing to add to the storage.
func (strategy) ValidateAccessToken(context.Context, fosite.Requester, string) error { return nil }

// RefreshTokenSignature is a refresh token's hash.
func (strategy) RefreshTokenSignature(_ context.Context, token string) string { return sign(token) }

// GenerateRefreshToken makes a refresh token.
func (strategy) GenerateRefreshToken(context.Context, fosite.Requester) (token, signature string, err error) {
	return generate()
}

// ValidateRefreshToken has nothing to add to the storage.
func (strategy) ValidateRefreshToken(context.Context, fosite.Requester, string) error { return nil }

// AuthorizeCodeSignature is a code's hash.
func (strategy) AuthorizeCodeSignature(_ context.Context, code string) string { return sign(code) }

// GenerateAuthorizeCode makes a code.
func (strategy) GenerateAuthorizeCode(context.Context, fosite.Requester) (code, signature string, err error) {
	return generate()
}

// ValidateAuthorizeCode has nothing to add to the storage.
func (strategy) ValidateAuthorizeCode(context.Context, fosite.Requester, string) error { return nil }

// secrets hashes client secrets. They are as random as tokens: SHA-256 does.
type secrets struct{}

// Hash implements fosite.Hasher.
func (secrets) Hash(_ context.Context, secret []byte) ([]byte, error) {
	sum := sha256.Sum256(secret)
	return sum[:], nil
}

// Compare implements fosite.Hasher.
func (secrets) Compare(_ context.Context, hash, secret []byte) error {
	sum := sha256.Sum256(secret)
	if len(hash) == 0 || subtle.ConstantTimeCompare(sum[:], hash) != 1 {
		return errors.New("wrong client secret")
	}
	return nil
}

// covers reports whether a client's scopes reach as far as one that it asks for.
func covers(held []string, wanted string) bool {
	mine, err := account.ParseScopes(strings.Join(held, " "))
	if err != nil {
		return false
	}
	asked, err := account.ParseScopes(wanted)
	return err == nil && mine.Include(asked)
}
