package e2e

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/test/harness"
)

// shopOfMariaDB is a database with what following has to mind: types, keys that are and aren't there, cascades, columns that are computed, a sequence, what acts on rows.
var shopOfMariaDB = []string{
	"CREATE TABLE customers (id int AUTO_INCREMENT PRIMARY KEY, name varchar(200) NOT NULL, photo blob, mood enum('good', 'bad') NOT NULL DEFAULT 'good', upper_name varchar(200) AS (UPPER(name)) VIRTUAL)",
	"CREATE TABLE orders (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, customer int NOT NULL, note mediumtext, at timestamp(3) NOT NULL DEFAULT NOW(3), FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE)",
	"CREATE TABLE kinds (id int PRIMARY KEY, a tinyint unsigned, b smallint, c mediumint unsigned, d bigint, e float, f double, g decimal(30, 10), h bit(13), i year, j date, k time(2), l datetime(6), m timestamp NULL," +
		" n char(40), o varchar(300), p varbinary(20), q tinytext, r text, s longblob, t set('x', 'y', 'z'), u json, v point, w char(3) CHARACTER SET latin1, x time, y datetime, z char(90) CHARACTER SET utf8mb4)",
	"CREATE TABLE keyless (n int, v varchar(20))",
	"CREATE TABLE emptied (n int PRIMARY KEY)",
	"CREATE TABLE pairs_a (n int AUTO_INCREMENT PRIMARY KEY)",
	"CREATE TABLE pairs_b (n int AUTO_INCREMENT PRIMARY KEY)",
	"CREATE TABLE `odd ``name` (`co``l` int PRIMARY KEY, d int)",
	"CREATE TABLE parted (n int PRIMARY KEY, v int) PARTITION BY HASH (n) PARTITIONS 3",
	"CREATE TABLE noted (n int)",
	"CREATE VIEW names AS SELECT name FROM customers",
	"CREATE TRIGGER touch BEFORE INSERT ON orders FOR EACH ROW SET NEW.note = COALESCE(NEW.note, 'touched')",
	"CREATE TRIGGER remember AFTER INSERT ON customers FOR EACH ROW INSERT INTO noted VALUES (NEW.id)",
	"CREATE EVENT later ON SCHEDULE AT '2037-01-01 00:00:00' DO DELETE FROM noted",
	"CREATE PROCEDURE twice(IN n int) BEGIN SELECT n * 2; END",
}

const kindsRow = "%d, 255, -32768, 16777215, -9223372036854775808, 1.5, -2.25, -12345678901234567890.0123456789, b'1010101010101', 2026, '2026-11-25', '-838:59:58.99', '1000-01-01 00:00:00.000001', '2026-11-25 12:00:00'," +
	" 'Ä', REPEAT('ö', 300), x'00ff00', '', REPEAT('t', 60000), x'00', 'x,z', '{\"a\": [1, null, \"b\"]}', POINT(1, -2), 'é', '12:34:56', '9999-12-31 23:59:59', REPEAT('€', 90)"

// sumsOfMariaDB are what is compared on both sides.
var sumsOfMariaDB = []string{
	"SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(CONCAT_WS('#', id, name, HEX(photo), mood, upper_name)))) FROM customers",
	"SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(CONCAT_WS('#', id, customer, note, at)))) FROM orders",
	"SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(CONCAT_WS('#', id, a, b, c, d, e, f, g, h + 0, i, j, k, l, m, n, o, HEX(p), q, r, HEX(s), t, u, ST_AsText(v), w, x, y, z)))) FROM kinds",
	"SELECT CONCAT(COUNT(*), ' ', SUM(n), ' ', SUM(CRC32(v))) FROM keyless",
	"SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(n), 0)) FROM emptied",
	"SELECT CONCAT(COUNT(*), ' ', MAX(n)) FROM pairs_a", "SELECT CONCAT(COUNT(*), ' ', MAX(n)) FROM pairs_b",
	"SELECT CONCAT(COUNT(*), ' ', SUM(d)) FROM `odd ``name`",
	"SELECT CONCAT(COUNT(*), ' ', SUM(v)) FROM parted",
	"SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM noted",
}

