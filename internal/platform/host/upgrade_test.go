package host_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
	"steward/internal/platform/host"
	"steward/internal/platform/platformtest"
)

// upgradable are two installations of which one's data can be moved to the other.
func upgradable(t *testing.T) (found []engine.Installation, older, newer engine.Installation) {
	t.Helper()
	all, _ := host.Discover(t.Context(), engines(), []string{enginetest.EnginesFolder()})
	for _, to := range all {
		for _, from := range all {
			if from.Family() == to.Family() && engine.CompareVersions(to.Series, from.Series) > 0 &&
				engines()[from.Family()].UpgradeMissing(from, to) == "" {
				return []engine.Installation{from, to}, from, to
			}
		}
	}
	t.Fatal("no two series that data can be moved between are on this machine: scripts/fetch-engines --ci")
	return nil, older, newer
}

// upgraded is a cluster that is moved to another series.
type upgraded struct {
	*archived
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

const majorVersion = "SELECT current_setting('server_version_num')::bigint / 10000"

func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", size), func(t *testing.T) {
			t.Parallel()
			found, from, to := upgradable(t)
			u := &upgraded{archived: newArchived(t, found, platformtest.Bench{Engine: cluster.PostgreSQL, Series: from.Series}, size)}
			u.to = u.want
			u.to.Series, u.to.Installation = to.Series, ""
			u.do("CREATE EXTENSION citext", "CREATE TABLE lots AS SELECT i, md5(i::text)::citext AS words FROM generate_series(1, 200000) i", "CREATE INDEX ON lots (words)",
				"CALL steward.create_user('app', 'secret for app')", "CREATE DATABASE shop", "CALL steward.grant_database('app', 'shop')",
				"ALTER DATABASE shop SET role = 'app'", "ALTER DATABASE defaultdb SET statement_timeout = '1h'")
			if size == 1 {
				u.refuses()
				u.tries()
			}
			u.moves()
			u.is(from, to)
			u.undoesUpgrade(from)
		})
	}
}

// refuses: what can't be moved is named, and nobody notices.
func (u *upgraded) refuses() {
	u.do("CREATE TABLE odd (calls regproc[])")
	before := u.pids()
	paused, err := u.upgrade()
	refused, ok := errors.AsType[*platform.NoUpgradeError](err)
	if !ok || paused || len(refused.Reasons) != 1 || !strings.Contains(refused.Reasons[0], `"calls" of public.odd in the database "defaultdb"`) {
		u.t.Errorf("with a column that can't be moved: %v, %v", paused, err)
	}
	if after := u.pids(); after != before {
		u.t.Errorf("servers were restarted: %s, then %s", before, after)
	}
	u.do("DROP TABLE odd")
}

// tries: a trial on a copy says about how long it takes, names what stands in the way, and leaves nothing.
func (u *upgraded) tries() {
	try := func() platform.Trial {
		u.t.Helper()
		var copied bytes.Buffer
		var err error
		if u.copy, err = u.driver.Backup(u.t.Context(), u.want, cluster.Primary, &copied); err != nil {
			u.t.Fatal(err)
		}
		found, err := u.driver.TryUpgrade(u.t.Context(), u.to, u.copy, &copied)
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
	u.do("CREATE DATABASE closed ALLOW_CONNECTIONS false")
	if found := try(); len(found.Reasons) != 1 || !strings.Contains(found.Reasons[0], `"closed"`) {
		u.t.Errorf("tried with a closed database: %+v", found)
	}
	u.do("DROP DATABASE closed")
	if got := u.answer(majorVersion); got == u.to.Series {
		u.t.Errorf("the trial moved the database itself to %s", got)
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
	left, err := filepath.Glob(filepath.Join(u.s.o.DataDir, "clusters", "*", "upgrade"))
	if err != nil || len(left) > 0 {
		u.t.Errorf("left: %v %v", left, err)
	}
}

// is demands that the cluster is one of the new series, as one that was made there is.
func (u *upgraded) is(from, to engine.Installation) {
	u.t.Helper()
	if got := u.answer(majorVersion); got != to.Series {
		u.t.Errorf("it is of series %s, want %s", got, to.Series)
	}
	if seen := u.healthy(); seen.Installation != to.ID() {
		u.t.Errorf("it runs %s, want %s", seen.Installation, to.ID())
	}
	if got := u.answer("SELECT count(*) FROM lots WHERE words = md5('77')::citext"); got != "1" {
		u.t.Errorf("the table has %s of a row", got)
	}
	if note, err := u.driver.FinishUpgrade(u.t.Context(), u.want); err != nil || note != "" {
		u.t.Errorf("finish: %q, %v", note, err)
	}
	if got := u.answer("SELECT count(*) FROM pg_stats WHERE tablename = 'lots'"); got != "2" {
		u.t.Errorf("%s columns have statistics", got)
	}
	if got := u.answer("SELECT count(*) FROM pg_extension x JOIN pg_available_extensions a ON a.name = x.extname WHERE x.extversion <> a.default_version"); got != "0" {
		u.t.Errorf("%s extensions are as they were", got)
	}
	if from.Series < "16" && to.Series >= "16" {
		if got := u.answer("SELECT count(*) FROM pg_namespace WHERE nspname = 'steward'"); got != "0" {
			u.t.Error("the procedures of older series are there")
		}
		u.do("ALTER ROLE app PASSWORD 'another for app'", "CREATE ROLE other LOGIN PASSWORD 'other secret'", "DROP ROLE other",
			"REVOKE ALL ON DATABASE shop FROM app", "DROP DATABASE shop", "DROP ROLE app")
	}
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
	if got := u.answer(majorVersion); got != from.Series {
		u.t.Errorf("it is of series %s, want %s", got, from.Series)
	}
	u.do("CALL steward.set_password('app', 'another')", "CREATE TABLE later (k int)")
}
