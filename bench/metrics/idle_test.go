package metrics

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

var (
	databases = flag.Int("databases", 300, "how many real databases idle, of which a fifth are MariaDB's")
	watched   = flag.Duration("watched", time.Minute, "for how long processor time is counted each time")
	settled   = flag.Duration("settled", 40*time.Second, "how long after a start of steward it is begun to count")
	turns     = flag.Int("turns", 2, "how often they are watched without measuring and with it")
)

// cost is what a group of processes takes: a share of a core, and memory in bytes.
type cost struct {
	core   float64
	memory int64
}

func (c cost) less(other cost) cost { return cost{c.core - other.core, c.memory - other.memory} }

func (c cost) String() string {
	return fmt.Sprintf("%6.2f %% of a core, %5d MiB", c.core*100, c.memory>>20)
}

// group names processes whose cost is told apart.
type group int

const (
	own group = iota
	stores
	servers
	groups
)

func (g group) String() string { return [...]string{"steward", "its store", "the servers", "all"}[g] }

// watch counts for a while what each group takes, and in what is returned last all of them. Memory that processes share counts once.
func watch(s *harness.Server, customers []int) (all [groups + 1]cost) {
	roots := [groups][]int{own: {s.PID()}, stores: {storeProcess(s)}, servers: customers}
	var before [groups]float64
	count := func(g group) float64 {
		if g == own {
			return harness.CPUSeconds(s.PID()) // the store is its child
		}
		return harness.TreeCPUSeconds(roots[g]...)
	}
	begun := time.Now()
	for g := range groups {
		before[g] = count(g)
	}
	time.Sleep(*watched)
	seconds := time.Since(begun).Seconds()
	for g := range groups {
		all[g].core = (count(g) - before[g]) / seconds
	}
	for g := range groups {
		pids := roots[g]
		if g != own {
			pids = harness.Descendants(pids...)
		}
		all[g].memory = harness.ProportionalBytes(pids...)
		all[groups].core += all[g].core
		all[groups].memory += all[g].memory
	}
	return all
}

// storeProcess is the store's server, which steward started.
func storeProcess(s *harness.Server) int {
	text, err := os.ReadFile(filepath.Join(s.Data, "store", "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(first)
	return pid
}

// databaseProcesses are the servers that customers have.
func databaseProcesses(b *testing.B, s *harness.Server) (pids []int) {
	b.Helper()
	out, err := s.Command("node", "list", "--data", s.Data, "--config", s.ConfigPath(), "--pid")
	if err != nil {
		b.Fatalf("node list: %v\n%s", err, out)
	}
	for line := range strings.Lines(out) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			b.Fatalf("node list printed %q", out)
		}
		pids = append(pids, pid)
	}
	return pids
}

// engineOf is MariaDB for each fifth.
func engineOf(n int) string {
	if n%5 == 4 {
		return "mysql/10.11"
	}
	return "postgresql/15"
}

// BenchmarkIdle compares idle databases that are measured every ten seconds with the same ones that aren't, in turns.
func BenchmarkIdle(b *testing.B) {
	s := harness.New(b, harness.WithPorts(*databases))
	begun := time.Now()
	for n := range *databases {
		s.CreateActive(harness.Small(fmt.Sprintf("db-%d", n), engineOf(n)))
	}
	customers := databaseProcesses(b, s)
	if len(customers) != *databases {
		b.Fatalf("%d of %d databases have a server", len(customers), *databases)
	}
	b.Logf("%d databases after %v", *databases, time.Since(begun).Round(time.Second))
	for b.Loop() {
		var without, with [groups + 1]cost
		for n := range *turns {
			for i := range 2 {
				which := (i + n) % 2 // each comes first as often
				restart(s, []string{off, on}[which])
				time.Sleep(*settled) // what a start brings with it is over
				sum := []*[groups + 1]cost{&without, &with}[which]
				for g, c := range watch(s, customers) {
					sum[g].core += c.core / float64(*turns)
					sum[g].memory += c.memory / int64(*turns)
					b.Logf("turn %d, %-7s %-12s %v", n+1, []string{"without", "with"}[which], group(g), c)
				}
			}
		}
		for g := range groups + 1 {
			b.Logf("%-12s with measuring %v, without %v, more %v", g, with[g], without[g], with[g].less(without[g]))
		}
		all := with[groups].less(without[groups])
		b.ReportMetric(all.core*100, "%core")
		b.ReportMetric(float64(all.memory)/(1<<20), "MiB")
		b.ReportMetric(with[groups].core/without[groups].core, "ratio")
		b.ReportMetric(0, "ns/op")
	}
}