// keeps is a change of what shopOfMariaDB has, of one or more rows, or one that is rolled back. A copy of a table that is emptied meanwhile begins anew, so
// that who empties one all the time waits until all is copied.
func keeps(r *rand.Rand, i int, copied bool) string {
	if i%20 == 19 && copied {
		return "TRUNCATE emptied; INSERT INTO emptied VALUES (1), (2), (3)"
	}
	id := 1 + r.IntN(500)
	return []string{
		fmt.Sprintf("START TRANSACTION; INSERT INTO customers (name, photo) VALUES ('new %d \\\\ \"quoted\" Ä', REPEAT('x', %d)); INSERT INTO orders (customer) VALUES (LAST_INSERT_ID()); COMMIT", i, r.IntN(20000)),
		fmt.Sprintf("UPDATE orders SET at = NOW(3) WHERE id = %d", id),
		fmt.Sprintf("UPDATE orders SET id = id + 1000000, note = NULL WHERE id = %d", 3000+id),
		fmt.Sprintf("DELETE FROM orders WHERE id = %d", 2000+id),
		fmt.Sprintf("DELETE FROM customers WHERE id = %d", 600+id), // and their orders
		fmt.Sprintf("UPDATE customers SET mood = 'bad', name = CONCAT(name, '!') WHERE id = %d", id),
		fmt.Sprintf("INSERT INTO keyless VALUES (%d, 'k'), (%d, 'k')", id, id),
		fmt.Sprintf("DELETE FROM keyless WHERE n = %d LIMIT 1", id),
		"UPDATE `odd ``name` SET d = d + 1",
		fmt.Sprintf("UPDATE parted SET v = v + 1, n = n + 5000 WHERE n = %d", r.IntN(1000)),
		fmt.Sprintf("START TRANSACTION; UPDATE customers SET name = 'never' WHERE id = %d; ROLLBACK", id),
		"START TRANSACTION; INSERT INTO pairs_a VALUES (); SAVEPOINT a; INSERT INTO pairs_a VALUES (); ROLLBACK TO a; INSERT INTO pairs_b VALUES (); COMMIT",
	}[r.IntN(12)]
}

// TestFollowMySQLThorough brings a database of MySQL over as TestMigrateMariaDBThorough does one of MariaDB.
func TestFollowMySQLThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, importing, harness.OfBuilds("mysql-"))
	followMySQLFamily(t, s, s.CreateActive(harness.Small("followed", "mysql/9.7")), harness.MySQLByHand(t), true)
}

