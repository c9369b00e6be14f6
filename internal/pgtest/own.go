package pgtest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"steward/internal/embeddedpg"
	"steward/internal/testdir"
)

// OwnServer is a supervised PostgreSQL server of one test, which may kill it.
type OwnServer struct {
	t   testing.TB
	dir string
	url string
}

// StartOwn starts a server that is stopped when the test ends.
func StartOwn(t testing.TB) *OwnServer {
	t.Helper()
	testdir.NeedsServers(t)
	dir := testdir.New(t, "steward-own-")
	s, err := embeddedpg.Start(context.Background(), embeddedpg.Options{
		Dir: filepath.Join(dir, "store"), RunDir: filepath.Join(dir, "run"), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &OwnServer{t, dir, s.URL()}
}

// URL is how to connect.
func (s *OwnServer) URL() string { return s.url }

// PID is the server's process id by its own file, 0 without one.
func (s *OwnServer) PID() int {
	text, _ := os.ReadFile(filepath.Join(s.dir, "store", "data", "postmaster.pid"))
	line, _, complete := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil || !complete {
		return 0
	}
	return pid
}

// Kill kills the server, which is then started again, and returns the id of the
// process that was killed.
func (s *OwnServer) Kill() int {
	s.t.Helper()
	pid := s.PID()
	if pid == 0 {
		s.t.Fatal("the server doesn't run")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	return pid
}
