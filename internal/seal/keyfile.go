package seal

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gocloud.dev/secrets"
	"gocloud.dev/secrets/localsecrets"

	"steward/internal/durable"
	"steward/internal/failpoint"
)

// A key file has a key a line. The first one seals, and all of them open. A
// last line that ends in " next" is a key that is going to be the first.
type masterKey struct {
	key  [keySize]byte
	next bool
}

// id names a key without telling anything of it.
func (k masterKey) id() string {
	sum := sha256.Sum256(append([]byte("steward seal key "), k.key[:]...))
	return hex.EncodeToString(sum[:4])
}

// keyFile is a key file in use. What is written to it is noticed at the next
// value that is sealed, or that doesn't open with the keys that are known.
type keyFile struct {
	path string

	mu   sync.Mutex
	keys []masterKey
	// seen is the file as it was read.
	seen fileState
}

type fileState struct {
	inode    uint64
	size     int64
	modified time.Time
}

func stateOf(info fs.FileInfo) fileState {
	state := fileState{size: info.Size(), modified: info.ModTime()}
	if raw, ok := info.Sys().(*syscall.Stat_t); ok {
		state.inode = raw.Ino
	}
	return state
}

// openKeyFile reads the keys, and makes the first when there is no file. It is
// on the disk before it is used: a value sealed with a key that a power cut
// takes away is lost.
func openKeyFile(path string) (*keyFile, error) {
	f := &keyFile{path: path}
	err := f.read()
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := makeKeyFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	// Another process may have been first: what is on the disk counts.
	return f, f.read()
}

// read takes the file as it is now.
func (f *keyFile) read() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("key file: %w", err)
	}
	keys, err := readKeys(f.path)
	if err != nil {
		return err
	}
	f.keys, f.seen = keys, stateOf(info)
	return nil
}

// look reads the file again when it isn't as it was. A file that can't be read
// now leaves the keys that are known: they go on until the operator has mended it.
func (f *keyFile) look() {
	info, err := os.Stat(f.path)
	if err == nil && stateOf(info) != f.seen {
		_ = f.read()
	}
}

func (f *keyFile) wrap(ctx context.Context, key []byte) ([]byte, error) {
	f.mu.Lock()
	f.look()
	first := f.keys[0]
	f.mu.Unlock()
	return first.keeper().Encrypt(ctx, key)
}

func (f *keyFile) unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, _, err := f.open(ctx, wrapped)
	return key, err
}

func (f *keyFile) version(wrapped []byte) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, by, err := f.open(context.Background(), wrapped); err == nil {
		return by.id()
	}
	return ""
}

// open tries all keys, and those that the file has got since it was read.
func (f *keyFile) open(ctx context.Context, wrapped []byte) (key []byte, by masterKey, err error) {
	if key, by, err = f.try(ctx, wrapped); err != nil {
		f.look()
		key, by, err = f.try(ctx, wrapped)
	}
	return key, by, err
}

// try costs a microsecond a key.
func (f *keyFile) try(ctx context.Context, wrapped []byte) (key []byte, by masterKey, err error) {
	for _, k := range f.keys {
		if key, err = k.keeper().Decrypt(ctx, wrapped); err == nil {
			return key, k, nil
		}
	}
	return nil, by, err
}

func (f *keyFile) stale(wrapped []byte, _ time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	_, by, err := f.open(context.Background(), wrapped)
	return err != nil || by != f.keys[0]
}

// Close has nothing to let go of.
func (f *keyFile) Close() error { return nil }

func (k masterKey) keeper() *secrets.Keeper { return localsecrets.NewKeeper(k.key) }

func readKeys(path string) ([]masterKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key file %s can be read by others: `chmod 600` it, and consider the secrets known", path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	keys, ok := parseKeys(string(content))
	if !ok {
		return nil, fmt.Errorf("key file %s doesn't hold a key: 32 bytes in base64 are expected, on each line", path)
	}
	return keys, nil
}

