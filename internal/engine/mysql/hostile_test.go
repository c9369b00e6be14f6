package mysql_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/engine/mysql"
)

// TestHostileCustomers is what customers do to hold up or break backups.
func TestHostileCustomers(t *testing.T) {
	t.Parallel()
	d := mysql.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	for _, inst := range enginetest.Installations(t, d) {
		t.Run(inst.ID(), func(t *testing.T) {
			t.Parallel()
			b := enginetest.NewBench(t, d, inst, enginetest.Options{Open: open})
			b.Case(t, "a table that hangs holds up the check of no other", hangingTable)
		})
	}
}

// hangingTable is one that somebody holds while it is checked.
func hangingTable(t *testing.T, b *enginetest.Bench) {
	s := b.Started(t)
	s.Exec(t, "CREATE TABLE held (v int PRIMARY KEY)", "CREATE TABLE later (v int PRIMARY KEY)")
	db := s.DB(t, s.Login())
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "LOCK TABLES held WRITE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, within := range map[string]time.Duration{"ended": 2 * time.Second, "the lock isn't had": 30 * time.Second} {
		err := b.Driver.Check(ctx, s.Node, func(int64) time.Duration { return within })
		if !errors.Is(err, engine.ErrUnchecked) || !strings.HasSuffix(err.Error(), ": `defaultdb`.`held`") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := adminText(t, s, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'CHECK TABLE%'"); n != "0" {
		t.Errorf("%s statements of ours hang on", n)
	}
}
