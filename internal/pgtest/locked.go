package pgtest

import (
	"context"
	"fmt"
	"testing"

	"steward/internal/store"
)

// Locked does something while tables of a store are locked in a mode: whoever asks for what that excludes waits, as for a store that stands still.
func Locked(t testing.TB, s *store.Store, tables, mode string, do func()) {
	t.Helper()
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), fmt.Sprintf("LOCK TABLE %s IN %s MODE", tables, mode)); err != nil {
		t.Fatal(err)
	}
	do()
}
