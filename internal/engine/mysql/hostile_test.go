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
			b.Case(t, "a meter measures among enemies", measuresAmongEnemies)
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

// planted are things of a customer's that have the names which the meter asks for.
var planted = []string{
	"CREATE DATABASE information_schema_", "CREATE TABLE information_schema_.PROCESSLIST (ID int)", "CREATE TABLE TABLES (TABLE_NAME int)",
	"CREATE TABLE traps (what varchar(20))", "CREATE TABLE PROCESSLIST (ID int)", "CREATE VIEW INNODB_TRX AS SELECT 1 AS trx_mysql_thread_id", "CREATE VIEW GLOBAL_STATUS AS SELECT 'Questions' AS VARIABLE_NAME, -1 AS VARIABLE_VALUE",
	"CREATE FUNCTION TIMESTAMPDIFF_(a int) RETURNS int DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO traps VALUES ('function'); RETURN 1; END",
	"CREATE VIEW sprung AS SELECT TIMESTAMPDIFF_(1) AS v", "CREATE TABLE `x') UNION SELECT sleep(100); --` (v int PRIMARY KEY)",
}

// measuresAmongEnemies has a customer plant names, and the statistics reset between readings: rates have gaps then, and no spikes.
func measuresAmongEnemies(t *testing.T, b *enginetest.Bench) {
	s := b.Started(t)
	s.Exec(t, planted...)
	s.Exec(t, "CREATE TABLE work (v int PRIMARY KEY)", "INSERT INTO work VALUES (1), (2), (3)")
	m, err := b.Driver.OpenMeter(t.Context(), s.Node)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tables, err := b.Driver.Tables(t.Context(), s.Node, 50)
	if err != nil || len(tables) < 5 {
		t.Errorf("%d tables, %v", len(tables), err)
	}
	if _, err := m.Families(t.Context()); err != nil {
		t.Error(err)
	}
	reset := []string{"FLUSH STATUS"}
	if b.Installation.Flavour == engine.FlavourMariaDB {
		reset = append(reset, "FLUSH TABLE_STATISTICS", "FLUSH USER_STATISTICS")
	}
	enginetest.MeasuresThroughResets(t, m, func() {
		for _, q := range reset {
			if _, err := asAdmin(t, s).ExecContext(t.Context(), q); err != nil {
				t.Errorf("%s: %v", q, err)
			}
		}
		s.Exec(t, "UPDATE work SET v = v + 10 ORDER BY v DESC", "DELETE FROM work WHERE v > 1000", "ROLLBACK")
	})
	if n := adminText(t, s, "SELECT COUNT(*) FROM defaultdb.traps"); n != "0" {
		t.Errorf("%s traps were sprung", n)
	}
}
