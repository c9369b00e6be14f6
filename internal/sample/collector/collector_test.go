package collector_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/monitor"
	"steward/internal/pgtest"
	"steward/internal/sample"
	"steward/internal/sample/collector"
	"steward/internal/store"
)

// noon is when a point begins; reading and asking for stats take the tests' clock.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { pgtest.Main(m) }

const patience = 30 * time.Second

// bench is an account with machines whose clock the test moves.
type bench struct {
	t     *testing.T
	store *store.Store
	owner account.ID
	// after is how long after noon it is.
	after atomic.Int64
}

func newBench(t *testing.T) *bench {
	s := pgtest.Store(t)
	b := &bench{t: t, store: s}
	if err := s.Pool().QueryRow(t.Context(), "INSERT INTO accounts (name, created) VALUES ('a', now()) RETURNING id").Scan(&b.owner); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) inTx(do func(*store.Tx) error) {
	b.t.Helper()
	if err := b.store.InTx(b.t.Context(), do); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) now() time.Time { return noon.Add(time.Duration(b.after.Load())) }

// collector is that of a server on the host "here" that reads with the function.
func (b *bench) collector(read func(ctx context.Context, source string) (monitor.Reading, error)) *collector.Collector {
	return collector.New(collector.Options{
		Store: b.store, Logger: pgtest.Logger(b.t), Host: "here", Now: b.now,
		ReadHost: func(ctx context.Context) (monitor.Reading, error) { return b.atNow(read(ctx, "")) },
		ReadExporter: func(ctx context.Context, source string) (monitor.Reading, error) {
			return b.atNow(read(ctx, source))
		},
	})
}

func (b *bench) atNow(r monitor.Reading, err error) (monitor.Reading, error) {
	r.At = b.now()
	return r, err
}

// round has each of the collectors read its machines at a time after noon.
func (b *bench) round(after time.Duration, all ...*collector.Collector) {
	b.t.Helper()
	b.after.Store(int64(after))
	for _, l := range all {
		l.Round(b.t.Context())
	}
}

func (b *bench) machine(of account.ID, label, source string) monitor.MachineID {
	b.t.Helper()
	if source == "" {
		if err := b.store.EnsureHost(b.t.Context(), of, label); err != nil {
			b.t.Fatal(err)
		}
		return 0
	}
	c, err := b.store.CreateMachine(b.t.Context(), monitor.Machine{Account: of, Label: label, Source: source})
	if err != nil {
		b.t.Fatal(err)
	}
	return c.ID
}

// sums are the account's stats.
func (b *bench) sums(of account.ID) []monitor.Point {
	b.t.Helper()
	found, err := b.store.PointSums(b.t.Context(), of, noon.Add(-monitor.StatsWindow))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range found {
		found[i].At = found[i].At.UTC()
	}
	return found
}

func (b *bench) rows() (count int, covered float64) {
	b.t.Helper()
	if err := b.store.Pool().QueryRow(b.t.Context(), "SELECT count(*), coalesce(sum(covered), 0) FROM compute_points").Scan(&count, &covered); err != nil {
		b.t.Fatal(err)
	}
	return count, covered
}

func total(at time.Time, cpu, disk, swap, in, out float64) monitor.Point {
	return monitor.Point{At: at, Load: monitor.Load{CPU: &cpu, Disk: &disk, Swap: &swap, NetIn: &in, NetOut: &out}}
}

// exporter serves the recorded texts of a machine, one a minute from noon on,
// and nothing when there are no more.
func (b *bench) exporter(name string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		minute := int(time.Duration(b.after.Load()).Minutes())
		text, err := os.ReadFile(fmt.Sprintf("../testdata/%s-%d.prom", name, 1200+minute))
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(text)
	}))
	b.t.Cleanup(server.Close)
	return server.URL + "/metrics"
}

