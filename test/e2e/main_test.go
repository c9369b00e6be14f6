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

// The engine ids every machine that ran `make setup` has.
const (
	postgresql = "postgresql/15"
	mariadb    = "mysql/10.11"
)

var engines = []string{postgresql, mariadb}

// Templates of what most tests need.
var (
	ofPostgreSQL = harness.OfBuilds("postgresql-15")
	ofMariaDB    = harness.OfBuilds("mariadb-10.11")
)

// all reports whether what is much like another case is tried, too: `make test-engines`
// does. Engines with every scenario are for internal/engine/enginetest and
// internal/platform/host; here each kind of operation meets one of them.
func all() bool { return os.Getenv("STEWARD_TEST_ENGINES") == "all" }

// enginesOr are all engines, or the one that is enough.
func enginesOr(enough string) []string {
	if all() {
		return engines
	}
	return []string{enough}
}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
