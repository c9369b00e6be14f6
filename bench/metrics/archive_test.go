package metrics

import (
	"net/http"
	"testing"
	"time"

	"steward/test/harness"
)

// What the environment says of the continuous archive.
const unarchived, archived = "STEWARD_BACKUPS__CONTINUOUS=false", "STEWARD_BACKUPS__CONTINUOUS=true"

// BenchmarkArchive compares a PostgreSQL that writes as fast as it can while it is archived continuously, into a folder on the same disk, with the same one
// that isn't, in turns.
func BenchmarkArchive(b *testing.B) {
	s := harness.New(b)
	d := s.CreateActive(harness.Small("archived", "postgresql/15"))
	prepare(b, s, d)
	for b.Loop() {
		var speed, cpu ratios
		var own [2]float64
		for n := range *rounds {
			var runs [2]run
			for i := range runs {
				which := (i + n) % 2 // each comes first as often
				restart(s, []string{unarchived, archived}[which])
				server := restartServer(b, s, d)
				before, begun := harness.CPUSeconds(s.PID()), time.Now()
				runs[which] = pgbench(b, s, d, server, "-N")
				own[which] += (harness.CPUSeconds(s.PID()) - before) / time.Since(begun).Seconds() / float64(*rounds)
			}
			speed.add(runs[1].tps / runs[0].tps)
			cpu.add(runs[1].cpu / runs[0].cpu)
			b.Logf("pair %d: %.0f tps without, %.0f with", n+1, runs[0].tps, runs[1].tps)
		}
		b.Logf("pgbench -N archived, beside not, %d pairs, 95 %% of what is likely: throughput %v, processor time of the server for a transaction %v; steward's own %.1f and %.1f %% of a core",
			*rounds, speed, cpu, own[1]*100, own[0]*100)
		b.ReportMetric(0, "ns/op")
	}
}

// restartServer has a database's server begin or end to archive, which it does when it starts, and returns its process.
func restartServer(b *testing.B, s *harness.Server, d harness.Database) (pid int) {
	b.Helper()
	before := databaseProcesses(b, s)[0]
	if status, body := s.Call("POST", d.Path()+"/restart", nil, nil); status != http.StatusOK {
		b.Fatalf("restart: %d %s", status, body)
	}
	s.AwaitStatus(d, "active")
	pid = databaseProcesses(b, s)[0]
	if pid == before {
		b.Fatal("the server wasn't restarted")
	}
	return pid
}
