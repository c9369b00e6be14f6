// Package metrics measures what it costs to measure databases, and to archive what they write. `go
// test -bench . -benchtime 1x ./bench/metrics` runs it, as root; nothing here asserts a time.
package metrics

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

var (
	databases = flag.Int("databases", 20, "how many real databases are measured, of which a fifth are MariaDB's")
	watched   = flag.Duration("watched", time.Minute, "for how long processor time is counted")
	tps       = flag.Duration("pgbench", 10*time.Second, "how long a run of pgbench is")
	rounds    = flag.Int("rounds", 10, "how often pgbench is run with measuring and without, in turns")
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.RemoveBinaries()
	os.Exit(code)
}

// extrapolated is how many databases the goals are for.
const extrapolated = 300

// cost is what the processes of steward and its servers use of a core, and steward's memory.
type cost struct {
	steward, store, servers float64
	memory                  int64
}

// sample counts for a while. The store's processes are steward's children, the databases' are nobody's.
func sample(s *harness.Server, servers []int) cost {
	own, storeTree := []int{s.PID()}, storeProcesses(s)
	before := [3]float64{harness.CPUSeconds(own...), harness.CPUSeconds(storeTree...), harness.CPUSeconds(harness.Descendants(servers...)...)}
	time.Sleep(*watched)
	seconds := watched.Seconds()
	return cost{
		steward: (harness.CPUSeconds(own...) - before[0]) / seconds, store: (harness.CPUSeconds(storeTree...) - before[1]) / seconds,
		servers: (harness.CPUSeconds(harness.Descendants(servers...)...) - before[2]) / seconds, memory: harness.ResidentBytes(s.PID()),
	}
}

// storeProcesses are the store's server and its backends.
func storeProcesses(s *harness.Server) []int {
	text, err := os.ReadFile(filepath.Join(s.Data, "store", "data", "postmaster.pid"))
	if err != nil {
		return nil
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return nil
	}
	return harness.Descendants(pid)
}

// databaseProcesses are the servers that customers have.
func databaseProcesses(b *testing.B, s *harness.Server, all []harness.Database) (pids []int) {
	b.Helper()
	for _, d := range all {
		nodes, err := s.Nodes(d)
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range nodes {
			pids = append(pids, n.Pid)
		}
	}
	return pids
}

// What the environment says of measuring.
const off, on = "STEWARD_METRICS__DATABASES=false", "STEWARD_METRICS__DATABASES=true"

// restart has steward go on with another configuration; the databases run on.
func restart(s *harness.Server, config string) {
	s.Stop()
	s.Env = []string{config}
	s.Start()
}

// BenchmarkSampling compares idle databases that are measured with the same ones that aren't, in one run, and pgbench on one
// of them.
func BenchmarkSampling(b *testing.B) {
	s := harness.New(b)
	var all []harness.Database
	for n := range *databases {
		engine := "postgresql/15"
		if n%5 == 4 {
			engine = "mysql/10.11"
		}
		all = append(all, s.CreateActive(harness.Small(fmt.Sprintf("db-%d", n), engine)))
	}
	pids := databaseProcesses(b, s, all)
	settle := func() { time.Sleep(30 * time.Second) } // what a start brings with it is over
	for b.Loop() {
		restart(s, off)
		settle()
		without := sample(s, pids)
		restart(s, on)
		settle()
		with := sample(s, pids)
		prepare(b, s, all[0])
		var speed, cpu ratios
		for n := range *rounds {
			var runs [2]run
			for i := range runs {
				which := (i + n) % 2 // each comes first as often
				restart(s, []string{off, on}[which])
				runs[which] = pgbench(b, s, all[0], pids[0], "-S")
			}
			speed.add(runs[1].tps / runs[0].tps)
			cpu.add(runs[1].cpu / runs[0].cpu)
		}
		b.Logf("%d idle databases without measuring: steward %.2f %%, store %.2f %%, servers %.2f %% of a core, %d MiB",
			*databases, without.steward*100, without.store*100, without.servers*100, without.memory>>20)
		b.Logf("%d idle databases with measuring:    steward %.2f %%, store %.2f %%, servers %.2f %% of a core, %d MiB",
			*databases, with.steward*100, with.store*100, with.servers*100, with.memory>>20)
		each := float64(extrapolated) / float64(*databases)
		share := with.steward + with.store + with.servers - without.steward - without.store - without.servers
		b.Logf("more for %d, extrapolated from %d: %.2f %% of a core in all, of which steward %.2f, store %.2f, servers %.2f; %d MiB",
			extrapolated, *databases, share*each*100, (with.steward-without.steward)*each*100, (with.store-without.store)*each*100,
			(with.servers-without.servers)*each*100, int64(float64(with.memory-without.memory)*each)>>20)
		b.Logf("pgbench -S with measuring, beside without, %d pairs, 95 %% of what is likely: throughput %v, processor time of the server for a transaction %v", *rounds, speed, cpu)
		b.ReportMetric(share*each*100, "%core/300")
		b.ReportMetric(float64(with.memory-without.memory)*each/(1<<20), "MiB/300")
		b.ReportMetric(0, "ns/op")
	}
}

// run is one of pgbench: transactions a second, and the server's processor time for each, in seconds.
type run struct{ tps, cpu float64 }

func prepare(b *testing.B, s *harness.Server, d harness.Database) {
	b.Helper()
	callPgbench(b, s, d, "-i", "-s", "5", "-q")
}

func pgbench(b *testing.B, s *harness.Server, d harness.Database, server int, kind string) (r run) {
	b.Helper()
	before := harness.TreeCPUSeconds(server)
	text := callPgbench(b, s, d, kind, "-c", "4", "-T", strconv.Itoa(int(tps.Seconds())), "-M", "prepared")
	s.Eventually("pgbench's sessions have ended, whose time counts as the server's from then on", func() error { return noSessions(s.Credentials(d).Username, server) })
	used := harness.TreeCPUSeconds(server) - before
	_, text, _ = strings.Cut(text, "tps = ")
	number, _, _ := strings.Cut(text, " ")
	var err error
	if r.tps, err = strconv.ParseFloat(number, 64); err != nil {
		b.Fatal(err)
	}
	r.cpu = used / (r.tps * tps.Seconds())
	return r
}

// noSessions returns an error while a server has processes for a user.
func noSessions(user string, server int) error {
	for _, pid := range harness.Descendants(server) {
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(title), " "+user+" defaultdb ") {
			return fmt.Errorf("process %d: %s", pid, title)
		}
	}
	return nil
}

func callPgbench(b *testing.B, s *harness.Server, d harness.Database, args ...string) string {
	b.Helper()
	c := s.Credentials(d)
	cmd := exec.Command("pgbench", append(args, "-h", d.Hosts.Primary, "-p", strconv.Itoa(d.Port), "-U", c.Username, "defaultdb")...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+c.Password, "PGSSLMODE=require")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// ratios are those of pairs of runs.
type ratios []float64

func (r *ratios) add(ratio float64) { *r = append(*r, math.Log(ratio)) }

// String is by how much the second of a pair is more, and how far that may be off.
func (r ratios) String() string {
	var sum, squares float64
	for _, v := range r {
		sum += v
	}
	n := float64(len(r))
	mean := sum / n
	for _, v := range r {
		squares += (v - mean) * (v - mean)
	}
	const likely = 1.96
	return fmt.Sprintf("%+.2f ± %.2f %%", mean*100, likely*math.Sqrt(squares/(n-1)/n)*100)
}
