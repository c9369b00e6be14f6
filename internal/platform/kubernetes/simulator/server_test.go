package simulator

import (
	"context"
	"syscall"
	"testing"

	"steward/internal/await"
	"steward/internal/engine/postgresql"
	"steward/internal/testdir"
)

// TestKilledServerLeavesNothing: of a container whose server is killed nothing lives on that has the next start fail.
func TestKilledServerLeavesNothing(t *testing.T) {
	builds := Images(t, postgresql.New(), map[string]string{"older": "15.17"})
	s, err := newServer(testdir.New(t, "steward-cnpg-"), "db-1-g1-1", nextAddress(), builds["older"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	if err := s.initialise(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.write(map[string]string{"ssl": "off"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the server answers", func() bool {
		_, err := s.sql(context.Background(), "postgres", "SELECT 1")
		return err == nil
	})
	s.stop(syscall.SIGKILL)
	if left, err := s.processes().Members(); err != nil || len(left) > 0 {
		t.Errorf("processes are left: %v, %v", left, err)
	}
}
