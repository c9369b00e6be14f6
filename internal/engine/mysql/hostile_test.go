package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

// hangingTable is one that somebody holds while it is checked.
func hangingTable(t *testing.T, s *enginetest.Server) {
	b := s.Bench
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

// largestOfMany tables are found where there are so many that MariaDB doesn't open all of them: the largest are those that the list of all has, whatever their names, and partitioned ones among them.
func largestOfMany(t *testing.T, s *enginetest.Server) {
	b := s.Bench
	const small, large, most = 1100, 8, 5 // MariaDB isn't asked to open more than 1000
	db := s.DB(t, s.Login())
	defer db.Close()
	for i := range small {
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf("CREATE TABLE small_%d (v int PRIMARY KEY)", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range large {
		name, parts := "`groß #p#\"/%\x01 "+strconv.Itoa(i)+"`", ""
		if i%2 == 1 {
			parts = " PARTITION BY HASH (v) PARTITIONS 4"
		}
		s.Exec(t, "CREATE TABLE "+name+" (v int PRIMARY KEY AUTO_INCREMENT, t longtext)"+parts,
			fmt.Sprintf("INSERT INTO %s (t) WITH RECURSIVE n AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM n WHERE v < %d) SELECT REPEAT('x', 60000) FROM n", name, 40*(i+1)),
			"ANALYZE TABLE "+name)
	}
	const all = `SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'defaultdb' ORDER BY DATA_LENGTH + INDEX_LENGTH DESC LIMIT 5`
	rows, err := asAdmin(t, s).QueryContext(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var want, got []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	opened := func() string {
		return adminText(t, s, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Opened_tables'")
	}
	if _, err := asAdmin(t, s).ExecContext(t.Context(), "FLUSH TABLES"); err != nil {
		t.Fatal(err)
	}
	before := opened()
	tables, err := b.Driver.Tables(t.Context(), s.Node, most)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tables {
		if got = append(got, one.Table); one.Database != "defaultdb" || one.Bytes < 1<<20 || one.Rows == 0 {
			t.Errorf("%+v", one)
		}
	}
	if !slices.Equal(got, want) || len(want) != most {
		t.Errorf("the largest are %q, not %q", got, want)
	}
	first, _ := strconv.Atoi(before)
	last, _ := strconv.Atoi(opened())
	if n := last - first; n > small/4 {
		t.Errorf("%d tables were opened", n)
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
func measuresAmongEnemies(t *testing.T, s *enginetest.Server) {
	b := s.Bench
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
	admin := asAdmin(t, s)
	allowed := enginetest.MeasuresThroughResets(t, s, reset, func(ctx context.Context, sql string) error {
		_, err := admin.ExecContext(ctx, sql)
		return err
	}, "UPDATE work SET v = v + 10 ORDER BY v DESC", "DELETE FROM work WHERE v > 1000", "ROLLBACK")
	t.Logf("of a customer's own: %q", allowed)
	if n := adminText(t, s, "SELECT COUNT(*) FROM defaultdb.traps"); n != "0" {
		t.Errorf("%s traps were sprung", n)
	}
}
