package migration_test

import (
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/migration"
)

// TestValidateMode: what can be followed, and what is told of the rest.
func TestValidateMode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		engine cluster.Engine
		mode   migration.Mode
		want   string
	}{
		{cluster.PostgreSQL, migration.Dump, ""},
		{cluster.PostgreSQL, migration.Replicate, ""},
		{cluster.MySQL, migration.Dump, ""},
		{cluster.MySQL, migration.Replicate, ""},
		{cluster.PostgreSQL, "copy", "Must be dump or replicate"},
	} {
		m := migration.Migration{
			Source: migration.Source{Host: "db.example.org", Port: 5432, Username: "mover", TLS: migration.Verify}, Mode: c.mode,
			Databases: []migration.Database{{From: "shop", To: "shop"}},
		}
		var reasons []string
		for _, f := range migration.Validate(c.engine, m, "secret") {
			reasons = append(reasons, f.Reason)
		}
		got := strings.Join(reasons, "")
		if got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.mode, c.engine, got, c.want)
		}
	}
}