func parseKeys(content string) (keys []masterKey, ok bool) {
	for line := range strings.Lines(strings.TrimSpace(content)) {
		text, next := strings.CutSuffix(strings.TrimSpace(line), " next")
		key, err := localsecrets.Base64KeyStd(text)
		if err != nil {
			return nil, false
		}
		if len(keys) > 0 && keys[len(keys)-1].next || next && len(keys) == 0 {
			return nil, false // only the last may be the next one, and never the first
		}
		keys = append(keys, masterKey{key, next})
	}
	return keys, len(keys) > 0
}

func newMasterKey() (masterKey, error) {
	key, err := localsecrets.NewRandomKey()
	if err != nil {
		return masterKey{}, fmt.Errorf("make key: %w", err)
	}
	return masterKey{key: key}, nil
}

// makeKeyFile puts a file with a new key in place whole, or not at all when there
// is one by now.
func makeKeyFile(path string) error {
	key, err := newMasterKey()
	if err != nil {
		return err
	}
	return placeKeys(path, []masterKey{key}, durable.WriteNew)
}

// placeKeys writes the keys to a file with durable.Write or durable.WriteNew.
func placeKeys(path string, keys []masterKey, place func(path string, write func(*os.File) error) error) error {
	var content strings.Builder
	for _, k := range keys {
		content.WriteString(base64.StdEncoding.EncodeToString(k.key[:]))
		if k.next {
			content.WriteString(" next")
		}
		content.WriteString("\n")
	}
	err := place(path, func(f *os.File) error {
		_, err := f.WriteString(content.String())
		if err := errors.Join(err, inheritOwner(f, path)); err != nil {
			return err
		}
		failpoint.Here("seal: before the key file is in place")
		return nil
	})
	if err != nil {
		return fmt.Errorf("make key file: %w", err)
	}
	failpoint.Here("seal: key file in place")
	return nil
}

// inheritOwner keeps the file its owner's, who may be another user than the one
// that changes it.
func inheritOwner(f *os.File, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	raw, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(raw.Uid) == os.Geteuid() && int(raw.Gid) == os.Getegid() {
		return nil
	}
	return f.Chown(int(raw.Uid), int(raw.Gid))
}

// KeyFile says which keys a key file has, and changes them. Only one process may
// change it at a time; any number may use it.
type KeyFile struct {
	path string
	keys []masterKey
}

// ReadKeyFile reads a key file that is there.
func ReadKeyFile(path string) (*KeyFile, error) {
	keys, err := readKeys(path)
	return &KeyFile{path, keys}, err
}

// IDs name the keys, the one that seals first.
func (f *KeyFile) IDs() []string {
	ids := make([]string, len(f.keys))
	for i, k := range f.keys {
		ids[i] = k.id()
	}
	return ids
}

// Introduced reports whether the last key is known and not in use yet.
func (f *KeyFile) Introduced() bool { return f.keys[len(f.keys)-1].next }

// Introduce adds a new key that opens and doesn't seal yet: the file can be taken
// to other servers before any of them seals with it.
func (f *KeyFile) Introduce() error {
	key, err := newMasterKey()
	if err != nil {
		return err
	}
	key.next = true
	return f.write(append(slices.Clone(f.keys), key))
}

// Activate lets the introduced key seal from now on, or a new one when there is
// none. The others still open.
func (f *KeyFile) Activate() error {
	old, last := f.keys, masterKey{}
	if f.Introduced() {
		old, last = f.keys[:len(f.keys)-1], f.keys[len(f.keys)-1]
		last.next = false
	} else {
		var err error
		if last, err = newMasterKey(); err != nil {
			return err
		}
	}
	return f.write(append([]masterKey{last}, old...))
}

// Retire removes all keys but the one that seals.
func (f *KeyFile) Retire() error { return f.write(f.keys[:1]) }

func (f *KeyFile) write(keys []masterKey) error {
	if err := placeKeys(f.path, keys, durable.Write); err != nil {
		return err
	}
	f.keys = keys
	return nil
}
