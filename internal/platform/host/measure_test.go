package host_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	gopsutil "github.com/shirou/gopsutil/v4/process"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/measure"
	"steward/internal/platform"
	"steward/internal/platform/host"
	"steward/internal/process"
)

// customerDB is a handle of the customer's, through the gateway.
func (s *site) customerDB(t *testing.T, c cluster.Cluster) *sql.DB {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.secrets.Text(c.ID, platform.CACert)))
	secure := &tls.Config{RootCAs: roots, ServerName: s.o.PrimaryAddress.String()}
	at := netip.AddrPortFrom(s.o.PrimaryAddress, uint16(c.Port))
	password := s.secrets.Text(c.ID, platform.RootPassword)
	var db *sql.DB
	if c.Engine == cluster.PostgreSQL {
		config, err := pgx.ParseConfig("")
		if err != nil {
			t.Fatal(err)
		}
		config.Host, config.Port, config.User, config.Password, config.Database = at.Addr().String(), at.Port(), "dbadmin", password, "defaultdb"
		config.TLSConfig, config.Fallbacks = secure, nil
		db = stdlib.OpenDB(*config)
	} else {
		config := mysql.NewConfig()
		config.Net, config.Addr, config.User, config.Passwd, config.DBName, config.TLS = "tcp", at.String(), "dbadmin", password, "defaultdb", secure
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		db = sql.OpenDB(connector)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// measuredNode is a database of one node that is measured.
type measuredNode struct {
	t    *testing.T
	s    *site
	d    *host.Driver
	want platform.Wanted
}

func (m *measuredNode) read() platform.NodeReading {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	all, err := m.d.Measure(ctx, m.want.ID)
	if err != nil || len(all) != 1 {
		m.t.Fatalf("%d readings, %v", len(all), err)
	}
	return all[0]
}

// processes are all of the site's servers'.
func (s *site) processes(t *testing.T) (pids []int) {
	t.Helper()
	marked, err := process.Marked(host.ScopeOf(s.o.DataDir) + "/")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range marked {
		pids = append(pids, list...)
	}
	children := map[int][]int{}
	all, err := gopsutil.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if parent, err := p.Ppid(); err == nil { // it may have ended
			children[int(parent)] = append(children[int(parent)], int(p.Pid))
		}
	}
	for i := 0; i < len(pids); i++ { // PostgreSQL's children overwrite what marks them
		for _, child := range children[pids[i]] {
			if !slices.Contains(pids, child) {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// moves reports whether a thread of the process isn't stopped: on a busy machine they stop one after the other.
func moves(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		_, after, _ := strings.Cut(string(text), ") ")
		return err == nil && !strings.HasPrefix(after, "T") && !strings.HasPrefix(after, "Z")
	})
}

// processorTime is what the kernel says of the processes that live.
func processorTime(pids []int) (seconds float64) {
	for _, pid := range pids {
		if p, err := gopsutil.NewProcess(int32(pid)); err == nil {
			if times, err := p.Times(); err == nil {
				seconds += times.User + times.System
			}
		}
	}
	return seconds
}

// calls are how often the processes that live, and those that they have outlived, called the kernel to read and to write.
func calls(pids []int) (reads, writes float64) {
	for _, pid := range pids {
		if p, err := gopsutil.NewProcess(int32(pid)); err == nil {
			if io, err := p.IOCounters(); err == nil {
				reads, writes = reads+float64(io.ReadCount), writes+float64(io.WriteCount)
			}
		}
	}
	return reads, writes
}

// resident is the memory of processes in bytes: what is theirs alone, and all of which they have a share.
func resident(pids []int) (own, all float64) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) != 3 {
				continue
			}
			kB, _ := strconv.ParseFloat(fields[1], 64)
			switch fields[0] {
			case "Private_Dirty:":
				own += kB * 1024
			case "Rss:":
				all += kB * 1024
			}
		}
	}
	return own, all
}

