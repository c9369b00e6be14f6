package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// How long a session lasts: without use, at most, and after the password before it is
// asked for again.
const (
	Idle      = 12 * time.Hour
	Lifetime  = 30 * 24 * time.Hour
	Confirmed = 15 * time.Minute
)

// Session is a browser that is logged in. What it holds is sealed with a key that only
// its cookie leads to: the store alone opens nothing.
type Session struct {
	// Hash is the cookie's SHA-256.
	Hash    [32]byte
	Sealed  []byte
	Version int64
	Used    time.Time
	// Confirmed is when the password was last given.
	Confirmed time.Time
}

// Sessions keeps sessions. None of its methods needs to know what is sealed, but Open:
// whose the session is.
type Sessions interface {
	// Open adds a session of the access token's user.
	Open(ctx context.Context, s Session, access string) error
	// Find is ErrNoSession for one that isn't there, was used before idle or made before oldest.
	Find(ctx context.Context, hash [32]byte, idle, oldest time.Time) (Session, error)
	// Use notes that a session is in use.
	Use(ctx context.Context, hash [32]byte) error
	// Confirm notes that the password was given.
	Confirm(ctx context.Context, hash [32]byte) error
	// Claim reports whether the caller is to renew this version, which nobody is at who
	// claimed it after stale.
	Claim(ctx context.Context, hash [32]byte, version int64, stale time.Time) (bool, error)
	// Release gives up a claim.
	Release(ctx context.Context, hash [32]byte, version int64) error
	// Renew replaces what a version holds.
	Renew(ctx context.Context, hash [32]byte, version int64, sealed []byte) error
	// End removes a session, if it is there.
	End(ctx context.Context, hash [32]byte) error
}

// ErrNoSession is a session that isn't there.
var ErrNoSession = errors.New("no session")

// What Sessions and Users return while what they are kept in doesn't answer: ErrAway when nothing has been done, ErrInDoubt when that isn't known.
var (
	ErrAway    = errors.New("the server's store doesn't answer")
	ErrInDoubt = errors.New("the server's store hasn't said whether it wrote")
)

// tokens are what a session holds.
type tokens struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh"`
	Expiry  time.Time `json:"expiry"`
}

// live is a session with the key that opens it and what is in it.
type live struct {
	Session
	key    []byte
	tokens tokens
}

// newSecret is the text of a cookie.
func newSecret() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails, by its documentation
	return hex.EncodeToString(raw)
}

// keyOf is the key that a cookie leads to, and the hash that the store knows it by.
func keyOf(secret string) (key []byte, hash [32]byte, err error) {
	raw, err := hex.DecodeString(secret)
	if err != nil || len(raw) != 32 {
		return nil, hash, ErrNoSession
	}
	key, err = hkdf.Key(sha256.New, raw, nil, "steward console session", 32)
	return key, sha256.Sum256(raw), err
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal binds what is sealed to its session.
func seal(key []byte, hash [32]byte, t tokens) ([]byte, error) {
	aead, err := gcm(key)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, text, hash[:]), nil
}

func unseal(key []byte, s Session) (t tokens, err error) {
	aead, err := gcm(key)
	if err != nil {
		return t, err
	}
	text, err := aead.Open(nil, nil, s.Sealed, s.Hash[:])
	if err != nil {
		return t, fmt.Errorf("open a session: %w", err)
	}
	return t, json.Unmarshal(text, &t)
}

// cookieName has a prefix that binds a cookie to TLS and to this host, where there is TLS.
func (c *Console) cookieName(name string) string {
	if c.secure() {
		return "__Host-" + name
	}
	return name
}

const (
	sessionCookie = "steward"
	loginCookie   = "steward-login"
)

func (c *Console) setCookie(w http.ResponseWriter, name, value string, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: c.cookieName(name), Value: value, Path: "/", HttpOnly: true, Secure: c.secure(), SameSite: http.SameSiteLaxMode, MaxAge: int(lifetime.Seconds()),
	})
}

func (c *Console) dropCookie(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{Name: c.cookieName(name), Path: "/", HttpOnly: true, Secure: c.secure(), SameSite: http.SameSiteLaxMode, MaxAge: -1})
}

// session is that of the request's cookie; ErrNoSession without.
func (c *Console) session(r *http.Request) (live, error) {
	cookie, err := r.Cookie(c.cookieName(sessionCookie))
	if err != nil {
		return live{}, ErrNoSession
	}
	key, hash, err := keyOf(cookie.Value)
	if err != nil {
		return live{}, err
	}
	return c.find(r.Context(), key, hash)
}

func (c *Console) find(ctx context.Context, key []byte, hash [32]byte) (live, error) {
	now := c.Now()
	s, err := c.Sessions.Find(ctx, hash, now.Add(-Idle), now.Add(-Lifetime))
	if err != nil {
		return live{}, err
	}
	t, err := unseal(key, s)
	return live{s, key, t}, err
}

// Times of renewing tokens.
const (
	// early is how long before its end a token is renewed.
	early = 30 * time.Second
	// renewing is how long one may take to renew; then another may try.
	renewing = 20 * time.Second
	// lookEvery is how often who waits for another looks whether it is done.
	lookEvery = 50 * time.Millisecond
)

// renewed is the session with an access token that isn't spoiled and hasn't ended. Of
// all that find the token spoiled, on whichever server, one renews it, since a refresh
// token that is used twice ends everything; the others wait.
func (c *Console) renewed(ctx context.Context, s live, spoiled string) (live, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*renewing)
	defer cancel()
	for s.tokens.Access == spoiled || !c.Now().Add(early).Before(s.tokens.Expiry) {
		mine, err := c.Sessions.Claim(ctx, s.Hash, s.Version, c.Now().Add(-renewing))
		if err != nil {
			return s, err
		}
		if mine {
			return c.renew(ctx, s)
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(lookEvery):
		}
		if s, err = c.find(ctx, s.key, s.Hash); err != nil {
			return s, err
		}
	}
	return s, nil
}

// renew exchanges the refresh token. Once begun it goes on without the browser: the old
// token is used up then, and the new one must be kept.
func (c *Console) renew(ctx context.Context, s live) (live, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewing)
	defer cancel()
	t, err := c.exchange(ctx, nil, map[string]string{"grant_type": "refresh_token", "refresh_token": s.tokens.Refresh})
	var refused *Refusal
	if errors.As(err, &refused) {
		return s, errors.Join(ErrNoSession, c.Sessions.End(ctx, s.Hash)) // it was taken back
	}
	if err != nil {
		return s, errors.Join(err, c.Sessions.Release(ctx, s.Hash, s.Version))
	}
	sealed, err := seal(s.key, s.Hash, t)
	if err != nil {
		return s, err
	}
	if err := c.Sessions.Renew(ctx, s.Hash, s.Version, sealed); err != nil {
		return s, err
	}
	s.tokens, s.Version = t, s.Version+1
	return s, nil
}
