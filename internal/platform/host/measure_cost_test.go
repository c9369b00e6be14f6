package host_test

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

// TestMeasureCost: to read as many nodes a second as 300 databases have, at the pace at which a meter does, once a second, thirty at a time, takes much
// less of a processor than to look whether as many answer. Eight servers stand for them, for whom time passes as much faster, and who are looked at as 300 are, also
// without measuring. A look connects, which costs what it costs; a reading took 0.04 to 0.07 of one, beside other work.
func TestMeasureCost(t *testing.T) {
	if !enginetest.Thorough() {
		t.Skip("it takes two minutes in which little else may go on: STEWARD_TEST_ENGINES=all has it run")
	}
	const servers, databases, seconds, looked = 8, 300, 30, 20 * time.Second
	const most = 0.3 // of a look
	const faster, aSecond, looks = databases / servers, databases / 10, databases / int(looked/time.Second)
	begun := time.Now()
	for _, flavour := range []engine.Flavour{engine.FlavourPostgreSQL, engine.FlavourMariaDB} {
		s := newSite(t, distributionOf(t, flavour))
		s.o.Now = func() time.Time { return begun.Add(faster * time.Since(begun)) }
		d := s.started(t)
		for id := range cluster.ID(servers) {
			want := s.wanted(t, id+1)
			want.Engine, want.Series = s.o.Installations[0].Family(), s.o.Installations[0].Series
			if want.Engine == cluster.MySQL {
				want.Commit = ""
			}
			settle(t, d, want)
		}
		read := func(n int) {
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					if found, err := d.Measure(t.Context(), cluster.ID(i%servers+1)); err != nil || len(found) != 1 {
						t.Errorf("%d readings, %v", len(found), err)
					}
				})
			}
			all.Wait()
		}
		paced := func(n int) (own, theirs float64) {
			pids := s.processes(t)
			before, serversBefore := ownTime(), processorTime(pids)
			began := time.Now()
			for look := range seconds * looks {
				if look%looks == 0 {
					read(n)
				}
				if seen, err := d.Observe(t.Context(), cluster.ID(look%servers+1)); err != nil || !seen.Serving {
					t.Errorf("%+v, %v", seen, err)
				}
				time.Sleep(time.Until(began.Add(time.Duration(look+1) * time.Second / time.Duration(looks))))
			}
			return (ownTime() - before).Seconds() / seconds * 100, (processorTime(pids) - serversBefore) / seconds * 100
		}
		read(servers)
		idle, idleServers := paced(0)
		own, theirs := paced(aSecond)
		t.Logf("%s: %d readings a second take %.2f %% of a core, and %.2f %% in the servers; without them %.2f and %.2f",
			flavour, aSecond, own-idle, theirs-idleServers, idle, idleServers)
		reading, look := (own-idle+theirs-idleServers)/aSecond, (idle+idleServers)/float64(looks)
		if reading > most*look {
			t.Errorf("%s: a reading takes %.2f of a look whether a server answers", flavour, reading/look)
		}
		t.Logf("%s: a reading takes %.2f of a look", flavour, reading/look)
	}
}

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
