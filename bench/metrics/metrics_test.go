// Package metrics measures what it costs to measure databases. `go
// test -bench . -benchtime 1x ./bench/metrics` runs it, as root; nothing here asserts a time.
package metrics

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

var (
	databases = flag.Int("databases", 20, "how many real databases are measured, of which a fifth are MariaDB's")
	watched   = flag.Duration("watched", time.Minute, "for how long processor time is counted")
	tps       = flag.Duration("pgbench", 15*time.Second, "how long a run of pgbench is")
	rounds    = flag.Int("rounds", 3, "how often pgbench is run with measuring and without")
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
		plain := pgbench(b, s, all[0])
		restart(s, on)
		settle()
		with := sample(s, pids)
		measured := pgbench(b, s, all[0])
		for range *rounds - 1 {
			restart(s, off)
			plain = append(plain, pgbench(b, s, all[0])...)
			restart(s, on)
			measured = append(measured, pgbench(b, s, all[0])...)
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
		slices.Sort(plain)
		slices.Sort(measured)
		b.Logf("pgbench -S: %.0f without measuring, %.0f with, transactions a second (medians of %d): %+.2f %%; runs %.0f and %.0f",
			plain[len(plain)/2], measured[len(measured)/2], *rounds, (measured[len(measured)/2]/plain[len(plain)/2]-1)*100, plain, measured)
		b.ReportMetric(share*each*100, "%core/300")
		b.ReportMetric(float64(with.memory-without.memory)*each/(1<<20), "MiB/300")
		b.ReportMetric(0, "ns/op")
	}
}

// pgbench is the transactions a second of one run.
func pgbench(b *testing.B, s *harness.Server, d harness.Database) []float64 {
	b.Helper()
	c := s.Credentials(d)
	run := func(args ...string) string {
		cmd := exec.Command("pgbench", append(args, "-h", d.Hosts.Primary, "-p", strconv.Itoa(d.Port), "-U", c.Username, "defaultdb")...)
		cmd.Env = append(os.Environ(), "PGPASSWORD="+c.Password, "PGSSLMODE=require")
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	run("-i", "-s", "5", "-q")
	text := run("-S", "-c", "4", "-T", strconv.Itoa(int(tps.Seconds())), "-M", "prepared")
	_, text, _ = strings.Cut(text, "tps = ")
	number, _, _ := strings.Cut(text, " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		b.Fatal(err)
	}
	return []float64{v}
}
