// Package seal keeps secrets at rest. A data key, wrapped by a keeper (a key
// file, or a key service by URL), seals values; each is bound to its place, so
// that a sealed value can't be moved to another row.
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/secrets"
	_ "gocloud.dev/secrets/hashivault" // hashivault:// URLs: Vault's transit engine
	"gocloud.dev/secrets/localsecrets"
)

// version is the first byte of a sealed value; other formats get other numbers.
const version = 1

// Sealer seals and unseals. Its methods may be used at the same time.
type Sealer struct{ aead cipher.AEAD }

// Open makes a Sealer. keeperURL names a key service; "" means the key file,
// made on first use. dataKey is where the wrapped data key is kept.
func Open(ctx context.Context, keeperURL, keyFile, dataKey string) (*Sealer, error) {
	keeper, err := openKeeper(ctx, keeperURL, keyFile)
	if err != nil {
		return nil, err
	}
	defer keeper.Close()
	key, err := loadDataKey(ctx, keeper, dataKey)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("data key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("data key: %w", err)
	}
	return &Sealer{aead}, nil
}

func openKeeper(ctx context.Context, keeperURL, keyFile string) (*secrets.Keeper, error) {
	if keeperURL != "" {
		keeper, err := secrets.OpenKeeper(ctx, keeperURL)
		if err != nil {
			return nil, fmt.Errorf("open key service (seal.url): %w", err)
		}
		return keeper, nil
	}
	text, err := readOrMake(keyFile, func() ([]byte, error) {
		key, err := localsecrets.NewRandomKey()
		return []byte(base64.StdEncoding.EncodeToString(key[:]) + "\n"), err
	})
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != 32 {
		return nil, fmt.Errorf("key file %s: must hold 32 bytes in base64", keyFile)
	}
	return localsecrets.NewKeeper([32]byte(raw)), nil
}

// loadDataKey unwraps the data key. A key that can't be unwrapped is an error,
// never a reason for a new one: that would make every secret unreadable.
func loadDataKey(ctx context.Context, keeper *secrets.Keeper, path string) ([]byte, error) {
	wrapped, err := readOrMake(path, func() ([]byte, error) {
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return nil, err
		}
		return keeper.Encrypt(ctx, key)
	})
	if err != nil {
		return nil, fmt.Errorf("data key: %w", err)
	}
	key, err := keeper.Decrypt(ctx, wrapped)
	if err != nil {
		return nil, fmt.Errorf("data key %s can't be unwrapped; was the key file or key service exchanged? %w", path, err)
	}
	return key, nil
}

// readOrMake reads a file, or makes it: whole, on the disk, mode 0600, and
// never over one that another process made meanwhile.
func readOrMake(path string, content func() ([]byte, error)) ([]byte, error) {
	text, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	if text, err = content(); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Seal encrypts a value for its place.
func (s *Sealer) Seal(_ context.Context, value []byte, place string) ([]byte, error) {
	return s.aead.Seal([]byte{version}, nil, value, []byte(place)), nil
}

// Unseal decrypts a value that was sealed for the place. Errors never hold
// any of the value.
func (s *Sealer) Unseal(_ context.Context, sealed []byte, place string) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != version {
		return nil, fmt.Errorf("secret of %s: unknown format", place)
	}
	value, err := s.aead.Open(nil, nil, sealed[1:], []byte(place))
	if err != nil {
		return nil, fmt.Errorf("secret of %s: changed, moved, or sealed with another key", place)
	}
	return value, nil
}
