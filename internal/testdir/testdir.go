// Package testdir has folders and ports for the servers that tests run.
//
// t.TempDir doesn't do for those: its parents are closed to the users that
// servers run as, and its path is too long for a socket.
package testdir

import (
	"os"
	"syscall"
	"testing"
)

// room is what must be free in memory for servers to be put there: the largest
// test has a few clusters of three nodes at once, and packages run side by side.
const room = 8 << 30

// Parent is where such folders are made: in the machine's shared memory when
// there is room, where suites take half to two thirds of the time, since ext4 is
// slow to hand out the inodes of servers just removed. TMPDIR has precedence.
func Parent() string {
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs("/dev/shm", &fs) == nil && int64(fs.Bavail)*fs.Bsize > room {
		return "/dev/shm"
	}
	return os.TempDir()
}

// NeedsServers skips a test that starts servers when only quick ones are wanted:
// `make test-quick`.
func NeedsServers(t testing.TB) {
	t.Helper()
	if testing.Testing() && testing.Short() { // a benchmark that is a program of its own has no -short
		t.Skip("it starts servers, which -short leaves out")
	}
}

// Make makes an empty folder with a short path that every user may pass through.
func Make(prefix string) (string, error) { return create(Parent(), prefix) }

func create(parent, prefix string) (string, error) {
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// New is Make for one test, which removes the folder at its end: register first
// what must be stopped last.
func New(t testing.TB, prefix string) string { return forTest(t, Parent(), prefix) }

// OnDisk is New for what measures the disk that customers' data lies on.
func OnDisk(t testing.TB, prefix string) string { return forTest(t, os.TempDir(), prefix) }

func forTest(t testing.TB, parent, prefix string) string {
	t.Helper()
	dir, err := create(parent, prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the test's folder: %v", err)
		}
	})
	return dir
}
