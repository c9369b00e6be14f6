package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Dir is the folders of one steward. Only Data is kept; the others are
// derived from it, so that a new process finds what an older one left running.
type Dir struct {
	Data string
	// Run holds unix sockets and must be short: a socket's path has at most 107 bytes.
	Run string
	// Keys is a folder in memory for keys that must never be on the data disk.
	Keys string
}

// Open makes the folders that aren't there yet.
func Open(data string) (Dir, error) {
	abs, err := filepath.Abs(data)
	if err != nil {
		return Dir{}, fmt.Errorf("data folder: %w", err)
	}
	if err := os.MkdirAll(abs, 0o711); err != nil {
		return Dir{}, fmt.Errorf("make data folder: %w", err)
	}
	// Another spelling of the same folder must lead to the same sockets.
	abs, err = filepath.EvalSymlinks(abs)
	if err != nil {
		return Dir{}, fmt.Errorf("data folder: %w", err)
	}
	sum := sha256.Sum256([]byte(abs))
	hash := hex.EncodeToString(sum[:4])
	d := Dir{Data: abs, Run: filepath.Join(runBase(), hash), Keys: filepath.Join(memoryBase(), "steward-"+hash)}
	for _, dir := range []string{d.Run, d.Keys} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return Dir{}, fmt.Errorf("make folder: %w", err)
		}
		if err := checkOwn(dir); err != nil {
			return Dir{}, err
		}
	}
	return d, nil
}

// checkOwn refuses a folder that somebody else made under the name that this
// steward would use: its parent may be open to all users.
func checkOwn(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at folder: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("folder %s must belong to this user and be writable by nobody else: remove it, or start steward as its owner", dir)
	}
	return nil
}

func runBase() string {
	if os.Geteuid() == 0 {
		return "/run/steward"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "steward")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("steward-%d", os.Geteuid()))
}

func memoryBase() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return runBase()
}

// SealKey is the key file of the secrets, unless a key service holds the key.
func (d Dir) SealKey() string { return filepath.Join(d.Data, "seal.key") }

// ServerID is the name of this server among those that share a store.
func (d Dir) ServerID() string { return filepath.Join(d.Data, "server.id") }

// AdminToken is the first token, for the operator.
func (d Dir) AdminToken() string { return filepath.Join(d.Data, "admin.token") }

// Store is the store's own server.
func (d Dir) Store() string { return filepath.Join(d.Data, "store") }

// Backups is where backups are kept unless another place is configured.
func (d Dir) Backups() string { return filepath.Join(d.Data, "backups") }

// Gateway is the gateway's files.
func (d Dir) Gateway() string { return filepath.Join(d.Data, "gateway") }

// Networks is what is known of servers' networks, with the kernel's gateway.
func (d Dir) Networks() string { return filepath.Join(d.Data, "networks") }

// Namespaces is where servers' networks are found.
func (d Dir) Namespaces() string { return filepath.Join(d.Run, "networks") }

// StoreRun is the folder of the store's socket: entered by steward and the
// store's own user only.
func (d Dir) StoreRun() string { return filepath.Join(d.Run, "store") }
