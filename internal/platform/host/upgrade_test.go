package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/host"
	"steward/internal/platform/host/files"
	"steward/internal/platform/platformtest"
	"steward/internal/process"
)

// upgradable are two installations of a flavour of which one's data can be moved to the other.
func upgradable(t *testing.T, flavour engine.Flavour) (older, newer engine.Installation) {
	t.Helper()
	all, _ := installations()
	for _, to := range all {
		for _, from := range all {
			if from.Flavour == flavour && to.Flavour == flavour && engine.CompareVersions(to.Series, from.Series) > 0 &&
				engines()[from.Family()].UpgradeMissing(from, to) == "" {
				return from, to
			}
		}
	}
	t.Fatal("no two series that data can be moved between are on this machine: scripts/fetch-engines --ci")
	return older, newer
}

// upgradedFlavour is what is moved of a flavour.
type upgradedFlavour struct {
	flavour engine.Flavour
	// made is what customers have made, odd what can't be moved, gone what takes that away.
	made, odd, gone []string
	// found begins what is said of it.
	found string
	// series asks for the series as it stands in version.
	series  string
	version func(series string) string
	// is are numbers that a moved database answers with.
	is map[string]string
	// adopted is what dbadmin can do in the newer series.
	adopted []string
	// before is what it can do in the older one, when that is back.
	before []string
}

var upgradedPostgreSQL = upgradedFlavour{
	flavour: engine.FlavourPostgreSQL,
	made: []string{
		"CREATE EXTENSION citext", "CREATE TABLE lots AS SELECT i, md5(i::text)::citext AS words FROM generate_series(1, 20000) i",
		"CREATE INDEX ON lots (words)", "CREATE TABLE few AS SELECT i FROM generate_series(1, 1000) i",
		"CREATE TABLE whole (k int) PARTITION BY LIST (k)", "CREATE TABLE part PARTITION OF whole DEFAULT", "INSERT INTO whole SELECT i FROM lots",
		"CALL steward.create_user('app', 'secret for app')", "CREATE DATABASE shop", "CALL steward.grant_database('app', 'shop')",
		"ALTER DATABASE shop SET role = 'app'", "ALTER DATABASE defaultdb SET statement_timeout = '1h'",
	},
	odd: []string{"CREATE TABLE odd (calls regproc[])"}, gone: []string{"DROP TABLE odd"},
	found:   `"calls" of public.odd in the database "defaultdb"`,
	series:  "SELECT current_setting('server_version_num')::bigint / 10000",
	version: func(series string) string { return series },
	is: map[string]string{
		"SELECT count(*) FROM lots WHERE words = md5('77')::citext": "1",
		"SELECT count(*) FROM pg_stats WHERE tablename = 'lots'":    "2",
		// The bounds of 100 steps, as of the default target.
		"SELECT cardinality(histogram_bounds::text::int[]) FROM pg_stats WHERE tablename = 'lots' AND attname = 'i'":                       "101",
		"SELECT cardinality(histogram_bounds::text::int[]) FROM pg_stats WHERE tablename = 'few'":                                          "101",
		"SELECT cardinality(histogram_bounds::text::int[]) FROM pg_stats WHERE tablename = 'whole' AND inherited":                          "101",
		"SELECT count(*) FROM pg_namespace WHERE nspname = 'steward'":                                                                      "0",
		"SELECT count(*) FROM pg_extension x JOIN pg_available_extensions a ON a.name = x.extname WHERE x.extversion <> a.default_version": "0",
	},
	adopted: []string{
		"ALTER ROLE app PASSWORD 'another for app'", "CREATE ROLE other LOGIN PASSWORD 'other secret'", "DROP ROLE other",
		"REVOKE ALL ON DATABASE shop FROM app", "DROP DATABASE shop", "DROP ROLE app",
	},
	before: []string{"CALL steward.set_password('app', 'another for app')"},
}

