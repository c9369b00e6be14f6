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

// PasswordCost is what hashing a password by Argon2id takes. It is written into each
// hash, so that hashes of another cost go on being understood.
type PasswordCost struct {
	// MemoryKiB is the memory of one hash, gone over Passes times by Lanes threads.
	MemoryKiB, Passes uint32
	Lanes             uint8
}

// defaultPasswordCost is what RFC 9106 §4 recommends where memory is dear.
var defaultPasswordCost = PasswordCost{MemoryKiB: 64 << 10, Passes: 3, Lanes: 4}

// A salt and a tag have the lengths that RFC 9106 §4 recommends, in bytes.
const (
	saltLength = 16
	tagLength  = 32
)

// hashesAtOnce bounds the memory that log-ins take: 128 MiB.
const hashesAtOnce = 2

// hasher hashes passwords, a few at a time.
type hasher struct {
	cost  PasswordCost
	slots chan struct{}
}

func newHasher(cost PasswordCost) hasher {
	if cost == (PasswordCost{}) {
		cost = defaultPasswordCost
	}
	return hasher{cost, make(chan struct{}, hashesAtOnce)}
}

func (h hasher) key(ctx context.Context, password string, salt []byte, cost PasswordCost) ([]byte, error) {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.slots }()
	return argon2.IDKey([]byte(password), salt, cost.Passes, cost.MemoryKiB, cost.Lanes, tagLength), nil
}

// hash writes a password as the PHC string format has it.
func (h hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltLength)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("make salt: %w", err)
	}
	key, err := h.key(ctx, password, salt, h.cost)
	if err != nil {
		return "", err
	}
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.cost.MemoryKiB, h.cost.Passes, h.cost.Lanes, encode(salt), encode(key)), nil
}

// matches reports whether a password is the hash's. Without a hash it takes as
// long and says no: how long a log-in takes doesn't tell which users there are.
func (h hasher) matches(ctx context.Context, password, hash string) (bool, error) {
	if hash == "" {
		_, err := h.key(ctx, password, make([]byte, saltLength), h.cost)
		return false, err
	}
	var version int
	var cost PasswordCost
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, errors.New("a password's hash isn't one of argon2id")
	}
	if _, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &cost.MemoryKiB, &cost.Passes, &cost.Lanes); err != nil || version != argon2.Version {
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
	got, err := h.key(ctx, password, salt, cost)
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
