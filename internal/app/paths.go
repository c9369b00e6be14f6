package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// paths are the folders of one steward. Only Data is kept; the others are
// derived from it, so that a new process finds what an older one left running.
type paths struct {
	Data string
	// Run holds unix sockets and must be short: a socket's path has at most 107 bytes.
	Run string
	// Keys is a folder in memory for keys that must never be on the data disk.
	Keys string
}

func newPaths(data string) (paths, error) {
	abs, err := filepath.Abs(data)
	if err != nil {
		return paths{}, fmt.Errorf("data folder: %w", err)
	}
	if err := os.MkdirAll(abs, 0o711); err != nil {
		return paths{}, fmt.Errorf("make data folder: %w", err)
	}
	// Another spelling of the same folder must lead to the same sockets.
	abs, err = filepath.EvalSymlinks(abs)
	if err != nil {
		return paths{}, fmt.Errorf("data folder: %w", err)
	}
	sum := sha256.Sum256([]byte(abs))
	hash := hex.EncodeToString(sum[:4])
	p := paths{Data: abs, Run: filepath.Join(runBase(), hash), Keys: filepath.Join(memoryBase(), "steward-"+hash)}
	for _, dir := range []string{p.Run, p.Keys} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return paths{}, fmt.Errorf("make folder: %w", err)
		}
		if err := checkOwn(dir); err != nil {
			return paths{}, err
		}
	}
	return p, nil
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

func (p paths) sealKey() string    { return filepath.Join(p.Data, "seal.key") }
func (p paths) serverID() string   { return filepath.Join(p.Data, "server.id") }
func (p paths) adminToken() string { return filepath.Join(p.Data, "admin.token") }
func (p paths) store() string      { return filepath.Join(p.Data, "store") }
func (p paths) backups() string    { return filepath.Join(p.Data, "backups") }
func (p paths) gateway() string    { return filepath.Join(p.Data, "gateway") }

// storeRun is the folder of the store's socket: entered by steward and the
// store's own user only.
func (p paths) storeRun() string { return filepath.Join(p.Run, "store") }