// TestStatsOfRecordedTexts: from the texts of two node_exporters to the sums,
// which were worked out by hand. The machine "mail" was booted between them.
func TestStatsOfRecordedTexts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.machine(b.owner, "web", b.exporter("web"))
	b.machine(b.owner, "mail", b.exporter("mail"))
	exporters := sample.NewExporters()
	l := b.collector(exporters.Read)
	b.round(0, l)
	if got := b.sums(b.owner); len(got) > 0 {
		t.Errorf("a point of one reading: %+v", got)
	}
	b.round(time.Minute, l)
	const seconds = 60
	cpuOfWeb, cpuOfMail := 55.0/seconds, 4.5/seconds
	diskOfWeb, diskOfMail := 3276800.0/seconds, 1500000.0/seconds
	want := []monitor.Point{total(noon,
		// Busy for 42.5 s and 12.5 s, and since its boot for 4.5 s, of 60 s.
		cpuOfWeb+cpuOfMail,
		// 655360 B + 2621440 B, and 1200000 B + 300000 B, in 60 s.
		diskOfWeb+diskOfMail,
		// 2147479552 B - 1946152960 B; mail has no swap.
		201326592,
		// 99965432 B - 98765432 B, and 60000 B; 12795678 B - 12345678 B, and 30000 B.
		1200000*8/60+60000*8/60, 450000*8/60+30000*8/60,
	)}
	if diff := cmp.Diff(want, b.sums(b.owner)); diff != "" {
		t.Errorf("a minute after the start: -want +got\n%s", diff)
	}
	for after := 2 * time.Minute; after <= 12*time.Minute; after += time.Minute {
		b.round(after, l) // nothing answers any more: a gap
	}
	if diff := cmp.Diff(want, b.sums(b.owner)); diff != "" {
		t.Errorf("later: -want +got\n%s", diff)
	}
}

// steady is a machine that has so many cores busy all the time.
func (b *bench) steady(cores float64) monitor.Reading {
	return monitor.Reading{Busy: monitor.Counters{"0": 1000 + cores*time.Duration(b.after.Load()).Seconds()}}
}

func cpuOf(points []monitor.Point) map[time.Duration]float64 {
	all := map[time.Duration]float64{}
	for _, p := range points {
		all[p.At.Sub(noon)] = *p.CPU
	}
	return all
}

