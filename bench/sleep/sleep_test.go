// Package sleep measures what waking a database takes, and what sleeping ones cost. `go
// test -bench . -benchtime 1x ./bench/sleep` runs it, as root; nothing here asserts a time.
package sleep

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/testnet"
	"steward/test/harness"
)

var (
	rounds = flag.Int("rounds", 20, "how often each database is woken")
	asleep = flag.Int("asleep", 40, "how many databases sleep whose cost is measured")
)

func TestMain(m *testing.M) {
	code := testnet.Run(m) // with the kernel's gateway
	harness.RemoveBinaries()
	os.Exit(code)
}

// shortMinute is what idle minutes are measured in.
const shortMinute = 200 * time.Millisecond

// newServer has databases fall asleep after a short minute.
func newServer(b *testing.B) *harness.Server {
	s := harness.Prepare(b, harness.WithTags("failpoint"))
	s.Env = append(s.Env, "STEWARD_MINUTE="+shortMinute.String())
	s.Start()
	return s
}

func createAsleep(s *harness.Server, label, engine string) harness.Database {
	spec := harness.Small(label, engine)
	spec["auto_suspend"] = map[string]any{"idle_minutes": 1}
	return s.CreateActive(spec)
}

// awaitAsleep returns once a database has been asleep for a moment.
func awaitAsleep(s *harness.Server, d harness.Database) {
	s.Eventually("asleep", func() error {
		nodes, err := s.Nodes(d)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.Running {
				return fmt.Errorf("%s: node %d runs", d.Label, n.Ordinal)
			}
		}
		return nil
	})
}

// firstRow is how long it takes from the connect to the first row.
func firstRow(b *testing.B, d harness.Database, c harness.Credentials) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	begun := time.Now()
	db, err := harness.Connect(ctx, d, c, "")
	if err != nil {
		b.Error(err)
		return 0
	}
	defer db.Close()
	var one int
	if err := db.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		b.Error(err)
	}
	return time.Since(begun)
}

// BenchmarkWake measures the connect that wakes a database, alone and with others.
func BenchmarkWake(b *testing.B) {
	for engine, goal := range map[string]string{"postgresql/15": "p50 ≤ 0.30, p99 ≤ 0.6", "mysql/10.11": "p50 ≤ 0.40"} {
		b.Run(strings.ReplaceAll(engine, "/", "-"), func(b *testing.B) {
			s := newServer(b)
			const most = 20
			all := make([]harness.Database, most)
			credentials := make([]harness.Credentials, most)
			for i := range all {
				all[i] = createAsleep(s, fmt.Sprintf("asleep-%d", i), engine)
				credentials[i] = s.Credentials(all[i])
			}
			var alone, together []time.Duration
			for _, d := range all {
				awaitAsleep(s, d)
			}
			for range *rounds {
				alone = append(alone, firstRow(b, all[0], credentials[0]))
				awaitAsleep(s, all[0])
			}
			var mu sync.Mutex
			for range 3 {
				var waking sync.WaitGroup
				for i := range all {
					waking.Go(func() {
						took := firstRow(b, all[i], credentials[i])
						mu.Lock()
						defer mu.Unlock()
						together = append(together, took)
					})
				}
				waking.Wait()
				for _, d := range all {
					awaitAsleep(s, d)
				}
			}
			report(b, engine+" alone", "alone", alone, goal)
			report(b, fmt.Sprintf("%s, %d at once", engine, most), "together", together, "p99 ≤ 2.5")
		})
	}
}

func report(b *testing.B, name, unit string, took []time.Duration, goal string) {
	slices.Sort(took)
	at := func(q float64) float64 { return took[min(int(q*float64(len(took))), len(took)-1)].Seconds() }
	b.ReportMetric(at(.5), "s-p50-"+unit)
	b.ReportMetric(at(.99), "s-p99-"+unit)
	fmt.Printf("%-28s p50 %.3f s, p99 %.3f s of %d; goal %s\n", name, at(.5), at(.99), len(took), goal)
}

// BenchmarkSleeping measures what databases cost that sleep: with the ordinary program, whose minutes are long.
func BenchmarkSleeping(b *testing.B) {
	s := harness.Prepare(b)
	s.Env = append(s.Env, "STEWARD_GATEWAY__PORTS=21000-21999") // in a network of its own
	s.Start()
	// measure is after a restart: what making databases took isn't what it takes to have them.
	measure := func() (cpu float64, memory int64) {
		const (
			patience = 30 * time.Second
			period   = 2 * time.Minute // each that sleeps is looked at once
			looks    = 24              // at memory, which swings with the garbage collector
		)
		s.Stop()
		s.Start()
		time.Sleep(patience) // what follows from the start has been done
		before := harness.CPUSeconds(s.PID())
		var sizes []int64
		for ticks := time.NewTicker(period / looks); len(sizes) < looks; { // the time that passes is what is measured
			<-ticks.C
			sizes = append(sizes, harness.ResidentBytes(s.PID()))
		}
		slices.Sort(sizes)
		return (harness.CPUSeconds(s.PID()) - before) / period.Seconds(), sizes[len(sizes)/2]
	}
	noneCPU, noneMemory := measure()
	var all []harness.Database
	for i := range *asleep {
		all = append(all, createAsleep(s, fmt.Sprintf("asleep-%d", i), "postgresql/15"))
	}
	for _, d := range all {
		awaitAsleep(s, d)
	}
	cpu, memory := measure()
	n := float64(len(all))
	fmt.Printf("%d asleep: %.2f %% of a core (none: %.2f %%), %.0f KiB each of steward's memory\n", len(all), 100*cpu, 100*noneCPU, float64(memory-noneMemory)/n/1024)
	b.ReportMetric(100*(cpu-noneCPU)/n*500, "%-of-a-core-for-500")
	b.ReportMetric(float64(memory-noneMemory)/n/1024, "KiB-each")
}
