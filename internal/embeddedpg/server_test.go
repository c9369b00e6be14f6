package embeddedpg_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/await"
	"steward/internal/embeddedpg"
	"steward/internal/testdir"
)

// folders are a store's folders, and what starts in them.
type folders struct {
	t       *testing.T
	options embeddedpg.Options
}

// newFolders makes the folders. Whatever runs in them at the test's end is stopped.
func newFolders(t *testing.T) *folders {
	t.Helper()
	testdir.NeedsServers(t)
	dir := testdir.New(t, "steward-embedded-")
	e := &folders{t, embeddedpg.Options{Dir: filepath.Join(dir, "store"), RunDir: filepath.Join(dir, "run"), Logger: slog.New(slog.DiscardHandler)}}
	t.Cleanup(func() {
		if err := embeddedpg.Stop(context.Background(), e.options.Dir); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *folders) start() *embeddedpg.Server {
	e.t.Helper()
	s, err := embeddedpg.Start(context.Background(), e.options)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(s.Leave)
	return s
}

func (e *folders) exec(sql string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, embeddedpg.URL(e.options.Dir, e.options.RunDir))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// postmaster is the server's process id by its own pid file, 0 without one.
func (e *folders) postmaster() int {
	text, _ := os.ReadFile(filepath.Join(e.options.Dir, "data", "postmaster.pid"))
	line, _, complete := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil || !complete {
		return 0
	}
	return pid
}

func TestServerOutlivesAndComesBack(t *testing.T) {
	t.Parallel()
	e := newFolders(t)
	first := e.start()
	if err := e.exec("CREATE TABLE kept AS SELECT 1 AS n"); err != nil {
		t.Fatal(err)
	}
	first.Leave()
	before := e.postmaster()
	second := e.start()
	if after := e.postmaster(); after != before {
		t.Fatalf("a running store was started again: %d, then %d", before, after)
	}
	for range 2 {
		killed, at := e.postmaster(), time.Now()
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		await.True(t, "back after kill -9", func() bool { return e.postmaster() != killed && e.exec("SELECT n FROM kept") == nil })
		t.Logf("back %s after kill -9", time.Since(at).Round(time.Millisecond))
	}
	// One that dies while nobody looks is started by the next.
	second.Leave()
	if err := syscall.Kill(e.postmaster(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	third := e.start()
	if err := e.exec("SELECT n FROM kept"); err != nil {
		t.Fatal(err)
	}
	if err := third.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.exec("SELECT 1"); err == nil {
		t.Error("it answers after Stop")
	}
}

// TestServerIsIsolated: neither without the password nor as another user.
func TestServerIsIsolated(t *testing.T) {
	t.Parallel()
	e := newFolders(t)
	s := e.start()
	config, err := pgx.ParseConfig(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	password := config.Password
	config.Password = "wrong"
	if conn, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		conn.Close(t.Context())
		t.Error("a wrong password is let in")
	}
	if err := e.exec(`SELECT 1 / count(*) FROM pg_authid WHERE rolpassword LIKE 'SCRAM-SHA-256$1:%'`); err != nil {
		t.Errorf("each connection hashes a password that nobody can guess thousands of times: %v", err)
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", e.postmaster()))
	if err != nil || bytes.Contains(cmdline, []byte(password)) {
		t.Errorf("the password is among the arguments (%v)", err)
	}
	socket := filepath.Join(e.options.RunDir, ".s.PGSQL.5432")
	if os.Geteuid() != 0 {
		t.Skip("other users can only be tried as root")
	}
	for _, uid := range []uint32{65534, 700000, 700001} {
		look := exec.Command("/bin/sh", "-c", fmt.Sprintf("test -e %s || cat %s/password %s/data/PG_VERSION", socket, e.options.Dir, e.options.Dir))
		look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if out, err := look.CombinedOutput(); err == nil {
			t.Errorf("user %d sees the store: %s", uid, out)
		}
	}
}

// TestServerAfterKilledSetUp: what a killed set-up left doesn't matter.
func TestServerAfterKilledSetUp(t *testing.T) {
	t.Parallel()
	e := newFolders(t)
	half := filepath.Join(e.options.Dir, "new-1234", "base")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.options.Dir, "password"), []byte("of the killed one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var setUp sync.WaitGroup
	setUp.Go(func() {
		s, err := embeddedpg.Start(ctx, e.options)
		if err == nil {
			s.Leave()
		}
		t.Log("killed set-up:", err)
	})
	await.True(t, "initdb begins", func() bool {
		begun, _ := filepath.Glob(filepath.Join(e.options.Dir, "new-*", "PG_VERSION"))
		return len(begun) > 0
	})
	cancel() // kills initdb
	setUp.Wait()
	s := e.start()
	if err := e.exec("SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(e.options.Dir, "new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	// After a restart of the machine or container another process of the same
	// user may have the dead server's number.
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(e.options.Dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	other := exec.Command("/bin/sleep", "60")
	if os.Geteuid() == 0 {
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	stale := fmt.Sprintf("%d\n%s/data\n1\n5432\n\n\n1 1\nready\n", other.Process.Pid, e.options.Dir)
	for _, lock := range []string{filepath.Join(e.options.Dir, "data", "postmaster.pid"), filepath.Join(e.options.RunDir, ".s.PGSQL.5432.lock")} {
		if err := os.WriteFile(lock, []byte(stale), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(lock, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	e.start()
}

func TestServerRefusals(t *testing.T) {
	t.Parallel()
	t.Run("version that isn't installed", func(t *testing.T) {
		t.Parallel()
		e := newFolders(t)
		data := filepath.Join(e.options.Dir, "data")
		if err := os.MkdirAll(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("99\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := embeddedpg.Start(t.Context(), e.options); err == nil || !strings.Contains(err.Error(), "install the package postgresql-99") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("folder the server's user can't reach", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Skip("the server runs as the caller")
		}
		e := newFolders(t)
		closed := filepath.Dir(e.options.Dir)
		if err := os.Chmod(closed, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := embeddedpg.Start(t.Context(), e.options); err == nil || !strings.Contains(err.Error(), "chmod o+x "+closed) {
			t.Errorf("got %v", err)
		}
	})
}

// TestStartSaysWhy: not that the server is shut down, which is what it says last.
func TestStartSaysWhy(t *testing.T) {
	t.Parallel()
	e := newFolders(t)
	e.options.Settings = []string{"listen_addresses=192.0.2.1"}
	if _, err := embeddedpg.Start(t.Context(), e.options); err == nil || !strings.Contains(err.Error(), "FATAL:  could not create any TCP/IP sockets") {
		t.Error(err)
	}
}