// bulk is what writes 20 MB, and keeps a processor busy for a while.
func bulk(e cluster.Engine) []string {
	if e == cluster.PostgreSQL {
		return []string{
			"CREATE TABLE bulk AS SELECT i, repeat(md5(i::text), 30) AS t FROM generate_series(1, 20000) i",
			"SELECT count(*) FROM bulk a, (SELECT * FROM bulk LIMIT 200) b WHERE a.t < b.t",
		}
	}
	return []string{
		"SET SESSION max_recursive_iterations = 100000",
		"CREATE TABLE bulk (i int, t text)",
		"INSERT INTO bulk WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i, REPEAT(MD5(i), 30) FROM n",
		"SELECT count(*) FROM bulk a, (SELECT * FROM bulk LIMIT 200) b WHERE a.t < b.t",
	}
}

// TestMeasure has a database work, and compares what is measured with what the kernel and the server say.
func TestMeasure(t *testing.T) {
	t.Parallel()
	for _, flavour := range []engine.Flavour{engine.FlavourPostgreSQL, engine.FlavourMariaDB} {
		t.Run(string(flavour), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, distributionOf(t, flavour))
			m := &measuredNode{t: t, s: s, d: s.started(t), want: s.wanted(t, 1)}
			if _, err := m.d.Measure(t.Context(), 1); !errors.Is(err, platform.ErrNotRunning) {
				t.Errorf("of one that isn't there: %v", err)
			}
			m.want.Engine, m.want.Series = s.o.Installations[0].Family(), s.o.Installations[0].Series
			if m.want.Engine == cluster.MySQL {
				m.want.Commit = ""
			}
			m.want.Hosts = settle(t, m.d, m.want).Hosts
			m.works()
			m.freezes()
			m.shows()
		})
	}
}

