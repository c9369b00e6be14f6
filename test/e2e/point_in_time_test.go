package e2e

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/test/harness"
)

const timeLayout = "2006-01-02T15:04:05"

// history is a database whose rows come one after the other.
type history struct {
	t    *testing.T
	s    *harness.Server
	spec harness.Spec
	d    harness.Database
	db   *sql.DB
	n    int
}

// newHistory of MySQL's family is encrypted where it has one node.
func newHistory(t *testing.T, s *harness.Server, engine string, size int) *history {
	t.Helper()
	h := &history{t: t, s: s, spec: harness.Small(fmt.Sprintf("history-%d", size), engine)}
	h.spec["encrypted"] = size == 1 && h.family() == "mysql"
	spec := maps.Clone(h.spec)
	spec["cluster_size"] = size
	h.d = s.CreateActive(spec)
	h.connect()
	exec1(t, h.db, "CREATE TABLE kept (n int PRIMARY KEY)")
	exec1(t, h.db, "CREATE TABLE ballast (filling text)")
	if h.family() == "postgresql" {
		exec1(t, h.db, "ALTER TABLE ballast ALTER filling SET STORAGE EXTERNAL") // uncompressed
	}
	return h
}

func (h *history) family() string {
	family, _, _ := strings.Cut(h.spec["engine"].(string), "/")
	return family
}

// like is what a fork of the database has to be, under another label.
func (h *history) like(label string) harness.Spec {
	spec := maps.Clone(h.spec)
	spec["label"] = label
	return spec
}

// refused demands that no fork of the moment is made, and why.
func (h *history) refused(moment, why string) {
	h.t.Helper()
	spec := h.like("no")
	spec["fork"] = map[string]any{"source": h.d.ID, "restore_time": moment}
	path := "/v4/databases/" + h.family() + "/instances"
	if status, body := h.s.Call("POST", path, spec, nil); status != http.StatusBadRequest || !strings.Contains(body, "fork.restore_time") || !strings.Contains(body, why) {
		h.t.Errorf("at %s: %d %s", moment, status, body)
	}
}

func (h *history) connect() {
	h.t.Helper()
	h.s.Eventually("connected", func() (err error) {
		h.db, err = harness.Connect(h.t.Context(), h.d, h.s.Credentials(h.d), "")
		return err
	})
}

// row writes the next row and returns a moment after it and before the next.
func (h *history) row() string {
	h.t.Helper()
	h.n++
	exec1(h.t, h.db, fmt.Sprintf("INSERT INTO kept VALUES (%d)", h.n))
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	moment := time.Now().UTC().Format(timeLayout)
	time.Sleep(100 * time.Millisecond)
	return moment
}

// archived makes the server finish with what it has written, and waits until that
// is in the archive.
func (h *history) archived() {
	h.t.Helper()
	if h.family() == "mysql" {
		h.uploaded()
		return
	}
	// Segments of a history that a restore ended have the same names, and are there already.
	before, last := h.stored(), one(h.t, h.db, "SELECT pg_walfile_name(pg_current_wal_lsn())")
	// The data is in memory, which counts as the server's: what it has would run out.
	exec1(h.t, h.db, "TRUNCATE ballast")
	const rest = 18 << 20 // more than what a file of the log may have room for
	exec1(h.t, h.db, fmt.Sprintf("INSERT INTO ballast SELECT repeat(md5(i::text), 300) FROM generate_series(1, %d) i", rest/9600))
	h.s.Eventually(last+" archived", func() error {
		for _, path := range h.stored() {
			if !slices.Contains(before, path) && strings.Contains(filepath.Base(path), last) {
				return nil
			}
		}
		return fmt.Errorf("%s isn't archived", last)
	})
}

