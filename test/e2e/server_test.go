package e2e

import (
	"sync"
	"testing"

	"steward/test/harness"
)

// TestServer asks one server what needs none of its own; those that need a database share one.
func TestServer(t *testing.T) {
	t.Parallel()
	s := harness.Prepare(t, ofPostgreSQL)
	others := occupy(t, s)
	s.Start()
	database := sync.OnceValue(func() harness.Database { return s.CreateActive(harness.Small("any", postgresql)) })
	for _, c := range []struct {
		name string
		try  func(*testing.T, *harness.Server)
	}{
		{"audit", audit}, // first: it demands all that was done
		{"ports of other programs", func(t *testing.T, s *harness.Server) { otherPorts(t, s, others) }},
		{"metrics are apart from the API", metricsAreApart},
		{"managed errors", managedErrors},
		{"machines", machines},
		{"second serve", secondServe},
		{"accounts", accounts},
		{"migrations are kept in", func(t *testing.T, s *harness.Server) { migrationsAreKeptIn(t, s, database()) }},
		{"dumps", func(t *testing.T, s *harness.Server) { dumps(t, s, database()) }},
		{"kill", func(t *testing.T, s *harness.Server) { kills(t, s, database()) }},
	} {
		t.Run(c.name, func(t *testing.T) { c.try(t, s) })
	}
}
