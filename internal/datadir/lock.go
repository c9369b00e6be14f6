package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrInUse is returned when another steward serves the data folder.
var ErrInUse = errors.New("the data folder is in use")

// Others hold the lock for a moment who don't serve: a command that asks who does, and a child
// that a steward made as it was killed, until it is the program that it is to become.
const (
	lockPatience = time.Second
	lockEvery    = 10 * time.Millisecond
)

// Lock makes this process the only one that serves the data folder. The
// kernel lets go of the lock when the process dies, however it dies.
func (d Dir) Lock() (*os.File, error) {
	path := filepath.Join(d.Data, "steward.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	for began := time.Now(); ; time.Sleep(lockEvery) {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil || time.Since(began) > lockPatience {
			break
		}
	}
	if err != nil {
		pid, _ := os.ReadFile(path)
		f.Close()
		return nil, fmt.Errorf("%w: %s is served by process %s; stop it with `steward stop --data %s`",
			ErrInUse, d.Data, strings.TrimSpace(string(pid)), d.Data)
	}
	if err := f.Truncate(0); err != nil {
		return nil, fmt.Errorf("write lock file: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, fmt.Errorf("write lock file: %w", err)
	}
	return f, nil
}

// ServerPID is the process that serves the data folder, and false when none does.
func ServerPID(dir string) (int, bool) {
	f, err := os.OpenFile(filepath.Join(dir, "steward.lock"), os.O_RDWR, 0)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return 0, false // nobody holds it: closing lets go again
	}
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	return pid, err == nil
}