// Of MariaDB, a table with a history counts until the end of time, which later series put off, and a view of a table that is gone
// stands in nobody's way.
var upgradedMariaDB = upgradedFlavour{
	flavour: engine.FlavourMariaDB,
	made: []string{
		"CREATE TABLE lots (i int PRIMARY KEY, words varchar(40), KEY (words)) SELECT seq AS i, md5(seq) AS words FROM seq_1_to_20000",
		"CREATE TABLE past (k int) WITH SYSTEM VERSIONING", "INSERT INTO past VALUES (1), (2)", "DELETE FROM past WHERE k = 2",
		"CREATE TABLE away (k int)", "CREATE VIEW stale AS SELECT k FROM away", "DROP TABLE away",
		"CREATE PROCEDURE twice(k int) SELECT 2 * k",
		"CALL steward.create_user('app', 'secret for app')", "CREATE DATABASE shop", "CALL steward.grant_database('shop', 'app')",
	},
	odd:  []string{"CREATE TABLE part (k int) ENGINE = MyISAM", "CREATE TABLE odd (k int) ENGINE = MERGE UNION = (part)", "DROP TABLE part"},
	gone: []string{"DROP TABLE odd"}, found: "The server can't use the table `defaultdb`.`odd`",
	series: "SELECT CAST(REGEXP_REPLACE(VERSION(), '^([0-9]+)[.]([0-9]+)[.].*', '\\\\1\\\\2') AS UNSIGNED)", version: func(series string) string { return strings.ReplaceAll(series, ".", "") },
	is: map[string]string{
		"CALL twice(21)": "42",

		"SELECT count(*) FROM lots WHERE words = md5(77)":                                "1",
		"SELECT k FROM past":                                                             "1",
		"SELECT k FROM past FOR SYSTEM_TIME ALL ORDER BY k DESC LIMIT 1":                 "2",
		"SELECT count(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'steward'": "1",
	},
	adopted: []string{
		"CALL steward.set_password('app', 'another for app')", "CALL steward.create_user('other', 'other secret')", "CALL steward.drop_user('other')",
		"DROP DATABASE shop", "CALL steward.drop_user('app')",
	},
	before: []string{"CALL steward.set_password('app', 'another for app')"},
}

// upgraded is a cluster that is moved to another series.
type upgraded struct {
	*archived
	upgradedFlavour
	to platform.Wanted
}

// upgrade does what operate does, while nobody applies.
func (u *upgraded) upgrade() (paused bool, err error) {
	u.stop()
	u.keeping.Wait()
	err = u.driver.Upgrade(u.t.Context(), u.to, func() error { paused = true; return nil })
	if err == nil {
		u.want.Series = u.to.Series
	}
	u.keep()
	return paused, err
}

func (u *upgraded) answer(query string) string {
	u.t.Helper()
	conn, err := u.load.connect(u.t.Context())
	if err != nil {
		u.t.Fatal(err)
	}
	defer conn.close()
	numbers, err := conn.numbers(u.t.Context(), query)
	if err != nil {
		u.t.Fatalf("%s: %v", query, err)
	}
	return strings.Trim(fmt.Sprint(numbers), "[]")
}

// upgradeCase is a cluster to be moved.
type upgradeCase struct {
	upgradedFlavour
	size      int
	encrypted bool
	// first has what can't be moved refused, and tried, before, breaks a move be broken off, full the disk be full. undone brings
	// back what was before.
	first, breaks, full, undone bool
}

func TestUpgrade(t *testing.T) {
	testUpgrade(t,
		upgradeCase{upgradedFlavour: upgradedPostgreSQL, size: 1, first: true, breaks: true, undone: true},
		upgradeCase{upgradedFlavour: upgradedMariaDB, size: 1, first: true},
	)
}

func TestUpgradeThorough(t *testing.T) {
	testUpgrade(t,
		upgradeCase{upgradedFlavour: upgradedPostgreSQL, size: 3, full: true, undone: true},
		upgradeCase{upgradedFlavour: upgradedMariaDB, size: 3, breaks: true, full: true, undone: true},
		upgradeCase{upgradedFlavour: upgradedMariaDB, size: 1, encrypted: true, undone: true},
	)
}

func testUpgrade(t *testing.T, cases ...upgradeCase) {
	t.Helper()
	t.Parallel()
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s, %d nodes", c.flavour, c.size), func(t *testing.T) {
			t.Parallel()
			from, to := upgradable(t, c.flavour)
			u := &upgraded{
				archived:        newArchived(t, []engine.Installation{from, to}, platformtest.Bench{Engine: from.Family(), Series: from.Series, Encrypted: c.encrypted}, c.size),
				upgradedFlavour: c.upgradedFlavour,
			}
			u.to = u.want
			u.to.Series, u.to.Installation = to.Series, ""
			u.do(c.made...)
			if c.first {
				u.refuses()
				u.tries()
			}
			if c.breaks {
				u.breaks(from)
			}
			if c.full {
				u.runsOutOfRoom(from)
			}
			u.moves()
			u.becomes(to)
			if c.undone {
				u.undoesUpgrade(from)
			}
		})
	}
}

