package mysql_test

import (
	"slices"
	"strings"
	"testing"

	"steward/internal/engine/enginetest"
)

// forAll are the tables that servers show everybody: what SHOW STATUS and SHOW VARIABLES do, and of sessions one's own.
var forAll = []string{
	"global_status", "global_variables", "session_status", "session_variables", "persisted_variables", "variables_info", "processlist", "log_status",
	"session_account_connect_attrs", "keyring_component_status", "user_defined_functions", "tls_channel_status", "global_variable_attributes", "variables_metadata",
}

// threadsClosed: what performance_schema has of our sessions, no account of a customer's can read or switch, those of before it was
// closed neither.
func threadsClosed(t *testing.T, s *enginetest.Server) {
	b := s.Bench
	admin := asAdmin(t, s)
	before := []string{"GRANT SELECT ON `performance\\_schema`.* TO 'dbadmin'@'%'"}
	if !onlyMariaDB(b) {
		s.Exec(t, "CREATE USER spy IDENTIFIED BY 'spy-Zq81-spy'", "CREATE ROLE spying")
		before = []string{
			"GRANT SELECT, UPDATE, DELETE, DROP, INSERT ON performance_schema.* TO dbadmin", "GRANT SELECT, UPDATE ON *.* TO spy", "GRANT SELECT ON *.* TO spying", "GRANT spying TO spy",
		}
	}
	for _, q := range before {
		if _, err := admin.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	s.Exec(t, "SELECT 1 FROM performance_schema.threads LIMIT 1") // as it was
	for range 2 {
		if err := b.Driver.Fence(t.Context(), s.Node); err != nil {
			t.Fatal(err)
		}
	}
	logins := []enginetest.Login{s.Login()}
	if !onlyMariaDB(b) {
		spy := s.Login()
		spy.User, spy.Password, spy.Database = "spy", "spy-Zq81-spy", ""
		logins = append(logins, spy)
		if _, err := admin.ExecContext(t.Context(), "SET DEFAULT ROLE ALL TO spy"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.ExecContext(t.Context(), "SET GLOBAL group_concat_max_len = 100000"); err != nil {
		t.Fatal(err)
	}
	tables := strings.Fields(adminText(t, s, "SELECT GROUP_CONCAT(TABLE_NAME SEPARATOR ' ') FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'performance_schema'"))
	if len(tables) < 50 {
		t.Fatalf("only %d tables", len(tables))
	}
	for _, l := range logins {
		db := s.DB(t, l)
		for _, table := range tables {
			_, err := db.ExecContext(t.Context(), "SELECT * FROM performance_schema."+table+" LIMIT 1")
			if err == nil && !slices.Contains(forAll, table) {
				t.Errorf("%s reads %s", l.User, table)
			}
			for _, change := range []string{"TRUNCATE TABLE performance_schema." + table, "DELETE FROM performance_schema." + table} {
				if _, err := db.ExecContext(t.Context(), change); err == nil && table != "global_status" { // which MariaDB has everybody do: FLUSH STATUS
					t.Errorf("%s: %s", l.User, change)
				}
			}
		}
		for _, change := range []string{
			"UPDATE performance_schema.setup_actors SET ENABLED = 'YES'", "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'",
			"UPDATE performance_schema.setup_instruments SET ENABLED = 'YES'", "UPDATE performance_schema.threads SET INSTRUMENTED = 'YES'",
		} {
			if _, err := db.ExecContext(t.Context(), change); err == nil {
				t.Errorf("%s: %s", l.User, change)
			}
		}
		for _, q := range []string{"SELECT COUNT(*) FROM performance_schema.processlist WHERE USER = 'steward'", "SELECT COUNT(*) FROM sys.processlist", "SELECT COUNT(*) FROM sys.session"} {
			var n int
			if err := db.QueryRowContext(t.Context(), q).Scan(&n); err == nil && n > 0 {
				t.Errorf("%s: %s: %d", l.User, q, n)
			}
		}
		db.Close()
	}
	if mb := adminText(t, s, "SELECT @@performance_schema"); mb != "1" {
		t.Error("performance_schema is off, so this proves nothing")
	}
}
