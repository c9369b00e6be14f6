package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"steward/internal/await"
	"steward/internal/engine/enginetest"
)

// diskBounded takes disk in the ways that the server can bound, beyond what the
// plan has for it.
func diskBounded(t *testing.T, s *enginetest.Server) {
	s.Exec(t, "CREATE TABLE large (v longblob)", "CREATE TABLE n (v int)", "INSERT INTO n VALUES "+strings.TrimPrefix(strings.Repeat(", (1)", 20), ", "))
	db := s.DB(t, s.Login())
	for _, q := range []string{"SET SESSION tmp_disk_table_size = 1 << 50", "SET SESSION max_error_count = 65535"} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Logf("%s: %v", q, err)
		}
	}
	refused(t, db, "dbadmin", "SET SESSION max_binlog_cache_size = 1 << 50",
		// 400 MiB in one transaction.
		"INSERT INTO large SELECT REPEAT('x', 1 << 20) FROM n a, n b")
	if got := s.Text(t, "SELECT COUNT(*) FROM large"); got != "0" {
		t.Errorf("%s rows of a transaction that is too large", got)
	}
	if onlyMariaDB(s.Bench) {
		refused(t, db, "dbadmin", "SELECT DISTINCT CONCAT(UUID(), REPEAT('x', 1 << 20)) FROM n a, n b")
	}
	var kept int
	if err := db.QueryRowContext(t.Context(), "SELECT @@SESSION.max_error_count").Scan(&kept); err != nil || kept != 64 {
		t.Errorf("%d warnings are kept, %v", kept, err)
	}
	chatter(t, s)
}

// chatter has an event warn as often as it can: all of it would go to the log.
func chatter(t *testing.T, s *enginetest.Server) {
	t.Helper()
	more := ""
	if onlyMariaDB(s.Bench) { // MySQL has no customer set it
		more = "SET SESSION max_error_count = 65535;"
	}
	s.Exec(t, `CREATE EVENT chatter ON SCHEDULE EVERY 1 SECOND ENABLE DO BEGIN
		DECLARE i INT DEFAULT 0;
		`+more+`
		INSERT INTO n VALUES (2);
		WHILE i < 20000 DO
			SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'a warning that is as long as it can be, for it is to fill the disk of a server';
			SET i = i + 1;
		END WHILE;
	END`)
	const runs = 3
	await.True(t, "the event has run", func() bool { return s.Text(t, fmt.Sprintf("SELECT COUNT(*) > %d FROM n WHERE v = 2", runs)) == "1" })
	s.Exec(t, "DROP EVENT chatter")
	if size := len(s.Console(t)); size > 1<<20 {
		t.Errorf("an event made %d KiB of log in %d seconds", size>>10, runs)
	}
}