// refuses: what can't be moved is named, and nobody notices.
func (u *upgraded) refuses() {
	u.do(u.odd...)
	before := u.pids()
	paused, err := u.upgrade()
	refused, ok := errors.AsType[*platform.NoUpgradeError](err)
	if !ok || paused || len(refused.Reasons) != 1 || !strings.Contains(refused.Reasons[0], u.found) {
		u.t.Errorf("with what can't be moved: %v, %v", paused, err)
	}
	if after := u.pids(); after != before {
		u.t.Errorf("servers were restarted: %s, then %s", before, after)
	}
	u.do(u.gone...)
}

// tries: a trial on a copy says about how long it takes, names what stands in the way, and leaves nothing.
func (u *upgraded) tries() {
	try := func() platform.Trial {
		u.t.Helper()
		u.backUp(cluster.Primary)
		found, err := u.driver.TryUpgrade(u.t.Context(), u.to, u.copy, u.copied())
		if err != nil {
			u.t.Fatal(err)
		}
		u.mustLeaveNothing()
		return found
	}
	if found := try(); len(found.Reasons) > 0 || found.Pause <= 0 || found.Pause > time.Minute {
		u.t.Errorf("tried: %+v", found)
	} else {
		u.t.Logf("the trial paused for %v", found.Pause)
	}
	u.do(u.odd...)
	if found := try(); len(found.Reasons) != 1 || !strings.Contains(found.Reasons[0], u.found) {
		u.t.Errorf("tried with what can't be moved: %+v", found)
	}
	u.do(u.gone...)
	if got := u.answer(u.series); got == u.version(u.to.Series) {
		u.t.Errorf("the trial moved the database itself to %s", got)
	}
}

// breaks: a move whose programs are killed in the middle is one that couldn't be made, and what was before serves again.
func (u *upgraded) breaks(from engine.Installation) {
	const count = "SELECT count(*) FROM lots"
	rows := u.answer(count)
	u.stop()
	u.keeping.Wait()
	var killing sync.WaitGroup
	killed := errors.New("nothing was moved")
	ctx, ended := context.WithCancel(u.t.Context())
	err := u.driver.Upgrade(u.t.Context(), u.to, func() error {
		killing.Go(func() { killed = u.killTools(ctx) })
		return nil
	})
	ended()
	killing.Wait()
	if killed != nil {
		u.t.Fatalf("%v: %v", killed, err)
	}
	if _, ok := errors.AsType[*platform.NoUpgradeError](err); !ok {
		u.t.Errorf("after its programs were killed: %v", err)
	}
	if err := u.driver.Abandon(u.t.Context(), u.want); err != nil {
		u.t.Fatal(err)
	}
	u.keep()
	if seen := u.healthy(); seen.Installation != from.ID() {
		u.t.Errorf("it runs %s, want %s", seen.Installation, from.ID())
	}
	if now := u.answer(count); now != rows {
		u.t.Errorf("%s rows are there of %s", now, rows)
	}
	u.copyIsGone()
}

