package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"steward/internal/await"
	"steward/internal/config"
	"steward/internal/datadir"
	"steward/internal/embeddedpg"
	"steward/internal/operator"
	"steward/internal/pgtest"
	"steward/internal/testdir"
	"steward/internal/testnet"
)

// TestStartAndStopLeaveNothing starts and stops the process a few times, with both gateways, and finds
// no goroutine, descriptor, lease, shard, child process or file more than after the
// first times, and no process once all is stopped.
func TestStartAndStopLeaveNothing(t *testing.T) { startAndStopWithEach(t, 7) }

// TestStartAndStopLeaveNothingThorough finds what is left by chance, too.
func TestStartAndStopLeaveNothingThorough(t *testing.T) { startAndStopWithEach(t, 50) }

func startAndStopWithEach(t *testing.T, times int) {
	t.Helper()
	testdir.NeedsServers(t)
	for _, driver := range []string{config.GatewayKernel, config.GatewayHAProxy} {
		t.Run(driver, func(t *testing.T) {
			if driver == config.GatewayKernel {
				testnet.Need(t)
			}
			startAndStop(t, driver, times)
		})
	}
}

func TestMain(m *testing.M) { testnet.Main(m) }

func startAndStop(t *testing.T, driver string, times int) {
	already := children(t) // a store of other tests runs until the last of them has ended
	o := Options{Data: filepath.Join(testdir.New(t, "steward-app-"), "data"), Listen: "127.0.0.1:0", Config: config.Default(), Out: io.Discard, Log: io.Discard}
	first := testdir.Ports(t, 4)
	o.Gateway.Ports = fmt.Sprintf("%d-%d", first, first+3)
	o.Gateway.Driver = driver
	o.Metrics.Listen = "127.0.0.1:0"
	o.Pool.Size = 0
	store := filepath.Join(o.Data, "store")
	if err := errors.Join(os.Mkdir(o.Data, 0o711), pgtest.PreparedStore(store), pgtest.Trust(store)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := operator.StopAll(context.Background(), o.Data, o.Config); err != nil {
			t.Error(err)
		}
		left := children(t)
		maps.DeleteFunc(left, func(process string, _ int) bool { return already[process] > 0 })
		if len(left) > 0 {
			t.Errorf("processes that were left: %v", left)
		}
	})
	const warm = 3
	var before remains
	var ignore goleak.Option
	began := time.Now()
	for n := range times {
		if n == warm {
			before, ignore = look(t, o.Data), goleak.IgnoreCurrent()
			t.Logf("%s for the first %d", time.Since(began), warm)
		}
		runOnce(t, o)
	}
	t.Logf("%s for all", time.Since(began))
	checkStore(t, o)
	if err := goleak.Find(ignore); err != nil {
		t.Error(err)
	}
	// What is closed may be open for a moment longer: the other end ends it. What a timeout
	// ends, such as an idle connection's, was left.
	more := before.more(look(t, o.Data))
	for deadline := time.Now().Add(10 * time.Second); len(more) > 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		more = before.more(look(t, o.Data))
	}
	if len(more) > 0 {
		t.Errorf("left: %q", more)
	}
}

// runOnce is one life of the process, in which it held its shards.
func runOnce(t *testing.T, o Options) {
	t.Helper()
	a := New(o)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the monitor has shards", func() bool { return a.watcher.Stats().Shards > 0 })
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
}

// checkStore finds no session, no lock, no living monitor and, once it is gone, no shard
// that it kept.
func checkStore(t *testing.T, o Options) {
	t.Helper()
	dir, err := datadir.Open(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), embeddedpg.URL(dir.Store(), dir.StoreRun()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	none := func(what, query string) error {
		var left int
		err := conn.QueryRow(t.Context(), query).Scan(&left)
		if err == nil && left != 0 {
			err = fmt.Errorf("%s: %d are left", what, left)
		}
		return err
	}
	for what, query := range map[string]string{ // looked at once: some would expire
		"monitors":       "SELECT count(*) FROM watchers WHERE expires > clock_timestamp()",
		"shards":         "SELECT count(*) FROM shards JOIN watchers ON watchers.id = holder AND expires > clock_timestamp()",
		"river's leader": "SELECT count(*) FROM river_leader",
	} {
		if err := none(what, query); err != nil {
			t.Error(err)
		}
	}
	// The server's backends end a moment after their clients have closed.
	await.NoError(t, "nothing of the sessions is left", func() error {
		return errors.Join(
			none("sessions", "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"),
			none("advisory locks", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"))
	})
}

// remains are what a process may leave behind.
type remains struct{ descriptors, children, files []string }

// more is what is there later that wasn't before.
func (r remains) more(later remains) []string {
	count := map[string]int{}
	for _, name := range r.all() {
		count[name]++
	}
	var more []string
	for _, name := range later.all() {
		if count[name]--; count[name] < 0 {
			more = append(more, name)
		}
	}
	return more
}

func (r remains) all() []string { return slices.Concat(r.descriptors, r.children, r.files) }

func look(t *testing.T, data string) remains {
	t.Helper()
	return remains{descriptors(t), slices.Sorted(maps.Keys(children(t))), files(t, data)}
}

// descriptors are the open files of this process, by kind where they have no name.
func descriptors(t *testing.T) []string {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, fd := range open {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil {
			name, _, _ := strings.Cut(to, ":[")
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// children are the processes that this one started and that run, by their names.
func children(t *testing.T) map[string]int {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may have ended
		for pid := range strings.FieldsSeq(string(text)) {
			name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			if err == nil {
				found[fmt.Sprintf("%s %s", strings.TrimSpace(string(name)), pid)]++
			}
		}
	}
	return found
}

// files are those of the data folder but for what the store's server writes.
func files(t *testing.T, data string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(data, "store", "data") {
			return filepath.SkipDir
		}
		found = append(found, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
