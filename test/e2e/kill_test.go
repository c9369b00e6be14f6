package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/test/harness"
)

// kills kills each process in turn with -9; each comes back by itself. The seconds are
// logged for docs/operations.md.
func kills(t *testing.T, s *harness.Server, d harness.Database) {
	c := s.Credentials(d)
	db := s.MustConnect(d, c)
	exec1(t, db, "CREATE TABLE kept (n int)")
	exec1(t, db, "INSERT INTO kept VALUES (7)")

	t.Run("steward", func(t *testing.T) {
		begun := time.Now()
		s.Kill()
		if got := one(t, db, "SELECT n FROM kept"); got != "7" {
			t.Errorf("the open session answered %q while steward was down", got)
		}
		s.Start()
		t.Logf("steward ready again after %s", time.Since(begun).Round(time.Millisecond))
		if got := one(t, db, "SELECT n FROM kept"); got != "7" {
			t.Errorf("the open session answered %q after the restart", got)
		}
		s.AwaitStatus(d, "active")
	})
	t.Run("store", func(t *testing.T) {
		killAndAwait(t, s, storePID(t, s), func() error {
			status, body, err := s.TryCall("GET", d.Path(), nil, nil)
			if err != nil || status != 200 {
				return fmt.Errorf("%d %s %w", status, body, err)
			}
			return nil
		})
		if got := one(t, db, "SELECT n FROM kept"); got != "7" {
			t.Errorf("the customer's open session answered %q", got)
		}
	})
	t.Run("gateway", func(t *testing.T) {
		for pid, line := range s.Processes() {
			if strings.Contains(line, "haproxy") {
				killAndAwait(t, s, pid, func() error { return query(d, c) })
				return
			}
		}
		t.Error("no haproxy is running")
	})
	t.Run("database", func(t *testing.T) {
		killAndAwait(t, s, nodePID(t, s, d), func() error { return query(d, c) })
		s.AwaitStatus(d, "active")
	})
}

// killAndAwait sends SIGKILL, waits until the process is gone and then until
// what it served works again.
func killAndAwait(t *testing.T, s *harness.Server, pid int, works func() error) {
	t.Helper()
	begun := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
	s.Eventually("gone", func() error {
		if state := processState(pid); state != "" && state != "Z" {
			return errors.New("process lives")
		}
		return nil
	})
	s.Eventually("back", works)
	t.Logf("back after %s", time.Since(begun).Round(time.Millisecond))
}

// processState is the letter of /proc/PID/stat, "" when there is no process.
func processState(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

func query(d harness.Database, c harness.Credentials) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	db, err := harness.Connect(ctx, d, c, "127.0.0.1")
	if err != nil {
		return err
	}
	return db.Close()
}

func nodePID(t *testing.T, s *harness.Server, d harness.Database) int {
	t.Helper()
	out, err := s.Command("node", "list", "--data", s.Data, "--cluster", fmt.Sprint(d.ID), "--pid")
	if err != nil {
		t.Fatalf("node list: %v\n%s", err, out)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatalf("node list --pid printed %q, want one process id alone", out)
	}
	return pid
}

func storePID(t *testing.T, s *harness.Server) int {
	t.Helper()
	for pid, line := range s.Processes() {
		if strings.Contains(line, filepath.Join(s.Data, "store")) && strings.Contains(line, "postgres") {
			return pid
		}
	}
	t.Fatal("the store isn't running")
	return 0
}

// secondServe is refused clearly and leaves the first alone.
func secondServe(t *testing.T, s *harness.Server) {
	out, err := s.Command("serve", "--data", s.Data, "--listen", "127.0.0.1:0", "--config", s.ConfigPath())
	if err == nil || !strings.Contains(out, "is served by process") {
		t.Errorf("a second serve: %v\n%s", err, out)
	}
	if status, _ := s.Call("GET", "/v4/profile", nil, nil); status != 200 {
		t.Errorf("the first server answers %d", status)
	}
}
