package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/api"
	"steward/internal/await"
	"steward/internal/measure"
	"steward/internal/testdir"
	"steward/test/harness"
)

// sampled is a server whose databases are measured: one that nothing happens to, and one of each engine to which it does.
type sampled struct {
	*world
	beside  harness.Database
	struck  []harness.Database
	disks   map[int64]*smallDisk
	store   *smallDisk
	address string
}

// TestSamplingHoldsUpNothingThorough: servers of databases that stand still cost their own samples, and a store without room on its disk costs none.
func TestSamplingHoldsUpNothingThorough(t *testing.T) {
	sampling(t, "servers stand still", "the store's disk is full")
}

// TestSamplingOutlivesFaultsThorough: nor do servers that have no room on their disks, and a store that stands still, cost more.
func TestSamplingOutlivesFaultsThorough(t *testing.T) {
	sampling(t, "the store stands still", "disks of servers are full")
}

func sampling(t *testing.T, faults ...string) {
	t.Parallel()
	b := &sampled{world: prepared(t, postgresql, mariadb), disks: map[int64]*smallDisk{}}
	b.store = b.newSmallDisk(filepath.Join(b.Data, "store"))
	b.Start()
	b.readAddress()
	b.beside = b.Create(harness.Small("beside", "postgresql/15"))
	b.struck = []harness.Database{b.Create(harness.Small("struck", "postgresql/15")), b.Create(harness.Small("struck-too", "mysql/10.11"))}
	b.beside = b.AwaitStatus(b.beside, "active")
	for i, d := range b.struck {
		d = b.AwaitStatus(d, "active")
		b.ask(d, "suspend", "suspended")
		b.disks[d.ID] = b.newSmallDisk(filepath.Join(b.Data, "clusters", fmt.Sprint(d.ID), "node-0"))
		b.struck[i] = b.ask(d, "resume", "active")
	}
	for _, part := range []struct {
		name string
		do   func()
	}{
		{"servers stand still", b.frozen},
		{"the store stands still", func() { b.withoutStore(b.freezeStore, b.refuses) }},
		{"disks of servers are full", b.full},
		{"the store's disk is full", func() { b.withoutStore(b.fillStore, b.refuses) }},
	} {
		if !slices.Contains(faults, part.name) {
			continue
		}
		b.allMeasured()
		begun := time.Now()
		part.do()
		t.Logf("%s: %v", part.name, time.Since(begun).Round(time.Second))
		if t.Failed() {
			return // what is held up may hold up what follows
		}
	}
}

func (b *sampled) all() []harness.Database { return append([]harness.Database{b.beside}, b.struck...) }

// ask has a database change its status.
func (b *sampled) ask(d harness.Database, verb, status string) harness.Database {
	b.t.Helper()
	if code, body := b.Call("POST", d.Path()+"/"+verb, nil, nil); code != http.StatusOK {
		b.t.Fatalf("%s: %d %s", verb, code, body)
	}
	return b.AwaitStatus(d, status)
}

// stepsLong is for how many steps each fault lasts.
const stepsLong = 4

// steps are those of a metric of a database since a moment; nil where nothing is known. The last ones may not be measured yet.
func (b *sampled) steps(d harness.Database, metric string, from time.Time) []*float64 {
	b.t.Helper()
	var found struct {
		Metrics []struct{ Values []*float64 } `json:"metrics"`
	}
	path := d.Path() + "/metrics?step=10&metric=" + metric + "&from=" + url.QueryEscape(from.UTC().Format(time.RFC3339))
	code, body, err := b.TryCall("GET", path, nil, &found)
	if err != nil || code != http.StatusOK || len(found.Metrics) != 1 {
		b.t.Fatalf("%s of %s: %d %s, %v", metric, d.Label, code, body, err)
	}
	return found.Metrics[0].Values
}

func known(values []*float64) (n int) {
	for _, v := range values {
		if v != nil {
			n++
		}
	}
	return n
}