// works compares what is measured with what was done, as the kernel, the disk and the server say.
func (m *measuredNode) works() {
	t, e := m.t, m.want.Engine
	db := m.s.customerDB(t, m.want.Cluster)
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	pids := m.s.processes(t)
	readsBefore, writesBefore := calls(pids)
	before, kernelBefore := m.read(), processorTime(pids)
	for _, q := range bulk(e) {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	kernelAfter := processorTime(pids)
	var after platform.NodeReading
	await.True(t, "rows to be counted", func() bool { // the server does when a session's next statement comes, at most once a second
		if _, err := db.ExecContext(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
		after = m.read()
		return after.Values[measure.RowsInserted] > before.Values[measure.RowsInserted]
	})
	grown := func(metric measure.Metric) float64 { return after.Values[metric] - before.Values[metric] }

	cpu, kernel := after.CPUSeconds-before.CPUSeconds, kernelAfter-kernelBefore
	if slack := 0.3 + kernel/4; cpu < 0.05 || math.Abs(cpu-kernel) > slack {
		t.Errorf("%.2f s of processor time measured, the kernel says %.2f s", cpu, kernel)
	}
	if rows := grown(measure.RowsInserted); rows < 20_000 || rows > 60_000 { // MariaDB counts those of temporary tables, too
		t.Errorf("%v rows inserted", rows)
	}
	if n := after.Values[measure.Connections]; n != 1 {
		t.Errorf("%v connections", n)
	}
	if written := grown(measure.LogBytes); written < 15<<20 && e == cluster.MySQL || written <= 0 {
		t.Errorf("%v bytes of log", written)
	}
	m.callsMatch(readsBefore, writesBefore, before)
	if m.s.kernel {
		m.traffic(db)
	}
	own, all := resident(pids)
	all += after.Values[measure.DiskUsed] // which is in memory, too, in tests
	memory := after.Values[measure.MemoryUsed]
	if memory < own*0.8 || memory > all*1.2 || memory > float64(m.want.Plan.MemoryMB)*(1<<20)*1.1 {
		t.Errorf("%v bytes of memory; the kernel says %v of the server's own, %v in all", memory, own, all)
	}
	if share := after.Values[measure.MemoryUsage]; math.Abs(share-memory/float64(m.want.Plan.MemoryMB)/(1<<20)*100) > 0.1 {
		t.Errorf("%v %% of memory, of %v bytes", share, memory)
	}
	m.left(after, measure.MemoryUsed, measure.AvailableMemory, float64(m.want.Plan.MemoryMB)*(1<<20))
	m.disk()
	var meter measure.Meter
	meter.Add(before.Reading)
	values := meter.Add(after.Reading)
	if share := values[measure.CPUUsage]; !(share > 0 && share < 110) {
		t.Errorf("cpu_usage %v", share)
	}
}

// traffic has a customer get much from the server and send it less, and compares what is measured with what the kernel counts inside of the server's network.
func (m *measuredNode) traffic(db *sql.DB) {
	t := m.t
	t.Helper()
	inside := func() (in, out float64) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", m.s.pid(t, m.want.ID)))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, numbers, found := strings.Cut(line, ":")
			fields := strings.Fields(numbers)
			if !found || strings.TrimSpace(name) == "lo" || len(fields) != 16 {
				continue
			}
			received, _ := strconv.ParseFloat(fields[0], 64)
			sent, _ := strconv.ParseFloat(fields[8], 64)
			in, out = in+received, out+sent
		}
		return in, out
	}
	const got, given = 6 << 20, 2 << 20
	inBefore, outBefore := inside()
	before := m.read()
	for range got >> 20 {
		var text string
		if err := db.QueryRowContext(t.Context(), "SELECT repeat('x', 1048576)").Scan(&text); err != nil || len(text) != 1<<20 {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
	}
	for i := range given >> 20 {
		var n int // of texts that differ: what is known by then isn't sent twice
		if err := db.QueryRowContext(t.Context(), "SELECT length('"+strings.Repeat(string(rune('a'+i)), 1<<20)+"')").Scan(&n); err != nil || n != 1<<20 {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	await.NoError(t, "what goes over the network to be measured as the kernel counts", func() error {
		now := m.read()
		in, out := inside()
		for _, c := range []struct {
			metric        measure.Metric
			kernel, least float64
		}{{measure.NetworkIn, in - inBefore, given}, {measure.NetworkOut, out - outBefore, got}} {
			measured := now.Values[c.metric] - before.Values[c.metric]
			if !(measured >= c.least && measured < 1.5*c.least) || math.Abs(measured-c.kernel) > c.kernel/50 {
				return fmt.Errorf("%s: %v bytes measured, the kernel says %v, at least %v went", c.metric.Definition().Name, measured, c.kernel, c.least)
			}
		}
		return nil
	})
}

// callsMatch compares the operations that are measured with the kernel's count of calls, which both go on.
func (m *measuredNode) callsMatch(reads, writes float64, before platform.NodeReading) {
	m.t.Helper()
	now := m.read()
	readsNow, writesNow := calls(m.s.processes(m.t))
	for _, c := range []struct {
		metric         measure.Metric
		kernel, before float64
	}{{measure.ReadOps, readsNow, reads}, {measure.WriteOps, writesNow, writes}} {
		measured, kernel := now.Values[c.metric]-before.Values[c.metric], c.kernel-c.before
		if measured < kernel*0.8-200 || measured > kernel*1.2+200 || c.metric == measure.WriteOps && measured <= 0 {
			m.t.Errorf("%s: %v measured, the kernel says %v", c.metric.Definition().Name, measured, kernel)
		}
	}
}

// disk waits until the disk's use is that which du says.
func (m *measuredNode) disk() {
	m.t.Helper()
	dir := filepath.Dir(m.s.node(m.want.ID))
	var used, du float64
	await.True(m.t, "the disk's use to be seen", func() bool { // it is looked at every ten seconds while something is written
		out, err := exec.CommandContext(m.t.Context(), "du", "-s", "--block-size=1", dir).Output()
		if err != nil {
			return false // a file has gone meanwhile
		}
		du, _ = strconv.ParseFloat(strings.Fields(string(out))[0], 64)
		used = m.read().Values[measure.DiskUsed]
		return math.Abs(used-du) < du/10
	})
	if used < 20<<20 {
		m.t.Errorf("%v bytes in use", used)
	}
	now, whole := m.read(), float64(m.want.Plan.DiskBytes())
	m.left(now, measure.DiskUsed, measure.AvailableDisk, whole)
	if share, used := now.Values[measure.DiskUsage], now.Values[measure.DiskUsed]; math.Abs(share-used/whole*100) > 0.1 {
		m.t.Errorf("%v %% of the disk, of %v bytes", share, used)
	}
}

// left compares what is in use of a whole with what is told to be left of it.
func (m *measuredNode) left(r platform.NodeReading, used, left measure.Metric, whole float64) {
	m.t.Helper()
	if sum := r.Values[used] + r.Values[left]*(1<<30); math.Abs(sum-whole) > whole/1000 {
		m.t.Errorf("%s %v bytes and %s %v GB of %v bytes", used.Definition().Name, r.Values[used], left.Definition().Name, r.Values[left], whole)
	}
}

// freezes stops the server as a hung one stands still: what the kernel knows is measured all the same, in time.
func (m *measuredNode) freezes() {
	t := m.t
	pids := m.s.processes(t)
	signal := func(sig syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig) // it may have ended
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT)
	await.True(t, "all threads stand still", func() bool { return !slices.ContainsFunc(pids, moves) })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	all, err := m.d.Measure(ctx, m.want.ID)
	took := time.Since(began)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d readings, %v", len(all), err)
	}
	if r := all[0]; r.Values[measure.Up] != 0 || math.IsNaN(r.CPUSeconds) || math.IsNaN(r.Values[measure.MemoryUsed]) || !math.IsNaN(r.Values[measure.Connections]) {
		t.Errorf("frozen: up %v, cpu %v, connections %v", r.Values[measure.Up], r.CPUSeconds, r.Values[measure.Connections])
	}
	if left := time.Duration(all[0].Values[measure.CertificateLeft]) * time.Second; left < 300*24*time.Hour || left > 370*24*time.Hour {
		t.Errorf("the certificate has %v left", left)
	}
	if took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	signal(syscall.SIGCONT)
	await.True(t, "the server to answer again", func() bool { return m.read().Values[measure.Up] == 1 })
}

// shows reads what exporters show.
func (m *measuredNode) shows() {
	nodes, err := m.d.Families(m.t.Context(), m.want.ID)
	if err != nil || len(nodes) != 1 || nodes[0].Role != cluster.Primary {
		m.t.Fatalf("%+v, %v", nodes, err)
	}
	up := false
	for _, f := range nodes[0].Families {
		up = up || f.Name == measure.UpFamily(m.want.Engine) && f.Samples[0].Value == 1
	}
	if !up || len(nodes[0].Families) < 100 {
		m.t.Errorf("up %v, %d families", up, len(nodes[0].Families))
	}
	tables, err := m.d.Tables(m.t.Context(), m.want.ID, 1)
	if err != nil || len(tables) != 1 || tables[0].Table != "bulk" {
		m.t.Errorf("%+v, %v", tables, err)
	}
}

// TestMeasuringLetsSleep: a database that is measured all the time falls asleep as others do; asleep it is left alone.
func TestMeasuringLetsSleep(t *testing.T) { onEach(t, measuringLetsSleep, engine.FlavourPostgreSQL) }

func TestMeasuringLetsSleepThorough(t *testing.T) {
	onEach(t, measuringLetsSleep, engine.FlavourMariaDB)
}

func measuringLetsSleep(t *testing.T, flavour engine.Flavour) {
	t.Helper()
	b := newAutoSuspended(t, flavour, 1)
	b.mustConnect()
	ctx, stop := context.WithCancel(t.Context())
	var measuring sync.WaitGroup
	measured := make(chan struct{}, 1)
	lives, restarts := map[string]bool{}, 0.0
	measuring.Go(func() {
		var m measure.Meter
		for ctx.Err() == nil {
			if all, err := b.d.Measure(ctx, b.want.ID); err == nil && all[0].Values[measure.Up] == 1 {
				lives[all[0].Life] = true
				restarts += m.Add(all[0].Reading)[measure.Restarts]
				select {
				case measured <- struct{}{}:
				default:
				}
			}
			time.Sleep(5 * time.Millisecond) // not all of the processor
		}
	})
	<-measured
	b.fallAsleep()
	if _, err := b.d.Measure(ctx, b.want.ID); !errors.Is(err, platform.ErrNotRunning) {
		t.Errorf("asleep: %v", err)
	}
	b.mustSleep()
	select {
	case <-measured: // from before
	default:
	}
	b.mustConnect()
	<-measured
	stop()
	measuring.Wait()
	if len(lives) != 2 || restarts != 0 {
		t.Errorf("%v restarts of a server that had %d lives, and was woken for the second", restarts, len(lives))
	}
}
