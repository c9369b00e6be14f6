package testdir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Cache is the folder outside the clone where runs of tests keep what is slow to
// get: fetched servers and prepared data.
func Cache() string {
	if os.Geteuid() == 0 {
		return "/var/cache/steward" // root's home is closed to the users that servers run as
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = os.TempDir()
	}
	return filepath.Join(home, ".cache", "steward")
}

// variants is how many folders of one name are kept: those of the worktrees
// somebody tests in turn.
const variants = 3

// Prepared makes dir a copy of the kept folder of that name and key. When there is
// none, makeIt makes it first. The key has to change with whatever decides the
// folder's content, as [Program] does.
func Prepared(ctx context.Context, dir, name, key string, makeIt func(dir string) error) error {
	return withKept(name, key, makeIt, func(kept string) error { return Copy(ctx, kept, dir) })
}

// Keep has makeIt make the folder of that name and key when there is none, for those
// who call [Prepared] later.
func Keep(name, key string, makeIt func(dir string) error) error {
	return withKept(name, key, makeIt, func(string) error { return nil })
}

// Kept are the names of the kept folders of that key which begin so.
func Kept(prefix, key string) (names []string) {
	found, _ := filepath.Glob(filepath.Join(base(), prefix+"*@"+key)) // the pattern is well-formed
	for _, dir := range found {
		name, _, _ := strings.Cut(filepath.Base(dir), "@")
		names = append(names, name)
	}
	return names
}

// Built makes path a copy of a program of that name, which build brings up to date where
// it is kept: to link it takes seconds, and each package's tests want it.
func Built(path, name string, build func(kept string) error) error {
	programs := filepath.Join(Cache(), "programs")
	if err := os.MkdirAll(programs, 0o700); err != nil {
		return fmt.Errorf("make folder for programs: %w", err)
	}
	unlock, err := lock(programs, name)
	if err != nil {
		return err
	}
	defer unlock()
	kept := filepath.Join(programs, name)
	if err := build(kept); err != nil {
		return err
	}
	return Copy(context.Background(), kept, path)
}

func base() string { return filepath.Join(Cache(), "prepared") }

// withKept uses the kept folder while nobody else touches it.
func withKept(name, key string, makeIt, use func(dir string) error) error {
	base := base()
	if err := os.MkdirAll(base, 0o711); err != nil {
		return fmt.Errorf("make folder for prepared data: %w", err)
	}
	unlock, err := lock(base, name)
	if err != nil {
		return err
	}
	defer unlock()
	kept := filepath.Join(base, name+"@"+key)
	if _, err := os.Stat(kept); errors.Is(err, os.ErrNotExist) {
		if err := prepare(base, kept, makeIt); err != nil {
			return err
		}
		if err := prune(base, name); err != nil {
			return err
		}
	}
	now := time.Now()
	return errors.Join(os.Chtimes(kept, now, now), use(filepath.Join(kept, "data")))
}

// prepare puts the folder in its place whole.
func prepare(base, kept string, makeIt func(dir string) error) error {
	unfinished, err := os.MkdirTemp(base, ".new-")
	if err != nil {
		return fmt.Errorf("make folder for prepared data: %w", err)
	}
	defer os.RemoveAll(unfinished) // nothing there after the rename
	if err := os.Chmod(unfinished, 0o711); err != nil {
		return err
	}
	if err := makeIt(filepath.Join(unfinished, "data")); err != nil {
		return err
	}
	return os.Rename(unfinished, kept)
}

// prune removes the folders of the name that were used longest ago.
func prune(base, name string) error {
	all, err := filepath.Glob(filepath.Join(base, name+"@*"))
	if err != nil {
		return err
	}
	used := map[string]time.Time{}
	for _, dir := range all {
		if info, err := os.Stat(dir); err == nil {
			used[dir] = info.ModTime()
		}
	}
	slices.SortFunc(all, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, dir := range all[min(variants, len(all)):] {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// lock keeps other processes, and other tests of this one, from the name.
func lock(base, name string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(base, "."+name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock what is kept: %w", err)
	}
	return func() { file.Close() }, nil
}

// Copy copies a folder with owners and modes.
func Copy(ctx context.Context, from, to string) error { return cp(ctx, from, to) }

// Link is Copy with the same files: nobody may write to them.
func Link(ctx context.Context, from, to string) error { return cp(ctx, from, to, "--link") }

func cp(ctx context.Context, from, to string, more ...string) error {
	args := append([]string{"-dR", "--preserve=mode,ownership,timestamps", "--reflink=auto"}, more...)
	cmd := exec.CommandContext(ctx, "cp", append(args, from, to)...)
	// cp takes a buffer for each file. By glibc's defaults that is memory which is mapped and cleared anew for each of a
	// thousand small files.
	cmd.Env = append(os.Environ(), "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=16777216:glibc.malloc.trim_threshold=33554432")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Program is a digest of the running program, and so of all code in it.
var Program = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return Digest(path)
})

// Digest is a short name for a file's content.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}