// TestSumOfThoseThatHaveData: a point is the sum over the machines that have it.
func TestSumOfThoseThatHaveData(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.machine(b.owner, "here", "")
	b.machine(b.owner, "there", "http://there/metrics")
	b.machine(b.owner, "another server", "")
	down := false
	l := b.collector(func(_ context.Context, source string) (monitor.Reading, error) {
		if source == "" {
			return b.steady(0.5), nil
		}
		if down {
			return monitor.Reading{}, errors.New("away")
		}
		return b.steady(2), nil
	})
	for after := time.Duration(0); after <= 15*time.Minute; after += 30 * time.Second {
		down = after > 5*time.Minute && after < 10*time.Minute
		b.round(after, l)
	}
	want := map[time.Duration]float64{0: 2.5, 5 * time.Minute: 0.5, 10 * time.Minute: 2.5}
	if diff := cmp.Diff(want, cpuOf(b.sums(b.owner))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n, _ := b.rows(); n != 5 {
		t.Errorf("%d points of machines, want 5: the other server's host isn't read here", n)
	}
}

// TestTwoServersMakeOnePoint: the one that measured for longer makes it.
func TestTwoServersMakeOnePoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.machine(b.owner, "there", "http://there/metrics")
	reader := func(cores float64) func(context.Context, string) (monitor.Reading, error) {
		return func(context.Context, string) (monitor.Reading, error) { return b.steady(cores), nil }
	}
	long, short := b.collector(reader(1)), b.collector(reader(3))
	for after := time.Duration(0); after <= 10*time.Minute; after += 30 * time.Second {
		if after >= 3*time.Minute {
			b.round(after, short)
		}
		b.round(after, long)
	}
	want := map[time.Duration]float64{0: 1, 5 * time.Minute: 3} // of the second, the first to come stays
	if diff := cmp.Diff(want, cpuOf(b.sums(b.owner))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n, covered := b.rows(); n != 2 || covered != 600 {
		t.Errorf("%d rows that cover %v s", n, covered)
	}
}

// TestRestartBetweenReadings: what was measured before a stop is kept, and one
// point is left of both, the fuller one.
func TestRestartBetweenReadings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.machine(b.owner, "there", "http://there/metrics")
	reader := func(context.Context, string) (monitor.Reading, error) { return b.steady(1), nil }
	first := b.collector(reader)
	for after := time.Duration(0); after <= 7*time.Minute; after += 30 * time.Second {
		b.round(after, first)
	}
	if n, _ := b.rows(); n != 1 {
		t.Errorf("%d points, want the one that is over", n)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	first.Run(stopped) // all that is left of it: to write what it has
	if n, covered := b.rows(); n != 2 || covered != 300+120 {
		t.Errorf("after the stop %d points of %v s", n, covered)
	}
	second := b.collector(reader)
	for after := 7*time.Minute + 15*time.Second; after <= 10*time.Minute+15*time.Second; after += 30 * time.Second {
		b.round(after, second)
	}
	if n, covered := b.rows(); n != 2 || covered <= 300+120 || covered > 600 {
		t.Errorf("after the restart %d points of %v s", n, covered)
	}
	want := map[time.Duration]float64{0: 1, 5 * time.Minute: 1}
	if diff := cmp.Diff(want, cpuOf(b.sums(b.owner))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestPointsWaitForTheStore: they are written when it is back; old ones go.
func TestPointsWaitForTheStore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gone := b.machine(b.owner, "gone", "http://gone/metrics")
	b.machine(b.owner, "there", "http://there/metrics")
	sql := func(text string) {
		t.Helper()
		if _, err := b.store.Pool().Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	sql("INSERT INTO compute_points (compute_id, at, cpu, covered) SELECT id, '2026-01-30T10:59:00Z', 7, 300 FROM computes")
	l := b.collector(func(context.Context, string) (monitor.Reading, error) { return b.steady(1), nil })
	sql("ALTER TABLE compute_points RENAME TO away")
	for after := time.Duration(0); after <= 11*time.Minute; after += time.Minute {
		b.round(after, l)
	}
	sql("ALTER TABLE away RENAME TO compute_points")
	if err := b.store.DeleteMachine(t.Context(), b.owner, gone); err != nil {
		t.Fatal(err)
	}
	b.round(12*time.Minute, l)
	want := map[time.Duration]float64{0: 1, 5 * time.Minute: 1}
	if diff := cmp.Diff(want, cpuOf(b.sums(b.owner))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n, covered := b.rows(); n != 2 || covered != 600 {
		t.Errorf("%d points of %v s: those of 25 hours ago are still there", n, covered)
	}
}

// TestSilentMachineHoldsUpNobody: all are read at the same time.
func TestSilentMachineHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.machine(b.owner, "silent", "http://silent/metrics")
	b.machine(b.owner, "there", "http://there/metrics")
	read := make(chan struct{})
	var once sync.Once
	l := b.collector(func(_ context.Context, source string) (monitor.Reading, error) {
		if source == "http://there/metrics" {
			once.Do(func() { close(read) })
			return b.steady(1), nil
		}
		select {
		case <-read:
			return monitor.Reading{}, errors.New("no answer")
		case <-time.After(patience):
			return monitor.Reading{}, errors.New("the others wait for it")
		}
	})
	b.round(0, l)
	b.round(time.Minute, l)
	if diff := cmp.Diff(map[time.Duration]float64{0: 1}, cpuOf(b.sums(b.owner))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestStatsOfOthers: an account's stats are of its own machines.
func TestStatsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var other account.ID
	if err := b.store.Pool().QueryRow(t.Context(), "INSERT INTO accounts (name, created) VALUES ('b', now()) RETURNING id").Scan(&other); err != nil {
		t.Fatal(err)
	}
	id := b.machine(b.owner, "there", "http://there/metrics")
	points := []monitor.Point{{Machine: id, At: noon, Covered: time.Minute, Load: monitor.Load{CPU: new(1.0)}}}
	b.inTx(func(tx *store.Tx) error { return tx.AddPoints(t.Context(), points) })
	if got := b.sums(other); len(got) > 0 {
		t.Errorf("another account's: %+v", got)
	}
	if got := b.sums(b.owner); len(got) != 1 || got[0].Disk != nil {
		t.Errorf("its own: %+v", got)
	}
}