// allMeasured waits until each database has been measured three times in a row, counters as well.
func (b *sampled) allMeasured() {
	b.t.Helper()
	for _, d := range b.all() {
		b.Eventually(d.Label+" is measured", func() error {
			values := b.steps(d, "transactions_committed", time.Now().Add(-5*measure.Every))
			for i := range values {
				if i+3 <= len(values) && known(values[i:i+3]) == 3 {
					return nil
				}
			}
			return fmt.Errorf("%d of %d steps", known(values), len(values))
		})
	}
}

// paced waits for some steps since a moment, and demands that a database was measured in all of them but one: on a busy machine a reading may be too late.
func (b *sampled) paced(d harness.Database, from time.Time) {
	b.t.Helper()
	var values []*float64
	b.Eventually("steps of "+d.Label, func() error {
		if values = b.steps(d, "connections", from); len(values) < stepsLong+2 {
			return fmt.Errorf("%d steps", len(values))
		}
		return nil
	})
	if n := known(values[:len(values)-2]); n < len(values)-3 {
		b.t.Errorf("%s was measured in %d of %d steps", d.Label, n, len(values)-2)
	}
}

// readAddress notes where steward's own metrics are.
func (b *sampled) readAddress() {
	b.t.Helper()
	log, err := os.ReadFile(b.LogPath)
	if err != nil {
		b.t.Fatal(err)
	}
	found := regexp.MustCompile(`metrics +(http://\S+)`).FindSubmatch(log)
	if found == nil {
		b.t.Fatalf("no address of metrics is told:\n%s", log)
	}
	b.address = string(found[1])
}

// own is one of steward's own metrics.
func (b *sampled) own(name string) float64 {
	b.t.Helper()
	resp, err := http.Get(b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return v
		}
	}
	b.t.Fatalf("%s isn't shown: %d\n%.2000s", name, resp.StatusCode, text)
	return 0
}

// noPile waits until there are about as many goroutines as before, but for others that a fault is for.
func (b *sampled) noPile(before, others float64) {
	b.t.Helper()
	b.Eventually("no goroutines pile up", func() error {
		if now := b.own("go_goroutines"); now > before+others {
			return fmt.Errorf("%v goroutines, %v before", now, before)
		}
		return nil
	})
}

// answers has the calls for metrics of a database answer while a part of what they ask doesn't.
func (b *sampled) answers(d harness.Database, wantUp string) {
	b.t.Helper()
	query := map[string]any{
		"entity_ids": []int64{d.ID}, "metrics": []any{map[string]any{"name": "cpu_usage", "aggregate_function": "avg"}},
		"relative_time_duration": map[string]any{"unit": "min", "value": 15}, "time_granularity": map[string]any{"unit": "min", "value": 1},
	}
	for _, c := range []struct {
		method, path string
		in           any
	}{
		{"GET", d.Path() + "/metrics", nil},
		{"GET", "/v4/monitor/services/dbaas/metric-definitions", nil},
		{"POST", "/v4/monitor/services/dbaas/metrics", query},
		{"GET", "/v4/monitor/services/dbaas/prometheus-sd", nil},
	} {
		if code, body := b.Call(c.method, c.path, c.in, nil); code != http.StatusOK {
			b.t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	code, body := b.Call("GET", d.Path()+"/prometheus", nil, nil)
	if code != http.StatusOK || !strings.Contains(body, wantUp) {
		b.t.Errorf("%s's numbers for Prometheus: %d %.300s; want %s", d.Label, code, body, wantUp)
	}
}

// refuses has calls for metrics, and others, say in time that the store is away, however many are sent at once.
func (b *sampled) refuses() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 4*api.StoreTime)
	defer cancel()
	var calls sync.WaitGroup
	for range 30 { // more than the store's connections, in all
		for _, path := range []string{b.beside.Path() + "/metrics", b.beside.Path() + "/prometheus", "/v4/monitor/services/dbaas/prometheus-sd", "/v4/account/events/stream"} {
			calls.Go(func() {
				request, err := http.NewRequestWithContext(ctx, "GET", b.URL+path, nil)
				if err != nil {
					b.t.Error(err)
					return
				}
				request.Header.Set("Authorization", "Bearer "+b.Token)
				resp, err := http.DefaultClient.Do(request)
				if err != nil {
					b.t.Errorf("%s without the store: %v", path, err)
					return
				}
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "own store") {
					b.t.Errorf("%s without the store: %d %v %s", path, resp.StatusCode, resp.Header, body)
				}
			})
		}
	}
	calls.Wait()
	b.own("go_goroutines") // steward's own metrics go on
}

