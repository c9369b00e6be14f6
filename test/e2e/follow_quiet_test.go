package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steward/test/harness"
)

// TestFollowQuietPostgreSQL and TestFollowQuietMariaDBThorough: a source that stands still, or whose network does, right before or after the cutover was asked for. That is told, the
// cutover is completed with all rows once it goes on, and can be cancelled before.
func TestFollowQuietPostgreSQL(t *testing.T) {
	t.Parallel()
	src, shop := followable(t)
	exec1(t, shop, "CREATE TABLE sold (n bigserial PRIMARY KEY, note text); INSERT INTO sold (note) SELECT md5(g::text) FROM generate_series(1, 1000) g")
	followQuiet(t, postgresql, src, shop, "INSERT INTO sold (note) SELECT md5(g::text) FROM generate_series(1, 200000) g", "SELECT count(*) || ' ' || sum(hashtext(note)) FROM sold")
	nothingLeftBut(t, shop, 1) // of the one that was cancelled while nobody answered
}

func TestFollowQuietMariaDBThorough(t *testing.T) {
	t.Parallel()
	src := harness.MariaDBByHand(t)
	exec1(t, src.Open(t, ""), "CREATE DATABASE shop; SET GLOBAL binlog_format = ROW")
	shop := src.Open(t, "shop")
	exec1(t, shop, "CREATE TABLE sold (n bigint AUTO_INCREMENT PRIMARY KEY, note text); INSERT INTO sold (note) SELECT MD5(seq) FROM seq_1_to_1000")
	followQuiet(t, mariadb, src, shop, "INSERT INTO sold (note) SELECT MD5(seq) FROM seq_1_to_200000", "SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(note))) FROM sold")
}

// nothingLeftBut: a source keeps only so many slots.
func nothingLeftBut(t *testing.T, source *sql.DB, slots int) {
	t.Helper()
	if n := one(t, source, "SELECT count(*)::text FROM pg_replication_slots"); n != fmt.Sprint(slots) {
		t.Errorf("%s slots are left at the source", n)
	}
}

func followQuiet(t *testing.T, engine string, src harness.Source, shop *sql.DB, more, sum string) {
	t.Helper()
	s := harness.New(t, harness.WithConfig("imports:\n  networks: [127.0.0.0/8]"))
	d := s.CreateActive(harness.Small("quiet", engine))
	path := func(m migrated) string { return fmt.Sprintf("%s/migrations/%d", d.Path(), m.ID) }
	cutOver := func(m migrated) {
		t.Helper()
		if status, body := s.Call("POST", path(m)+"/cutover", nil, nil); status != http.StatusOK {
			t.Fatalf("cutover: %d %s", status, body)
		}
	}
	told := func(m migrated) {
		t.Helper()
		s.Eventually("it is told that the source sends nothing", func() error {
			var now migrated
			_, body := s.Call("GET", path(m), nil, &now)
			if now.Status != "running" || now.LagSeconds == nil || *now.LagSeconds < 10 || !strings.HasPrefix(*orNothing(now.Problem), "The source has sent nothing for 1") {
				return fmt.Errorf("it says %s", body)
			}
			return nil
		})
		if out, err := s.Command("db", "migration", "view", "quiet", fmt.Sprint(m.ID)); err != nil || !strings.Contains(out, "The source has sent nothing for") {
			t.Errorf("view: %v\n%s", err, out)
		}
	}
	finished := func(m migrated, as string) {
		t.Helper()
		if m = awaitMigrated(t, s, d, m.ID); m.Status != "finished" || m.Problem != nil {
			t.Fatalf("%s ended as %s, %s", as, m.Status, *orNothing(m.Problem))
		}
		c := s.Credentials(d)
		c.Logical = as
		if here, original := one(t, s.MustConnect(d, c), sum), one(t, shop, sum); here != original {
			t.Errorf("%s: %s here, %s at the source", as, here, original)
		}
	}

	quiet, hush, speak := src.Quiet(t)
	m := beginFollowing(t, s, d, followed(quiet, "network"))
	hush()
	exec1(t, shop, "INSERT INTO sold (note) VALUES ('unheard')")
	cutOver(m)
	told(m)
	speak()
	finished(m, "network")

	m = beginFollowing(t, s, d, followed(src, "frozen"))
	exec1(t, shop, more)
	cutOver(m)
	thaw := src.Freeze(t)
	told(m)
	thaw()
	finished(m, "frozen")

	m = beginFollowing(t, s, d, followed(src, "canceled"))
	thaw = src.Freeze(t)
	cutOver(m)
	told(m)
	if status, body := s.Call("DELETE", path(m), nil, nil); status != http.StatusOK {
		t.Fatal(body)
	}
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "canceled" || !strings.HasPrefix(*orNothing(m.Problem), "It was canceled.") {
		t.Errorf("it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	thaw()
}