// followMySQLFamily brings a database over that is written to until the cutover, through a kill -9: all rows are here once, and what acts on rows does so from the
// cutover on. It also ends by itself where what is followed isn't what it was, on either side; if all is to be tried, in each way.
func followMySQLFamily(t *testing.T, s *harness.Server, d harness.Database, src harness.Source, all bool) {
	t.Helper()
	owner := src.Open(t, "")
	exec1(t, owner, "CREATE DATABASE shop CHARACTER SET utf8mb4")
	shop := src.Open(t, "shop")
	for _, statement := range shopOfMariaDB {
		exec1(t, shop, statement)
	}
	exec1(t, shop, "INSERT INTO customers (name, photo) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 300) SELECT CONCAT('Ä ', n), UNHEX(SHA2(n, 256)) FROM s")
	exec1(t, shop, "INSERT INTO customers (name) SELECT CONCAT(name, ' again') FROM customers")
	exec1(t, shop, "INSERT INTO customers (name) SELECT CONCAT(name, ' again') FROM customers")
	exec1(t, shop, "INSERT INTO orders (customer, note) SELECT c.id, REPEAT(SHA2(c.id, 256), 4) FROM customers c JOIN (SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) x")
	exec1(t, shop, "INSERT INTO parted SELECT id, id FROM customers")
	exec1(t, shop, "INSERT INTO `odd ``name` SELECT id, 0 FROM customers WHERE id < 50")
	exec1(t, shop, "INSERT INTO kinds VALUES ("+fmt.Sprintf(kindsRow, 1)+")")

	check := func(username string) (possible bool, said string) {
		var report struct{ Possible bool }
		request := followed(src, "kept_up")
		request["source"].(map[string]any)["username"] = username
		status, body := s.Call("POST", d.Path()+"/migrations/check", request, &report)
		if status != http.StatusOK {
			t.Fatalf("check: %s", body)
		}
		return report.Possible, body
	}
	exec1(t, owner, "CREATE USER weak IDENTIFIED BY '"+strings.ReplaceAll(src.Password, `\`, `\\`)+"'; GRANT SELECT ON shop.* TO weak")
	unfollowable(t, owner, func() (bool, string) { return check("weak") })
	if possible, said := check("mover"); !possible || !strings.Contains(said, `"replicates":true`) {
		t.Fatalf("check: %s", said)
	}
	shop = src.Open(t, "shop") // whose sessions log rows
	var copied atomic.Bool
	slower, stop := customers(t, shop, func(r *rand.Rand, i int) string { return keeps(r, i, copied.Load()) })
	m := beginFollowing(t, s, d, followed(src, "kept_up"))
	copied.Store(true)
	s.Kill()
	exec1(t, shop, "INSERT INTO kinds VALUES ("+fmt.Sprintf(kindsRow, 2)+"), (3"+strings.Repeat(", NULL", 26)+")")
	exec1(t, shop, "UPDATE kinds SET u = JSON_SET(u, '$.c', 'more'), n = 'é', s = REPEAT('x', 3000000) WHERE id = 1")
	s.Start()
	awaitPhase(t, s, d, m.ID, "following")
	c := s.Credentials(d)
	c.Logical = "kept_up"
	moved := s.MustConnect(d, c)
	s.Eventually("what was written while steward was away is here", func() error {
		if n := one(t, moved, "SELECT COUNT(*) FROM kinds WHERE id > 1 OR LENGTH(s) = 3000000"); n != "3" {
			return fmt.Errorf("%s rows", n)
		}
		return nil
	})
	awaitCaughtUp(s, d, m.ID, slower)
	paused := cutOver(t, s, d, m.ID, func() (int, time.Time) {
		writes, last := stop()
		exec1(t, owner, "FLUSH BINARY LOGS") // the new one begins with what is no transaction
		return writes, last
	}, moved)
	t.Logf("from the last write at the source to the first here: %v", paused)
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "finished" || m.Problem != nil || !m.Databases[0].Done || m.Bytes == 0 || m.TablesDone == 0 {
		t.Fatalf("it ended as %+v (%v)", m, *orNothing(m.Problem))
	}
	for _, sum := range append(sumsOfMariaDB, "SELECT GROUP_CONCAT(TRIGGER_NAME ORDER BY 1) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE()",
		"SELECT GROUP_CONCAT(EVENT_NAME, STATUS, EXECUTE_AT ORDER BY 1) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE()") {
		if here, original := one(t, moved, sum), one(t, shop, sum); here != original {
			t.Errorf("%s: %s here, %s at the source", sum, here, original)
		}
	}
	exec1(t, moved, "INSERT INTO orders (customer) SELECT MIN(id) FROM customers")
	if note := one(t, moved, "SELECT note FROM orders ORDER BY id DESC LIMIT 1"); note != "touched" {
		t.Errorf("the trigger made %q of a new row", note)
	}
	if four := one(t, moved, "CALL twice(2)"); four != "4" {
		t.Errorf("the procedure says %s", four)
	}
	if n := one(t, moved, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'steward_follow'"); n != "0" {
		t.Error("what was noted of following is left")
	}
	endFollowingMySQLFamily(t, s, d, src, shop, all)
}

// unfollowable: all that keeps a source from being followed is told at once, and so is what its user may not.
func unfollowable(t *testing.T, owner *sql.DB, check func() (possible bool, said string)) {
	t.Helper()
	var wrong []string
	for _, c := range []struct{ variable, bad, good, why string }{
		{"binlog_format", "MIXED", "ROW", "binlog_format is MIXED: set it to ROW"},
		{"binlog_row_image", "MINIMAL", "FULL", "binlog_row_image is MINIMAL: set it to FULL"},
		{"log_bin_compress", "ON", "OFF", "log_bin_compress is ON: set it to OFF"},
		{"binlog_transaction_compression", "ON", "OFF", "binlog_transaction_compression is ON: set it to OFF"},
		{"binlog_row_value_options", "PARTIAL_JSON", "", "binlog_row_value_options is PARTIAL_JSON: set it to nothing"},
	} {
		if _, err := owner.ExecContext(t.Context(), "SET GLOBAL "+c.variable+" = '"+c.bad+"'"); err != nil {
			continue // of the other make
		}
		wrong = append(wrong, c.why)
		defer exec1(t, owner, "SET GLOBAL "+c.variable+" = '"+c.good+"'")
	}
	const settings = 3
	if len(wrong) < settings {
		t.Fatalf("no source has only %q to be set", wrong)
	}
	for table, c := range map[string]struct{ statement, why string }{
		"outside": {"CREATE TABLE shop.outside (n int) ENGINE = MyISAM", "aren't in InnoDB, which can't be followed: outside"}, "steward_follow": {"CREATE TABLE shop.steward_follow (n int)", "It has a table steward_follow"},
		"old": {"CREATE TABLE shop.old (n int) WITH SYSTEM VERSIONING", "system-versioned tables, whose history can't be followed: old"},
	} {
		if _, err := owner.ExecContext(t.Context(), c.statement); err != nil {
			continue // the same
		}
		wrong = append(wrong, c.why)
		defer exec1(t, owner, "DROP TABLE shop."+table)
	}
	possible, said := check()
	if possible || !strings.Contains(said, `"replicates":false`) {
		t.Errorf("a source that can't be followed: %s", said)
	}
	for _, why := range append(wrong, "The user may not follow the source", "which have no key, reads all of one here: keyless, noted") {
		if !strings.Contains(said, why) {
			t.Errorf("%q isn't told: %s", why, said)
		}
	}
}

// endFollowingMySQLFamily: by a change of the source's tables or of rows here, following ends and leaves nothing; so it does, if all is to be tried, when it is
// cancelled, and by what a log has of no rows.
func endFollowingMySQLFamily(t *testing.T, s *harness.Server, d harness.Database, src harness.Source, shop *sql.DB, all bool) {
	t.Helper()
	var begun []string
	ends := func(as, status, why string, do func(m migrated, here *sql.DB)) {
		t.Helper()
		begun = append(begun, as)
		m := beginFollowing(t, s, d, followed(src, as))
		c := s.Credentials(d)
		c.Logical = as
		do(m, s.MustConnect(d, c))
		if m = awaitMigrated(t, s, d, m.ID); m.Status != status || !strings.Contains(*orNothing(m.Problem), why) {
			t.Errorf("%s ended as %s, %s", as, m.Status, *orNothing(m.Problem))
		}
	}
	ends("altered", "failed", "were changed (ALTER TABLE kinds", func(migrated, *sql.DB) { exec1(t, shop, "ALTER TABLE kinds ADD COLUMN more int DEFAULT 1") })
	ends("disturbed", "failed", "was changed here", func(_ migrated, here *sql.DB) {
		exec1(t, here, "DELETE FROM kinds")
		exec1(t, shop, "UPDATE kinds SET more = 2")
	})
	if all {
		ends("canceled", "canceled", "It was canceled.", func(m migrated, _ *sql.DB) {
			if status, body := s.Call("DELETE", fmt.Sprintf("%s/migrations/%d", d.Path(), m.ID), nil, nil); status != http.StatusOK {
				t.Fatal(body)
			}
		})
		ends("worded", "failed", "as statements", func(migrated, *sql.DB) {
			exec1(t, shop, "SET SESSION binlog_format = STATEMENT; INSERT INTO keyless VALUES (1, 'statement'); SET SESSION binlog_format = ROW")
		})
		ends("two_phases", "failed", "XA", func(migrated, *sql.DB) {
			exec1(t, shop, "XA START 'x'; INSERT INTO keyless VALUES (1, 'two'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'")
		})
	}
	var list struct{ Data []struct{ Name string } }
	s.Call("GET", d.Path()+"/databases", nil, &list)
	for _, database := range list.Data {
		if slices.Contains(begun, database.Name) {
			t.Errorf("%s is left", database.Name)
		}
	}
}

// TestFollowMariaDBOntoThreeNodesThorough brings two logical databases over in one migration onto three nodes that don't wait for each other, with rows that are large enough to
// take turns. The primary is killed while they follow, so that the next one may lack what was written last: all rows are here once nevertheless.
func TestFollowMariaDBOntoThreeNodesThorough(t *testing.T) {
	t.Parallel()
	src := harness.MariaDBByHand(t)
	owner := src.Open(t, "")
	exec1(t, owner, "SET GLOBAL binlog_format = ROW")
	s := harness.New(t, importing)
	spec := harness.Small("followed", mariadb)
	spec["cluster_size"], spec["replication_type"] = 3, "asynch"
	d := s.CreateActive(spec)
	request := from(src, src.Password, map[string]any{"name": "shop"}, map[string]any{"name": "books"})
	request["mode"] = "replicate"

	sources := map[string]*sql.DB{}
	stop, all := make(chan struct{}), &sync.WaitGroup{}
	for _, name := range []string{"shop", "books"} {
		exec1(t, owner, "CREATE DATABASE "+name)
		db := src.Open(t, name)
		exec1(t, db, "CREATE TABLE sales (id bigint AUTO_INCREMENT PRIMARY KEY, note longtext); INSERT INTO sales (note) SELECT MD5(seq) FROM seq_1_to_2000")
		sources[name] = db
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(8 * time.Millisecond): // what customers do between two purchases
				}
				statement := []string{"INSERT INTO sales (note) VALUES ('small')", "UPDATE sales SET note = CONCAT(note, 'u') WHERE id = %d", "DELETE FROM sales WHERE id = %d"}[n%3]
				if strings.Contains(statement, "%d") {
					statement = fmt.Sprintf(statement, 1+n%2000)
				}
				if n%150 == 0 && n < 150*16 { // their servers' data is in memory, and counts as theirs
					statement = "INSERT INTO sales (note) VALUES (REPEAT(MD5(RAND()), 100000))" // 3 MB
				}
				_, _ = db.ExecContext(t.Context(), statement) // what isn't written there isn't to be here
			}
		})
	}
	m := beginFollowing(t, s, d, request)
	killed := s.Primary(d).Pid
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d = s.AwaitHealthy(d, 3, killed)
	close(stop)
	all.Wait()
	if status, body := s.Call("POST", fmt.Sprintf("%s/migrations/%d/cutover", d.Path(), m.ID), nil, nil); status != http.StatusOK {
		t.Fatalf("cutover: %d %s", status, body)
	}
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "finished" || m.Problem != nil {
		t.Fatalf("it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	const sum = "SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(CONCAT_WS('#', id, note)))) FROM sales"
	for name, db := range sources {
		c := s.Credentials(d)
		c.Logical = name
		if got, want := one(t, s.MustConnect(d, c), sum), one(t, db, sum); got != want {
			t.Errorf("%s: %s here, %s at the source", name, got, want)
		}
	}
}
