// Package metrics measures what it costs to measure databases, and to archive what they write. `go
// test -bench . -benchtime 1x ./bench/metrics` runs it, as root; nothing here asserts a time.
package metrics

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/measure"
	"steward/test/harness"
)

var (
	tps    = flag.Duration("pgbench", 10*time.Second, "how long a run of pgbench is")
	rounds = flag.Int("rounds", 10, "how often pgbench is run with measuring and without, in turns")
	times  = flag.Int("times", 50, "how many readings of the busy database are taken for each that an operator's steward takes; what they cost is divided by it")
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.RemoveBinaries()
	os.Exit(code)
}

// What the environment says of measuring.
const off, on = "STEWARD_METRICS__DATABASES=false", "STEWARD_METRICS__DATABASES=true"

// restart has steward go on with another configuration; the databases run on.
func restart(s *harness.Server, config ...string) {
	s.Stop()
	s.Env = config
	s.Start()
}

// BenchmarkBusy compares pgbench on a database that is measured with the same one that isn't, in turns. What pairs differ by anyhow is far more than what
// measuring costs: so many times as many readings are taken, and the difference is divided.
func BenchmarkBusy(b *testing.B) {
	s := harness.New(b, harness.WithTags("failpoint"))
	d := s.CreateActive(harness.Small("busy", "postgresql/15"))
	server := databaseProcesses(b, s)[0]
	prepare(b, s, d)
	for b.Loop() {
		var speed, cpu ratios
		for n := range *rounds {
			var runs [2]run
			for i := range runs {
				which := (i + n) % 2 // each comes first as often
				restart(s, []string{off, on}[which], fmt.Sprint("STEWARD_READINGS=", *times))
				runs[which] = pgbench(b, s, d, server, "-S")
			}
			speed.add(runs[1].tps / runs[0].tps)
			cpu.add(runs[1].cpu / runs[0].cpu)
		}
		b.Logf("pgbench -S with %d times as many readings as each %v, beside none, %d pairs, 95 %% of what is likely: throughput %v, processor time of the server for a transaction %v",
			*times, measure.Every, *rounds, speed, cpu)
		b.Logf("divided by %d, which is what measuring costs: throughput %v, processor time of the server for a transaction %v", *times, speed.dividedBy(*times), cpu.dividedBy(*times))
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

// dividedBy is what a share of all that differs comes to.
func (r ratios) dividedBy(n int) ratios {
	all := make(ratios, len(r))
	for i, v := range r {
		all[i] = v / float64(n)
	}
	return all
}

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
	return fmt.Sprintf("%+.3f ± %.3f %%", mean*100, likely*math.Sqrt(squares/(n-1)/n)*100)
}
