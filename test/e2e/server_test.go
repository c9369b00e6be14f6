package e2e

import (
	"testing"

	"steward/test/harness"
)

// TestServer asks one server what needs no database.
func TestServer(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	for _, c := range []struct {
		name string
		try  func(*testing.T, *harness.Server)
	}{
		{"audit", audit}, // first: it demands all that was done
		{"metrics are apart from the API", metricsAreApart},
		{"managed errors", managedErrors},
		{"machines", machines},
		{"second serve", secondServe},
	} {
		t.Run(c.name, func(t *testing.T) { c.try(t, s) })
	}
}