// signal signals all processes of a database's server.
func (b *sampled) signal(d harness.Database, sig syscall.Signal) {
	for _, pid := range harness.Descendants(b.Primary(d).Pid) {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
}

// frozen stands servers still as hung ones do. They have gaps then, and say nothing that isn't so.
func (b *sampled) frozen() {
	goroutines := b.own("go_goroutines")
	for _, d := range b.struck {
		b.signal(d, syscall.SIGSTOP)
		b.t.Cleanup(func() { b.signal(d, syscall.SIGCONT) })
	}
	began := time.Now()
	up := map[string]string{"postgresql": "pg_up{", "mysql": "mysql_up{"}
	for _, d := range b.struck {
		b.answers(d, up[d.Engine])
	}
	b.answers(b.beside, "pg_stat_database_xact_commit{")
	b.paced(b.beside, began)
	b.noPile(goroutines, 6)
	for _, d := range b.struck {
		b.signal(d, syscall.SIGCONT)
	}
	ended := time.Now()
	b.allMeasured()
	first := measure.Floor(began, measure.Every).Add(measure.Every)
	inside := int(ended.Sub(first) / measure.Every)
	for _, d := range b.struck {
		if n := known(b.steps(d, "connections", first)[:inside]); n != 0 {
			b.t.Errorf("%s stood still, and %d of %d steps tell of its connections", d.Label, n, inside)
		}
		down := b.steps(d, "up", first)[:inside]
		if known(down) == 0 || slices.ContainsFunc(down, func(v *float64) bool { return v != nil && *v != 0 }) {
			b.t.Errorf("%s stood still, and is up in %v", d.Label, text(down))
		}
		for _, metric := range []string{"transactions_committed", "rows_read", "log_bytes"} {
			for _, v := range b.steps(d, metric, first) {
				if v != nil && *v > 1<<20 { // a spike of what was counted meanwhile, or before
					b.t.Errorf("%s did nothing; %s: %v", d.Label, metric, *v)
				}
			}
		}
	}
}

func text(values []*float64) (all []string) {
	for _, v := range values {
		if v == nil {
			all = append(all, "-")
		} else {
			all = append(all, fmt.Sprint(*v))
		}
	}
	return all
}

// full has customers write to disks that have no room.
func (b *sampled) full() {
	t := b.t
	goroutines := b.own("go_goroutines")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	credentials := map[int64]harness.Credentials{} // which a database that has failed doesn't tell
	for _, d := range b.struck {
		credentials[d.ID] = b.Credentials(d)
		db := b.MustConnect(d, credentials[d.ID])
		if _, err := db.ExecContext(ctx, "CREATE TABLE filled (t text)"); err != nil {
			t.Fatal(err)
		}
		b.disks[d.ID].fill()
		refused := make(chan error, 1)
		go func() { // MariaDB waits for room
			for {
				if _, err := db.ExecContext(ctx, "INSERT INTO filled VALUES ('"+strings.Repeat("x", 60_000)+"')"); err != nil {
					refused <- err
					return
				}
			}
		}()
		if d.Engine == "postgresql" {
			t.Logf("%s: %v", d.Label, <-refused)
		}
	}
	began := time.Now()
	for _, d := range b.struck {
		b.answers(d, "_up{")
	}
	b.paced(b.beside, began)
	b.noPile(goroutines, 25) // who brings back a server that has ended, and holds its clients
	cancel()
	for _, d := range b.struck {
		b.disks[d.ID].widen()
	}
	b.allMeasured()
	for _, d := range b.struck {
		b.Eventually(d.Label+" takes writes again", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			db, err := harness.Connect(ctx, d, credentials[d.ID], "")
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.ExecContext(ctx, "INSERT INTO filled VALUES ('last')")
			return err
		})
	}
}