// uploaded waits until the binary log with what was written so far is in the archive,
// as if a minute had passed.
func (h *history) uploaded() {
	h.t.Helper()
	began := time.Now()
	exec1(h.t, h.db, "INSERT INTO ballast VALUES ('more')")
	wanted, dir := h.position(), filepath.Join(h.s.Data, "clusters", fmt.Sprint(h.d.ID))
	h.s.Eventually("archived", func() error {
		logs, err := filepath.Glob(filepath.Join(dir, "node-*", "data", "binlog.*"))
		if err != nil {
			return err
		}
		then := time.Now().Add(-time.Hour)
		for _, log := range logs {
			if err := os.Chtimes(log, then, then); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		return archivedUpTo(filepath.Join(dir, "handed.json"), began, wanted)
	})
}

// archivedUpTo is nil when a cluster was archived up to a position since then.
func archivedUpTo(note string, since time.Time, wanted uint64) error {
	info, err := os.Stat(note)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(note)
	if err != nil {
		return err
	}
	var archived struct{ Position uint64 }
	if err := json.Unmarshal(content, &archived); err != nil {
		return err
	}
	if info.ModTime().Before(since) || archived.Position < wanted {
		return fmt.Errorf("at %v up to %d of %d", info.ModTime(), archived.Position, wanted)
	}
	return nil
}

// position is how many transactions there were: the number of MariaDB's last one, or
// how many MySQL's sets of them hold.
func (h *history) position() uint64 {
	h.t.Helper()
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		if err != nil {
			h.t.Fatal(err)
		}
		return n
	}
	if strings.Contains(one(h.t, h.db, "SELECT VERSION()"), "MariaDB") {
		return number(one(h.t, h.db, "SELECT SUBSTRING_INDEX(@@GLOBAL.gtid_binlog_pos, '-', -1)"))
	}
	sum := uint64(0)
	for set := range strings.SplitSeq(one(h.t, h.db, "SELECT @@GLOBAL.gtid_executed"), ",") {
		_, runs, _ := strings.Cut(set, ":")
		for run := range strings.SplitSeq(runs, ":") {
			first, last, more := strings.Cut(run, "-")
			if !more {
				last = first
			}
			sum += number(last) - number(first) + 1
		}
	}
	return sum
}

func (h *history) stored() []string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.s.Data, "backups", "clusters", fmt.Sprint(h.d.ID), "wal", "*", "*.zst.age"))
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// fork makes a database of a moment and demands its rows.
func (h *history) fork(label, moment, rows string) harness.Database {
	h.t.Helper()
	spec := h.like(label)
	spec["fork"] = map[string]any{"source": h.d.ID, "restore_time": moment}
	f := h.s.AwaitStatus(h.s.Create(spec), "active")
	db := h.s.MustConnect(f, h.s.Credentials(f))
	if got := h.rows(db); got != rows {
		h.t.Errorf("at %s there are the rows %q, want %q", moment, got, rows)
	}
	exec1(h.t, db, "INSERT INTO kept VALUES (100)")
	return f
}

// rows are those that a database has.
func (h *history) rows(db *sql.DB) string {
	h.t.Helper()
	query := "SELECT coalesce(string_agg(n::text, ' ' ORDER BY n), '') FROM kept"
	if h.family() == "mysql" {
		query = "SELECT coalesce(group_concat(n ORDER BY n SEPARATOR ' '), '') FROM kept"
	}
	return one(h.t, db, query)
}

// told is the message of the event that made a database.
func (h *history) told(d harness.Database) string {
	h.t.Helper()
	for _, e := range h.s.Events() {
		if e.Entity.ID == d.ID && e.Action == "database_create" {
			return e.Message
		}
	}
	h.t.Errorf("no event of %s", d.Label)
	return ""
}

// TestPointInTime: a moment since the first backup can be forked from, and restored in
// place over a crash of steward, which can be undone.
func TestPointInTime(t *testing.T) {
	t.Parallel()
	s := harness.New(t, continuous, ofPostgreSQL)
	h := newHistory(t, s, postgresql, 1)
	_, two := h.oneMoment()
	s.Kill()
	s.Start()
	h.row()
	h.inPlace(two, "1 2")
}

// TestPointInTimeThorough: any moment can be forked from, also over a backup, a crash of
// steward and a restore in place, whose history is another.
func TestPointInTimeThorough(t *testing.T) {
	t.Parallel()
	moments(t, harness.New(t, continuous), postgresql)
}

