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
	"time"
)

// ErrUnreadable reports whether a sealed value is damaged, belongs to another
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

// masters are the master keys that data keys are wrapped with: those of a key
// file, or of a key service. It is safe for concurrent use.
type masters interface {
	wrap(ctx context.Context, key []byte) ([]byte, error)
	unwrap(ctx context.Context, wrapped []byte) ([]byte, error)
	// version names the master key that a data key is wrapped with, "" when it
	// isn't known here.
	version(wrapped []byte) string
	// stale reports whether another master key is, or may be, in use since a data key
	// was wrapped or this was last looked into.
	stale(wrapped []byte, since time.Time) bool
	Close() error
}

// Sealer seals and unseals. It is safe for concurrent use.
type Sealer struct {
	masters masters

	// making is held while a data key is made, which may take a key service's time.
	making sync.Mutex
	mu     sync.Mutex
	// current seals; nil until the first Seal.
	current *dataKey
	// unwrapped are ciphers by the wrapped form of their data keys.
	unwrapped map[string]cipher.AEAD
}

type dataKey struct {
	wrapped []byte
	aead    cipher.AEAD
	// since is when it was last known that its master key is the one in use.
	since time.Time
}

func newSealer(m masters) *Sealer {
	return &Sealer{masters: m, unwrapped: map[string]cipher.AEAD{}}
}

// Close lets go of the key service.
func (s *Sealer) Close() error {
	if err := s.masters.Close(); err != nil {
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

// Version names the master key that a sealed value depends on: "" when no key
// that is known here opens it, or the key service doesn't tell its keys apart.
func (s *Sealer) Version(sealed []byte) string {
	_, wrapped, _, err := split(sealed)
	if err != nil {
		return ""
	}
	return s.masters.version(wrapped)
}

// InUse names the master key that values are sealed with from now on; "" when
// the key service doesn't tell its keys apart.
func (s *Sealer) InUse(ctx context.Context) (string, error) {
	key, err := s.dataKey(ctx)
	if err != nil {
		return "", err
	}
	return s.masters.version(key.wrapped), nil
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

// dataKey is the key to seal with: made at the first call, and anew when another
// master key is in use.
func (s *Sealer) dataKey(ctx context.Context) (*dataKey, error) {
	if key := s.fresh(); key != nil {
		return key, nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	if key := s.fresh(); key != nil { // another call was first
		return key, nil
	}
	s.mu.Lock()
	last := s.current
	s.mu.Unlock()
	made, err := s.makeKey(ctx)
	switch {
	case err != nil && (last == nil || s.masters.version(last.wrapped) == ""):
		return nil, err
	case err != nil, last != nil && s.masters.version(made.wrapped) == s.masters.version(last.wrapped):
		// A key service that is away, or has no newer key: the one in use goes on.
		made = &dataKey{last.wrapped, last.aead, time.Now()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(made.wrapped, made.aead)
	s.current = made
	return made, nil
}

// fresh is the data key in use, nil when there is none or it is stale.
func (s *Sealer) fresh() *dataKey {
	s.mu.Lock()
	key := s.current
	s.mu.Unlock()
	if key == nil || s.masters.stale(key.wrapped, key.since) {
		return nil
	}
	return key
}

func (s *Sealer) makeKey(ctx context.Context) (*dataKey, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	wrapped, err := s.masters.wrap(ctx, key)
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
	return &dataKey{wrapped, aead, time.Now()}, nil
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
	key, err := s.masters.unwrap(ctx, wrapped)
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
