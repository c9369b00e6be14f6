package control

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"steward/internal/fault"
)

// Argon2id as RFC 9106 §4 recommends it where memory is dear: 64 MiB, three
// passes, four lanes, a salt of 16 bytes, a tag of 32.
const (
	argonMemory = 64 << 10 // KiB
	argonPasses = 3
	argonLanes  = 4
	saltLength  = 16
	tagLength   = 32
	// argonAtOnce bounds the memory that log-ins take: 128 MiB.
	argonAtOnce = 2
)

// hasher hashes passwords, a few at a time.
type hasher chan struct{}

func newHasher() hasher { return make(hasher, argonAtOnce) }

func (h hasher) key(ctx context.Context, password string, salt []byte, passes, memory uint32, lanes uint8) ([]byte, error) {
	select {
	case h <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h }()
	return argon2.IDKey([]byte(password), salt, passes, memory, lanes, tagLength), nil
}

// hash writes a password as the PHC string format has it.
func (h hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltLength)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("make salt: %w", err)
	}
	key, err := h.key(ctx, password, salt, argonPasses, argonMemory, argonLanes)
	if err != nil {
		return "", err
	}
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonPasses, argonLanes, encode(salt), encode(key)), nil
}

// matches reports whether a password is the hash's. Without a hash it takes as
// long and says no: how long a log-in takes doesn't tell which users there are.
func (h hasher) matches(ctx context.Context, password, hash string) (bool, error) {
	if hash == "" {
		_, err := h.key(ctx, password, make([]byte, saltLength), argonPasses, argonMemory, argonLanes)
		return false, err
	}
	var version int
	var memory, passes uint32
	var lanes uint8
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, errors.New("a password's hash isn't one of argon2id")
	}
	if _, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &memory, &passes, &lanes); err != nil || version != argon2.Version {
		return false, errors.New("a password's hash has unknown parameters")
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, fmt.Errorf("read the salt of a password's hash: %w", err)
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		return false, fmt.Errorf("read a password's hash: %w", err)
	}
	got, err := h.key(ctx, password, salt, passes, memory, lanes)
	return err == nil && subtle.ConstantTimeCompare(got, want) == 1, err
}

// Bounds of a password: long enough that guesses at the allowed rate come to
// nothing, short enough that hashing one is not a burden.
const (
	leastPassword = 12
	mostPassword  = 128
)

// ValidatePassword wants 12..128 characters, and not the user's own name.
func ValidatePassword(username, password string) fault.Faults {
	if n := utf8.RuneCountInString(password); n < leastPassword || n > mostPassword || !utf8.ValidString(password) {
		return fault.Faults{fault.Length("password", leastPassword, mostPassword)}
	}
	if strings.EqualFold(strings.Trim(password, " "), username) {
		return fault.Faults{fault.NewInvalid("password", "Must not be the user's name")}
	}
	return nil
}