// TestPointInTimeOfMariaDBThorough: one moment; internal/engine/mysql has the others.
func TestPointInTimeOfMariaDBThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, continuous)
	if all() {
		moments(t, s, mariadb)
		return
	}
	h := newHistory(t, s, mariadb, 1)
	_, two := h.oneMoment()
	h.upgrade("11.8")
	h.inPlace(two, "1 2")
}

// upgrade moves it to a newer version, whose moments begin with the next backup.
func (h *history) upgrade(version string) {
	h.t.Helper()
	if status, body := h.s.Call("PUT", h.d.Path(), map[string]any{"version": version}, nil); status != http.StatusOK {
		h.t.Fatalf("to version %s: %d %s", version, status, body)
	}
	if h.d = h.s.AwaitStatus(h.d, "active"); h.d.Version != version {
		h.t.Fatalf("it is of version %s, want %s", h.d.Version, version)
	}
	h.connect()
	time.Sleep(1100 * time.Millisecond) // a moment is a whole second, and this one is to be after the upgrade
	h.refused(time.Now().UTC().Format(timeLayout), "")
	h.s.Snapshot(h.d, "upgraded", "primary")
	time.Sleep(1100 * time.Millisecond)
	after := h.row()
	h.row()
	h.archived()
	h.spec["engine"] = h.family() + "/" + version
	h.fork("upgraded", after, "1 2 3")
}

func TestPointInTimeOfMySQLThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, continuous)
	moments(t, s, "mysql/"+needMySQL(t, s))
}

var continuous = harness.WithConfig("backups:\n  continuous: true")

func needMySQL(t *testing.T, s *harness.Server) string {
	t.Helper()
	series := installedMySQL(s)
	if series == "" {
		t.Skip("no MySQL is installed")
	}
	return series
}

func moments(t *testing.T, s *harness.Server, engine string) {
	h := newHistory(t, s, engine, 1)
	first, two := h.oneMoment()
	s.Kill()
	s.Start()
	three := h.row()
	h.archived()
	time.Sleep(1100 * time.Millisecond) // all of it is before the moment, whatever its second
	now := time.Now().UTC().Format(timeLayout)
	f := h.fork("now", now, "1 2 3")
	// The archive ends before the moment, which is said; or the server finished with
	// another log meanwhile, and its end proves that nothing is missing up to the moment.
	if _, at, _ := forkOf(t, s, f); at <= three[:10] || at > now || (at == now) != (h.told(f) == "") || !strings.Contains(h.told(f), at) && at != now {
		t.Errorf("at %s, asked for %s: %q", at, now, h.told(f))
	}
	h.refused("2020-01-01T00:00:00", "")
	h.refused("2120-01-01T00:00:00", "")
	if status, body := s.Call("POST", fmt.Sprintf("%s/backups/%d/restore", h.d.Path(), first.ID), nil, nil); status != 200 {
		t.Fatalf("restore: %d %s", status, body)
	}
	s.AwaitStatus(h.d, "active")
	h.connect()
	time.Sleep(1100 * time.Millisecond) // a moment is a whole second, and this one is to be after the restore
	h.refused(time.Now().UTC().Format(timeLayout), "after a restore")
	s.Snapshot(h.d, "second", "primary")
	time.Sleep(1100 * time.Millisecond)
	h.n = 10
	eleven := h.row()
	h.row()
	h.archived()
	h.fork("other", eleven, "11")
	h.fork("before", two, "1 2")
	h.gap(eleven)
	h.inPlace(eleven, "11")
}

// oneMoment forks the first of two rows that are written after a backup, and returns the
// backup, and a moment after the second row.
func (h *history) oneMoment() (first harness.Backup, two string) {
	h.t.Helper()
	first = h.s.Snapshot(h.d, "first", "primary")
	time.Sleep(1100 * time.Millisecond)
	one := h.row()
	two = h.row()
	h.archived()
	f := h.fork("one", one, "1")
	if source, at, _ := forkOf(h.t, h.s, f); source != h.d.ID || at != one || h.told(f) != "" {
		h.t.Errorf("fork of %d at %s, want %d at %s: %q", source, at, h.d.ID, one, h.told(f))
	}
	return first, two
}

