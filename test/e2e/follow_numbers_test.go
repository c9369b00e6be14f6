package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"steward/test/harness"
)

// TestFollowNumbersMariaDBThorough and TestFollowNumbersMySQL: what a source has numbered isn't numbered so again here, also where the rows are gone that had the last numbers.
func TestFollowNumbersMariaDBThorough(t *testing.T) {
	t.Parallel()
	followNumbers(t, mariadb, harness.MariaDBByHand(t), "CREATE SEQUENCE plain", "CREATE SEQUENCE `odd ``one` START WITH -5 INCREMENT BY -3 MINVALUE -100000 NOCACHE", "CREATE SEQUENCE circle MAXVALUE 10 CACHE 3 CYCLE",
		"CREATE SEQUENCE unused", "CREATE SEQUENCE spent MAXVALUE 2", "CREATE TABLE numbered (n bigint PRIMARY KEY DEFAULT (NEXT VALUE FOR plain), v int)")
}

func TestFollowNumbersMySQL(t *testing.T) {
	t.Parallel()
	followNumbers(t, "mysql/9.7", harness.MySQLByHand(t))
}

func followNumbers(t *testing.T, engine string, src harness.Source, sequences ...string) {
	t.Helper()
	exec1(t, src.Open(t, ""), "CREATE DATABASE shop; SET GLOBAL binlog_format = ROW")
	shop := src.Open(t, "shop")
	for _, statement := range append([]string{
		"CREATE TABLE before_copy (id int AUTO_INCREMENT PRIMARY KEY)", "INSERT INTO before_copy VALUES (), (), ()", "DELETE FROM before_copy WHERE id > 1",
		"CREATE TABLE after_copy (id bigint unsigned AUTO_INCREMENT PRIMARY KEY)", "CREATE TABLE emptied (v int, id int AUTO_INCREMENT, KEY (id))", "CREATE TABLE rolled_back (id int AUTO_INCREMENT PRIMARY KEY)",
		"CREATE TABLE `odd ``name` (`i``d` int AUTO_INCREMENT PRIMARY KEY)",
	}, sequences...) {
		exec1(t, shop, statement)
	}
	next := []string{"NEXTVAL(plain)", "NEXTVAL(`odd ``one`)", "NEXTVAL(circle)", "NEXTVAL(unused)"}[:max(0, len(sequences)-2)]
	given := map[string][]string{}
	give := func() {
		t.Helper()
		for _, sequence := range next[:max(0, len(next)-1)] { // all but the unused one
			given[sequence] = append(given[sequence], one(t, shop, "SELECT "+sequence))
		}
	}
	give()
	s := harness.New(t, importing, ofMariaDB, harness.OfBuilds("mysql-"))
	d := s.CreateActive(harness.Small("numbers", engine))
	m := beginFollowing(t, s, d, followed(src, "shop"))
	for range 1500 { // more than a sequence notes at once
		give()
	}
	for _, statement := range []string{
		"INSERT INTO after_copy VALUES (), (), (), ()", "DELETE FROM after_copy", "INSERT INTO emptied (v) VALUES (1), (2), (3)", "DELETE FROM emptied", "START TRANSACTION; INSERT INTO rolled_back VALUES (), (); ROLLBACK",
		"INSERT INTO `odd ``name` VALUES (41)", "DELETE FROM `odd ``name`",
	} {
		exec1(t, shop, statement)
	}
	if len(sequences) > 0 {
		exec1(t, shop, "INSERT INTO numbered (v) VALUES (1), (2)")
		given[next[0]] = append(given[next[0]], one(t, shop, "SELECT MAX(n) FROM numbered"))
		exec1(t, shop, "DO NEXTVAL(spent), NEXTVAL(spent)")
	}
	if status, body := s.Call("POST", fmt.Sprintf("%s/migrations/%d/cutover", d.Path(), m.ID), nil, nil); status != http.StatusOK {
		t.Fatalf("cutover: %d %s", status, body)
	}
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "finished" {
		t.Fatalf("it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	c := s.Credentials(d)
	c.Logical = "shop"
	moved := s.MustConnect(d, c)
	for _, table := range []string{"before_copy", "after_copy", "emptied", "rolled_back", "`odd ``name`"} {
		statement := "INSERT INTO " + table + " VALUES ()"
		exec1(t, moved, statement)
		exec1(t, shop, statement)
		last := "SELECT MAX(" + map[bool]string{true: "`i``d`", false: "id"}[strings.HasPrefix(table, "`")] + ") FROM " + table
		if here, there := one(t, moved, last), one(t, shop, last); here != there {
			t.Errorf("%s: the next number is %s, at the source %s", table, here, there)
		}
	}
	if len(sequences) > 0 {
		var n int
		if err := moved.QueryRowContext(t.Context(), "SELECT NEXTVAL(spent)").Scan(&n); err == nil {
			t.Errorf("a sequence that has given all gives %d", n)
		}
	}
	for _, sequence := range next {
		here, there := one(t, moved, "SELECT "+sequence), one(t, shop, "SELECT "+sequence)
		t.Logf("%s: %s, at the source %s", sequence, here, there)
		if !strings.Contains(sequence, "circle") && slices.Contains(given[sequence], here) {
			t.Errorf("%s gives %s again", sequence, here)
		}
	}
}
