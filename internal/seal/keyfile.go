package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gocloud.dev/secrets/localsecrets"
)

// keyFile reads the key, and makes it first when there is none. It is on the
// disk before it is used: a value sealed with a key that a power cut takes away
// is lost.
func keyFile(path string) ([keySize]byte, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := makeKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return key, err
	}
	// Another process may have been first: what is on the disk counts.
	return readKey(path)
}

func readKey(path string) ([keySize]byte, error) {
	var none [keySize]byte
	info, err := os.Stat(path)
	if err != nil {
		return none, fmt.Errorf("key file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return none, fmt.Errorf("key file %s can be read by others: `chmod 600` it, and consider the secrets known", path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return none, fmt.Errorf("key file: %w", err)
	}
	key, err := localsecrets.Base64KeyStd(strings.TrimSpace(string(content)))
	if err != nil {
		return none, fmt.Errorf("key file %s doesn't hold a key: 32 bytes in base64 are expected", path)
	}
	return key, nil
}

// makeKey puts a new key in place whole, or not at all when there is one by now:
// a link can't replace a file.
func makeKey(path string) error {
	key, err := localsecrets.NewRandomKey()
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("make key file: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key[:]) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write key file: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil {
		return fmt.Errorf("make key file: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