// withoutStore measures on while a fault keeps the store from answering; when that is over nothing is missing of the time.
func (b *sampled) withoutStore(fault func() (end func()), meanwhile func()) {
	goroutines := b.own("go_goroutines")
	db := b.MustConnect(b.beside, b.Credentials(b.beside))
	end := fault()
	began := time.Now()
	done := b.own(`steward_meter_readings_total{result="done"}`)
	b.Eventually("databases are measured on, and samples wait", func() error {
		now, waiting := b.own(`steward_meter_readings_total{result="done"}`), b.own("steward_meter_slices_waiting")
		if now < done+float64(stepsLong*len(b.all())) || waiting == 0 {
			return fmt.Errorf("%v readings more, %v slices wait", now-done, waiting)
		}
		return nil
	})
	if _, err := db.ExecContext(b.t.Context(), "SELECT 1"); err != nil {
		b.t.Error(err)
	}
	meanwhile()
	end()
	b.AwaitReady()
	for _, d := range b.all() {
		b.paced(d, began)
	}
	b.Eventually("nothing waits any more", func() error {
		if n := b.own("steward_meter_slices_waiting"); n > float64(len(b.all())) { // the last half minute's may
			return fmt.Errorf("%v slices", n)
		}
		return nil
	})
	b.noPile(goroutines, 25)
}

// freezeStore stands the store's processes still.
func (b *sampled) freezeStore() (end func()) {
	text, err := os.ReadFile(filepath.Join(b.Data, "store", "data", "postmaster.pid"))
	if err != nil {
		b.t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	server, err := strconv.Atoi(line)
	if err != nil {
		b.t.Fatal(err)
	}
	stopped := harness.Descendants(server)
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
	}
	end = func() {
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT) // one that has ended needs none
		}
	}
	b.t.Cleanup(end)
	return end
}

// fillStore leaves the store no room, and takes what it has set aside for its log: then the server ends, and can't start.
func (b *sampled) fillStore() (end func()) {
	conn, err := pgx.Connect(b.t.Context(), b.StoreURL())
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close(context.Background()) // its server ends
	b.store.fill()
	for err == nil {
		_, err = conn.Exec(b.t.Context(), "SELECT pg_logical_emit_message(false, 'filled', repeat('x', 1000000))")
	}
	b.t.Logf("the store: %v", err)
	return b.store.widen
}

// smallDisk is a file system of its own for a folder.
type smallDisk struct {
	t   *testing.T
	dir string
}

// newSmallDisk moves a folder that nobody uses to one.
func (w *world) newSmallDisk(dir string) *smallDisk {
	t := w.t
	t.Helper()
	aside := dir + ".aside"
	if err := errors.Join(os.Rename(dir, aside), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1g"); err != nil {
		t.Skipf("a file system that fills can't be mounted here: %v", err)
	}
	w.AfterEnd(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }) // what runs is found by what lies there
	if err := errors.Join(testdir.Copy(t.Context(), aside+"/.", dir), os.RemoveAll(aside)); err != nil {
		t.Fatal(err)
	}
	return &smallDisk{t, dir}
}

// fill leaves no room.
func (d *smallDisk) fill() {
	d.t.Helper()
	await.NoError(d.t, "the file system to be full", func() error { // somebody may take, or give back, some at that moment
		var now syscall.Statfs_t
		if err := syscall.Statfs(d.dir, &now); err != nil {
			return err
		}
		return d.resize(fmt.Sprint((int64(now.Blocks) - int64(now.Bfree)) * now.Bsize))
	})
}

func (d *smallDisk) widen() {
	if err := d.resize("1g"); err != nil {
		d.t.Error(err)
	}
}

func (d *smallDisk) resize(size string) error {
	return syscall.Mount("", d.dir, "", syscall.MS_REMOUNT, "size="+size)
}
