// Package e2e drives the built binary with real databases behind it, as users
// do: over HTTP, SQL and signals.
package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"steward/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.RemoveBinaries()
	os.Exit(code)
}

// engines are the engine ids every machine that ran `make setup` has.
var engines = []string{"postgresql/15", "mysql/10.11"}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
