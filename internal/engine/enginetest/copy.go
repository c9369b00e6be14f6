package enginetest

import (
	"context"
	"os"
	"testing"
)

// Copied backs the running server up and unpacks that as the data of another,
// which holds the same passwords and wasn't started yet.
func (s *Server) Copied(t *testing.T) *Server {
	t.Helper()
	file := s.backup(t)
	restored := s.forRestore(t)
	restored.restore(t, file)
	return restored
}

// TryBackup is what the driver says of backing the server up.
func (s *Server) TryBackup(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), backupDeadline)
	defer cancel()
	f, err := os.CreateTemp(s.base, "backup")
	must(t, err, "make file for a backup")
	defer os.Remove(f.Name())
	defer f.Close()
	return s.Bench.Driver.Backup(ctx, s.Node, f, s.Pipe(t))
}
