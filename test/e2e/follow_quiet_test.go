package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steward/test/harness"
)

// quiet is a migration that follows a source which stands still, or whose network does, right before or after the cutover was asked for.
type quiet struct {
	t    *testing.T
	s    *harness.Server
	d    harness.Database
	src  harness.Source
	shop *sql.DB
	// more writes much at the source, sum is what is compared on both sides.
	more, sum string
}

func newQuiet(t *testing.T, engine string, src harness.Source, shop *sql.DB, more, sum string) quiet {
	t.Helper()
	s := harness.New(t, importing, ofPostgreSQL, ofMariaDB)
	return quiet{t, s, s.CreateActive(harness.Small("quiet", engine)), src, shop, more, sum}
}

// soldByPostgreSQL makes the table of a source that falls quiet; sumOfSold is what is compared.
const (
	soldByPostgreSQL = "CREATE TABLE sold (n bigserial PRIMARY KEY, note text); INSERT INTO sold (note) SELECT md5(g::text) FROM generate_series(1, 1000) g"
	sumOfSold        = "SELECT count(*) || ' ' || sum(hashtext(note)) FROM sold"
)

func quietPostgreSQL(t *testing.T) quiet {
	t.Helper()
	src, shop := followable(t)
	exec1(t, shop, soldByPostgreSQL)
	return newQuiet(t, postgresql, src, shop, "INSERT INTO sold (note) SELECT md5(g::text) FROM generate_series(1, 200000) g", sumOfSold)
}

func quietMariaDB(t *testing.T) quiet {
	t.Helper()
	src := harness.MariaDBByHand(t)
	exec1(t, src.Open(t, ""), "CREATE DATABASE shop; SET GLOBAL binlog_format = ROW")
	shop := src.Open(t, "shop")
	exec1(t, shop, "CREATE TABLE sold (n bigint AUTO_INCREMENT PRIMARY KEY, note text); INSERT INTO sold (note) SELECT MD5(seq) FROM seq_1_to_1000")
	return newQuiet(t, mariadb, src, shop, "INSERT INTO sold (note) SELECT MD5(seq) FROM seq_1_to_200000", "SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(note))) FROM sold")
}

// TestFollowQuietThorough: that a source is quiet is told, and the cutover is completed with all rows once it goes on, or cancelled before. TestMigratePostgreSQL has
// a network that is.
func TestFollowQuietThorough(t *testing.T) {
	t.Parallel()
	t.Run("postgresql", func(t *testing.T) {
		t.Parallel()
		q := quietPostgreSQL(t)
		q.frozen()
		q.canceled()
		nothingLeftBut(t, q.shop, 1) // of the one that was cancelled while nobody answered
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		q := quietMariaDB(t)
		q.network()
		q.frozen()
		q.canceled()
	})
}

// nothingLeftBut: a source keeps only so many slots.
func nothingLeftBut(t *testing.T, source *sql.DB, slots int) {
	t.Helper()
	if n := one(t, source, "SELECT count(*)::text FROM pg_replication_slots"); n != fmt.Sprint(slots) {
		t.Errorf("%s slots are left at the source", n)
	}
}

// cutOver asks for the cutover.
func (q quiet) cutOver(m migrated) {
	q.t.Helper()
	if status, body := q.s.Call("POST", q.path(m)+"/cutover", nil, nil); status != http.StatusOK {
		q.t.Fatalf("cutover: %d %s", status, body)
	}
}

func (q quiet) path(m migrated) string { return fmt.Sprintf("%s/migrations/%d", q.d.Path(), m.ID) }

// told waits until customers are told that nothing comes from the source.
func (q quiet) told(m migrated) {
	q.t.Helper()
	q.s.Eventually("it is told that the source sends nothing", func() error {
		var now migrated
		_, body := q.s.Call("GET", q.path(m), nil, &now)
		if now.Status != "running" || now.LagSeconds == nil || *now.LagSeconds < 10 || !strings.HasPrefix(*orNothing(now.Problem), "The source has sent nothing for 1") {
			return fmt.Errorf("it says %s", body)
		}
		return nil
	})
	if out, err := q.s.Command("db", "migration", "view", q.d.Label, fmt.Sprint(m.ID)); err != nil || !strings.Contains(out, "The source has sent nothing for") {
		q.t.Errorf("view: %v\n%s", err, out)
	}
}

// finished demands that all rows came.
func (q quiet) finished(m migrated, as string) {
	q.t.Helper()
	if m = awaitMigrated(q.t, q.s, q.d, m.ID); m.Status != "finished" || m.Problem != nil {
		q.t.Fatalf("%s ended as %s, %s", as, m.Status, *orNothing(m.Problem))
	}
	c := q.s.Credentials(q.d)
	c.Logical = as
	if here, original := one(q.t, q.s.MustConnect(q.d, c), q.sum), one(q.t, q.shop, q.sum); here != original {
		q.t.Errorf("%s: %s here, %s at the source", as, here, original)
	}
}

// network: what is between the source and here lets nothing through.
func (q quiet) network() {
	q.t.Helper()
	src, hush, speak := q.src.Quiet(q.t)
	m := beginFollowing(q.t, q.s, q.d, followed(src, "network"))
	hush()
	exec1(q.t, q.shop, "INSERT INTO sold (note) VALUES ('unheard')")
	q.cutOver(m)
	q.told(m)
	speak()
	q.finished(m, "network")
}

// frozen: the source stands still with much that is yet to come.
func (q quiet) frozen() {
	q.t.Helper()
	m := beginFollowing(q.t, q.s, q.d, followed(q.src, "frozen"))
	exec1(q.t, q.shop, q.more)
	q.cutOver(m)
	thaw := q.src.Freeze(q.t)
	q.told(m)
	thaw()
	q.finished(m, "frozen")
}

// canceled: the source stands still before, and the cutover is given up.
func (q quiet) canceled() {
	q.t.Helper()
	m := beginFollowing(q.t, q.s, q.d, followed(q.src, "canceled"))
	thaw := q.src.Freeze(q.t)
	q.cutOver(m)
	q.told(m)
	if status, body := q.s.Call("DELETE", q.path(m), nil, nil); status != http.StatusOK {
		q.t.Fatal(body)
	}
	if m = awaitMigrated(q.t, q.s, q.d, m.ID); m.Status != "canceled" || !strings.HasPrefix(*orNothing(m.Problem), "It was canceled.") {
		q.t.Errorf("it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	thaw()
}