// runsOutOfRoom: the disk fills while the data is copied, and while programs move it. Customers are told what the operator has to do, and what was before serves again.
func (u *upgraded) runsOutOfRoom(from engine.Installation) {
	if u.flavour == engine.FlavourPostgreSQL { // half of the data has to be more than an empty cluster is
		u.do("INSERT INTO lots SELECT i, md5(i::text)::citext FROM generate_series(20001, 200000) i")
	}
	node := filepath.Join(u.s.o.DataDir, "clusters", strconv.Itoa(int(u.want.ID)))
	data := files.Size(filepath.Join(node, "node-0", "data"))
	rooms := map[string]int64{"to copy it": data / 2}
	if u.flavour == engine.FlavourPostgreSQL { // the other's programs change the copy itself
		rooms["to make what it is moved to"], rooms["to move it"] = 8<<20, data+4<<20
	}
	for name, room := range rooms {
		u.stop()
		u.keeping.Wait()
		dir := filepath.Join(node, "upgrade")
		if err := os.Mkdir(dir, 0o711); err != nil {
			u.t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=711", room)); err != nil {
			u.t.Fatalf("mount a small disk: %v", err)
		}
		err := u.driver.Upgrade(u.t.Context(), u.to, func() error { return nil })
		if err := syscall.Unmount(dir, 0); err != nil { // a folder that is a disk can't be thrown away
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
			u.t.Errorf("after an upgrade without room %s something still uses it: %v", name, err)
		}
		refused, ok := errors.AsType[*platform.NoUpgradeError](err)
		if !ok || len(refused.Reasons) != 1 || !strings.Contains(refused.Reasons[0], "no room") {
			u.t.Errorf("without room %s: %v", name, err)
		}
		if err := u.driver.Abandon(u.t.Context(), u.want); err != nil {
			u.t.Fatal(err)
		}
		u.keep()
		if seen := u.healthy(); seen.Installation != from.ID() {
			u.t.Errorf("it runs %s, want %s", seen.Installation, from.ID())
		}
		u.copyIsGone()
	}
}

// copyIsGone: nothing is left of the copy that was moved.
func (u *upgraded) copyIsGone() {
	u.t.Helper()
	left, err := filepath.Glob(filepath.Join(u.s.o.DataDir, "clusters", "*", "upgrade"))
	if err != nil || len(left) > 0 {
		u.t.Errorf("left: %v %v", left, err)
	}
}

// killTools ends the first of the programs that move the data, in the middle of what they do.
func (u *upgraded) killTools(ctx context.Context) error {
	tools := process.Identity{Mark: fmt.Sprintf("%s/%d-0-upgrade", host.ScopeOf(u.s.o.DataDir), u.want.ID)}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return errors.New("no program has moved the data")
		}
		pids, err := tools.Members()
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if len(pids) > 0 {
			return nil
		}
	}
}

// moves moves it under load: all acknowledged writes are there.
func (u *upgraded) moves() {
	u.healthy()
	u.load.begin(u.t)
	if _, err := u.upgrade(); err != nil {
		u.t.Fatal(err)
	}
	after := u.healthy()
	acknowledged, gap := u.load.end(u.t)
	u.agree(after)
	u.t.Logf("%d writes acknowledged, nobody could write for %v", acknowledged, gap.Round(time.Millisecond))
	if after.Failovers != 0 {
		u.t.Errorf("%d failovers: %s", after.Failovers, after.FailoverReason)
	}
	if _, err := u.upgrade(); err != nil {
		u.t.Errorf("again: %v", err)
	}
	u.copyIsGone()
}

// becomes demands that the cluster is one of the new series, as one that was made there is.
func (u *upgraded) becomes(to engine.Installation) {
	u.t.Helper()
	if got, want := u.answer(u.series), u.version(to.Series); got != want {
		u.t.Errorf("it is of series %s, want %s", got, want)
	}
	if seen := u.healthy(); seen.Installation != to.ID() {
		u.t.Errorf("it runs %s, want %s", seen.Installation, to.ID())
	}
	if note, err := u.driver.FinishUpgrade(u.t.Context(), u.want); err != nil || note != "" {
		u.t.Errorf("finish: %q, %v", note, err)
	}
	for query, want := range u.is {
		if got := u.answer(query); got != want {
			u.t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	u.do(u.adopted...)
}

// undoesUpgrade brings back what was before.
func (u *upgraded) undoesUpgrade(from engine.Installation) {
	u.do("CREATE TABLE later (k int)")
	u.stop()
	u.keeping.Wait()
	if err := u.driver.Undo(u.t.Context(), u.want); err != nil {
		u.t.Fatal(err)
	}
	u.want.Series = from.Series
	u.keep()
	if seen := u.healthy(); seen.Installation != from.ID() {
		u.t.Errorf("it runs %s, want %s", seen.Installation, from.ID())
	}
	if got, want := u.answer(u.series), u.version(from.Series); got != want {
		u.t.Errorf("it is of series %s, want %s", got, want)
	}
	u.do(append(u.before, "CREATE TABLE later (k int)")...)
}