// inPlace restores a moment, at which there were these rows, with today's password, and undoes that again.
func (h *history) inPlace(moment, rows string) {
	h.t.Helper()
	if status, body := h.s.Call("POST", h.d.Path()+"/restore", map[string]any{"to": "2020-01-01T00:00:00"}, nil); status != http.StatusBadRequest || !strings.Contains(body, `"to"`) {
		h.t.Errorf("%d %s", status, body)
	}
	before := h.rows(h.db)
	if status, answer := h.s.Call("POST", h.d.Path()+"/restore", map[string]any{"to": moment}, nil); status != http.StatusOK {
		h.t.Fatalf("restore: %d %s", status, answer)
	}
	h.s.AwaitStatus(h.d, "active")
	h.connect()
	if got := h.rows(h.db); got != rows {
		h.t.Errorf("restored to %s it has %s, want %s", moment, got, rows)
	}
	exec1(h.t, h.db, "INSERT INTO kept VALUES (200)")
	if status, answer := h.s.Call("POST", h.d.Path()+"/restore/undo", nil, nil); status != http.StatusOK {
		h.t.Fatalf("undo: %d %s", status, answer)
	}
	h.s.AwaitStatus(h.d, "active")
	h.connect()
	if got := h.rows(h.db); got != before {
		h.t.Errorf("undone, it has %s, want %s", got, before)
	}
	if status, text := h.s.Call("POST", h.d.Path()+"/restore/undo", nil, nil); status != http.StatusBadRequest || !strings.Contains(text, "no restore to undo") {
		h.t.Errorf("undone twice: %d %s", status, text)
	}
}

// gap takes a file out of the archive: before it moments can be restored, beyond
// it the fork fails and says why.
func (h *history) gap(before string) {
	h.t.Helper()
	h.archived()
	h.archived()
	all := h.stored()
	slices.SortFunc(all, func(a, b string) int {
		first, errFirst := os.Stat(a)
		second, errSecond := os.Stat(b)
		if err := errors.Join(errFirst, errSecond); err != nil {
			h.t.Fatal(err)
		}
		return first.ModTime().Compare(second.ModTime())
	})
	if err := os.Remove(all[len(all)-2]); err != nil {
		h.t.Fatal(err)
	}
	spec := h.like("beyond")
	spec["fork"] = map[string]any{"source": h.d.ID, "restore_time": time.Now().UTC().Format(timeLayout)}
	f := h.s.AwaitStatus(h.s.Create(spec), "failed")
	if said := h.told(f); !strings.Contains(said, "gap") {
		h.t.Errorf("beyond the gap: %q", said)
	}
	h.fork("this-side", before, "11")
}

// TestPointInTimeOverFailoverThorough: the archive goes on with what the new primary writes.
func TestPointInTimeOverFailoverThorough(t *testing.T) {
	t.Parallel()
	pointInTimeOverFailover(t, harness.New(t, continuous), "postgresql/15")
}

func TestPointInTimeOverFailoverOfMariaDBThorough(t *testing.T) {
	t.Parallel()
	pointInTimeOverFailover(t, harness.New(t, continuous), "mysql/10.11")
}

func TestPointInTimeOverFailoverOfMySQLThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, continuous)
	pointInTimeOverFailover(t, s, "mysql/"+needMySQL(t, s))
}

func pointInTimeOverFailover(t *testing.T, s *harness.Server, engine string) {
	h := newHistory(t, s, engine, 3)
	s.Snapshot(h.d, "first", "primary")
	time.Sleep(1100 * time.Millisecond)
	one := h.row()
	primary := s.Primary(h.d)
	if err := syscall.Kill(primary.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.d = s.AwaitHealthy(h.d, 3, primary.Pid)
	h.connect()
	two := h.row()
	h.row()
	h.archived()
	h.fork("one", one, "1")
	h.fork("two", two, "1 2")
}
