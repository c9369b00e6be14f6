package seal

import (
	"crypto/cipher"
	"crypto/rand"
	"fmt"
)

// versionKey is the first byte of what a Key seals; the ciphertext follows.
const versionKey = 2

// Key seals the values of one owner, such as an account. It is itself kept
// sealed by a Sealer: another master key then means to seal the Key again, and
// none of the values. It is safe for concurrent use.
type Key struct{ aead cipher.AEAD }

// NewKey makes the bytes of a Key.
func NewKey() ([]byte, error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make data key: %w", err)
	}
	return key, nil
}

// OpenKey is the Key of these bytes.
func OpenKey(key []byte) (Key, error) {
	if len(key) != keySize {
		return Key{}, fmt.Errorf("data key of %d bytes: %w", len(key), ErrUnreadable)
	}
	aead, err := newAEAD(key)
	return Key{aead}, err
}

// Seal encrypts a value for one place, such as "credential/12/password".
func (k Key) Seal(value []byte, place string) []byte {
	header := []byte{versionKey}
	return k.aead.Seal(header, nil, value, associated(header, place))
}

// Unseal decrypts a value that was sealed for the same place. The error is
// ErrUnreadable when that can't be; it never holds any of the value.
func (k Key) Unseal(sealed []byte, place string) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != versionKey {
		return nil, ErrUnreadable
	}
	value, err := k.aead.Open(nil, nil, sealed[1:], associated(sealed[:1], place))
	if err != nil {
		return nil, ErrUnreadable
	}
	return value, nil
}
