package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	if _, held := ServerPID(dir); held {
		t.Error("an unused folder has a server")
	}
	first, err := (Dir{Data: dir}).Lock()
	if err != nil {
		t.Fatal(err)
	}
	if pid, held := ServerPID(dir); !held || pid != os.Getpid() {
		t.Errorf("ServerPID = %d, %v; want this process", pid, held)
	}
	if _, err := (Dir{Data: dir}).Lock(); err == nil || !strings.Contains(err.Error(), "steward stop") {
		t.Errorf("a second lock: %v; want a refusal that says how to stop the first", err)
	}
	// As after the first was killed, and a child that it had just made is left for a moment.
	child, err := os.OpenFile(filepath.Join(dir, "steward.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if err := syscall.Flock(int(child.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { child.Close() })
	second, err := (Dir{Data: dir}).Lock()
	if err != nil {
		t.Fatalf("after the first let go: %v", err)
	}
	second.Close()
}

func TestReadOrMakeToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.token")
	made, err := ReadOrMakeToken(path)
	if err != nil || len(made) != 64 {
		t.Fatalf("made %q, %v; want 64 characters", made, err)
	}
	if again, err := ReadOrMakeToken(path); err != nil || again != made {
		t.Errorf("read %q, %v; want the one made before", again, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}

func TestCheckOwn(t *testing.T) {
	t.Parallel()
	own, open := t.TempDir(), t.TempDir()
	if err := os.Chmod(own, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(own, "link")
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{own: true, open: false, link: false} {
		if err := checkOwn(dir); (err == nil) != want {
			t.Errorf("%s: %v, want accepted: %v", dir, err, want)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(own, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if checkOwn(own) == nil {
			t.Error("a folder of another user was accepted")
		}
	}
}
