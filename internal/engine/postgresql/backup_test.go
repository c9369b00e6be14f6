package postgresql

import (
	"context"
	"strings"
	"testing"
	"time"

	"steward/internal/engine/enginetest"
)

func backupChecks() []enginetest.Check {
	return []enginetest.Check{{Name: "check looks into indexes", Run: indexDamage}}
}

// indexDamage makes an index lie with every page of it intact: the function it
// is made of changes.
func indexDamage(t *testing.T, b *enginetest.Bench) {
	s := b.Started(t)
	s.Exec(t, "CREATE FUNCTION shift(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1'",
		"CREATE TABLE shifted (v int, w text)", "INSERT INTO shifted SELECT v, repeat('wide ', 1000) FROM generate_series(1, 100) v",
		"CREATE INDEX lying ON shifted (shift(v))")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.Driver.Check(ctx, s.Node); err != nil {
		t.Fatalf("check of a sound index: %v", err)
	}
	s.Exec(t, "CREATE OR REPLACE FUNCTION shift(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 2'")
	err := b.Driver.Check(ctx, s.Node)
	if err == nil || !strings.Contains(err.Error(), "database defaultdb: public.lying: ") {
		t.Errorf("check of an index that lies: %v", err)
	}
	if got := s.Text(t, "SELECT count(*) FROM pg_extension WHERE extname = 'amcheck'"); got != "0" {
		t.Error("the extension is left")
	}
}
