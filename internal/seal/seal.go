package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gocloud.dev/secrets"
)

// ErrUnreadable tells that a sealed value is damaged, belongs to another
// place, or was sealed with another key.
var ErrUnreadable = errors.New("sealed value can't be opened: it is damaged, was moved here from another place, or was sealed with another key")

const (
	// version1 is the first byte of a sealed value; the two that follow are the
	// length of the wrapped data key.
	version1   = 1
	headerSize = 1 + 2
	keySize    = 32
	// remembered bounds how many data keys are kept: there is one per start of
	// steward that sealed anything.
	remembered = 1024
)

// Sealer seals and unseals. It is safe for concurrent use.
type Sealer struct {
	keeper *secrets.Keeper

	mu sync.Mutex
	// current seals; nil until the first Seal.
	current *dataKey
	// unwrapped are ciphers by the wrapped form of their data keys.
	unwrapped map[string]cipher.AEAD
}

type dataKey struct {
	wrapped []byte
	aead    cipher.AEAD
}

func newSealer(keeper *secrets.Keeper) *Sealer {
	return &Sealer{keeper: keeper, unwrapped: map[string]cipher.AEAD{}}
}

// Close lets go of the key service.
func (s *Sealer) Close() error {
	if err := s.keeper.Close(); err != nil {
		return fmt.Errorf("close key service: %w", err)
	}
	return nil
}

// Seal encrypts a value for one place, such as "cluster/12/root_password".
func (s *Sealer) Seal(ctx context.Context, value []byte, place string) ([]byte, error) {
	key, err := s.dataKey(ctx)
	if err != nil {
		return nil, err
	}
	sealed := make([]byte, 0, headerSize+len(key.wrapped)+len(value)+key.aead.Overhead())
	sealed = append(sealed, version1)
	sealed = binary.BigEndian.AppendUint16(sealed, uint16(len(key.wrapped)))
	sealed = append(sealed, key.wrapped...)
	return key.aead.Seal(sealed, nil, value, associated(sealed, place)), nil
}

// Unseal decrypts a value that was sealed for the same place. The error is
// ErrUnreadable when that can't be; it never holds any of the value.
func (s *Sealer) Unseal(ctx context.Context, sealed []byte, place string) ([]byte, error) {
	header, wrapped, ciphertext, err := split(sealed)
	if err != nil {
		return nil, err
	}
	aead, err := s.unwrap(ctx, wrapped)
	if err != nil {
		return nil, err
	}
	value, err := aead.Open(nil, nil, ciphertext, associated(header, place))
	if err != nil {
		return nil, ErrUnreadable
	}
	return value, nil
}

// associated is what is authenticated beside the value: all that stands before
// the ciphertext, and the place.
func associated(header []byte, place string) []byte {
	return append(slices.Clone(header), place...)
}

// split cuts a sealed value into header (wrapped key included), wrapped key and ciphertext.
func split(sealed []byte) (header, wrapped, ciphertext []byte, err error) {
	if len(sealed) < headerSize {
		return nil, nil, nil, ErrUnreadable
	}
	if sealed[0] != version1 {
		return nil, nil, nil, fmt.Errorf("sealed value has format %d, this steward knows %d: %w", sealed[0], version1, ErrUnreadable)
	}
	end := headerSize + int(binary.BigEndian.Uint16(sealed[1:headerSize]))
	if end > len(sealed) {
		return nil, nil, nil, ErrUnreadable
	}
	return sealed[:end], sealed[headerSize:end], sealed[end:], nil
}

// dataKey is the key to seal with, made and wrapped at the first call.
func (s *Sealer) dataKey(ctx context.Context) (*dataKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current, nil
	}
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	wrapped, err := s.keeper.Encrypt(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("wrap data key: %w", err)
	}
	if len(wrapped) > 1<<16-1 {
		return nil, fmt.Errorf("wrap data key: the key service answered %d bytes", len(wrapped))
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	s.remember(wrapped, aead)
	s.current = &dataKey{wrapped: wrapped, aead: aead}
	return s.current, nil
}

// unwrap is the cipher of a wrapped data key. The key service is asked without
// the lock: a slow one must not hold up values whose key is known.
func (s *Sealer) unwrap(ctx context.Context, wrapped []byte) (cipher.AEAD, error) {
	s.mu.Lock()
	aead := s.unwrapped[string(wrapped)]
	s.mu.Unlock()
	if aead != nil {
		return aead, nil
	}
	key, err := s.keeper.Decrypt(ctx, wrapped)
	if err != nil {
		// Not every key service tells a wrong key from one that can't be reached.
		return nil, fmt.Errorf("unwrap data key: %w (%w)", ErrUnreadable, err)
	}
	if len(key) != keySize {
		return nil, ErrUnreadable
	}
	if aead, err = newAEAD(key); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(wrapped, aead)
	return aead, nil
}

func (s *Sealer) remember(wrapped []byte, aead cipher.AEAD) {
	if len(s.unwrapped) >= remembered {
		clear(s.unwrapped)
	}
	s.unwrapped[string(wrapped)] = aead
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("data key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("data key: %w", err)
	}
	return aead, nil
}
