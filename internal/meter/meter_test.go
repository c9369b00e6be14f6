package meter

import (
	"context"
	"math"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
	"steward/internal/platform/platformtest"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// measuring is a meter of databases in memory, with a clock that the test moves.
type measuring struct {
	t        *testing.T
	now      time.Time
	store    *store.Store
	platform *memplatform.Driver
	ids      []cluster.ID
	m        *Meter
}

func newMeasuring(t *testing.T, databases, size int) *measuring {
	t.Helper()
	b := &measuring{t: t, now: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return b.now }
	b.store = pgtest.Store(t, pgtest.WithNow(clock))
	secrets := platformtest.NewSecrets()
	b.platform = memplatform.New(memplatform.NewWorld(), memplatform.Options{Secrets: secrets, Now: clock})
	plans := catalog.DefaultPlans()
	for n := range databases {
		var c cluster.Cluster
		err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
			admin, err := tx.EnsureAdmin(t.Context())
			if err != nil {
				return err
			}
			c, err = tx.CreateCluster(t.Context(), cluster.Cluster{Account: admin.Account, Spec: cluster.Spec{
				Label: "db-" + string(rune('a'+n)), Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: plans[0].ID, Size: size,
				Replication: cluster.Asynch, Commit: cluster.CommitLocal, Updates: cluster.DefaultWindow(0),
			}}, nil, store.Ports{First: 21000, Last: 21099})
			if err != nil {
				return err
			}
			_, err = tx.Pgx().Exec(t.Context(), "UPDATE clusters SET status = 'active' WHERE id = $1", int64(c.ID))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		secrets.Make(t, c.ID)
		if _, err := b.platform.Apply(t.Context(), platform.Wanted{Cluster: c, Plan: plans[0]}); err != nil {
			t.Fatal(err)
		}
		b.ids = append(b.ids, c.ID)
	}
	if err := b.store.KeepMeasurements(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.start()
	return b
}

// start begins with a new meter, as a process does.
func (b *measuring) start() {
	b.m = New(Options{Store: b.store, Platform: b.platform, Logger: pgtest.Logger(b.t), Now: func() time.Time { return b.now }})
}

// pass has time go by, as Run does, with the store there or away.
func (b *measuring) pass(length time.Duration, there bool) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	asking := ctx
	if !there {
		asking, cancel = context.WithCancel(ctx)
		cancel()
	}
	b.m.list(asking)
	for end := b.now.Add(length); b.now.Before(end); b.now = b.now.Add(tick) {
		b.m.begin(ctx, b.now)
		b.m.reading.Wait()
		b.m.close(measure.Floor(b.now.Add(-readTime), measure.Slice))
		b.m.write(asking)
	}
}

// series is a metric of each node, of what is written and what isn't.
func (b *measuring) series(id cluster.ID, metric measure.Metric, from time.Time) map[int][]measure.Point {
	b.t.Helper()
	builder := measure.NewBuilder(measure.Range{From: from, To: measure.Floor(b.now, measure.Every), Step: measure.Every})
	b.m.Add(builder, id, func(m measure.Metric) bool { return m == metric })
	if err := b.store.AddMeasurements(b.t.Context(), builder, id, []measure.Metric{metric}); err != nil {
		b.t.Fatal(err)
	}
	found := map[int][]measure.Point{}
	for _, s := range builder.Series() {
		found[s.Node] = s.Points
	}
	return found
}

// known counts the steps that are known, and demands that all have the value.
func (b *measuring) known(points []measure.Point, want float64) (n int) {
	b.t.Helper()
	for i, p := range points {
		if !p.Known() {
			continue
		}
		n++
		if math.Abs(p.Mean-want) > want/1000 {
			b.t.Errorf("step %d is %v, want %v", i, p.Mean, want)
		}
	}
	return n
}

// TestMeter has two databases measured, and one process after the other.
func TestMeter(t *testing.T) {
	t.Parallel()
	b := newMeasuring(t, 2, 3)
	begin := b.now
	b.pass(2*time.Minute, true)
	for _, id := range b.ids {
		commits := b.series(id, measure.Commits, begin)
		if len(commits) != 3 {
			t.Fatalf("%d nodes", len(commits))
		}
		for node, points := range commits {
			if n := b.known(points, memplatform.CommitRate); n != 11 { // the first says nothing of rates
				t.Errorf("node %d: %d of 12 steps are known", node, n)
			}
		}
		if n := b.known(b.series(id, measure.CPUUsage, begin)[0], memplatform.BusyCPU*100); n != 11 {
			t.Errorf("cpu: %d steps", n)
		}
		if n := b.known(b.series(id, measure.Connections, begin)[2], memplatform.Sessions); n != 12 {
			t.Errorf("connections: %d steps", n)
		}
		if role := b.series(id, measure.Primary, begin); role[0][5] != measure.At(1) || role[1][5] != measure.At(0) {
			t.Errorf("roles %v", role)
		}
	}
	if s := b.m.Stats(); s.Databases != 2 || s.Failed != 0 || s.Readings != 24 || s.WaitingSlices != 0 {
		t.Errorf("%+v", s)
	}

	// A process that is killed loses the slices that weren't over, half a minute and what a reading may take: no more.
	killed := b.now
	b.start()
	b.pass(time.Minute, true)
	points := b.series(b.ids[0], measure.Connections, begin)[0]
	lost := 0
	for _, p := range points {
		if !p.Known() {
			lost++
		}
	}
	if most := int((measure.Slice + readTime) / measure.Every); lost > most+1 {
		t.Errorf("%d steps are lost, at most %d may be", lost, most)
	}

	// While the store is away what is measured waits; it is shown all the same.
	b.pass(time.Minute, false)
	if n := b.known(b.series(b.ids[0], measure.Connections, killed)[0], memplatform.Sessions); n != 12 {
		t.Errorf("with the store away %d of 12 steps are known", n)
	}
	if s := b.m.Stats(); s.WaitingSlices == 0 {
		t.Error("nothing waits")
	}
	b.pass(10*time.Second, true)
	if s := b.m.Stats(); s.WaitingSlices != 0 {
		t.Errorf("%d slices wait still", s.WaitingSlices)
	}
}

// TestFrozenCostsItsOwn: a database that doesn't answer loses its own values, the others none; and it is asked again when
// it is back.
func TestFrozenCostsItsOwn(t *testing.T) {
	t.Parallel()
	b := newMeasuring(t, 3, 1)
	begin := b.now
	b.platform.Inject(memplatform.Fault{Step: memplatform.StepMeasure, Cluster: b.ids[1], Err: context.DeadlineExceeded})
	b.pass(time.Minute, true)
	if n := len(b.series(b.ids[1], measure.Connections, begin)); n != 0 {
		t.Errorf("what doesn't answer has %d series", n)
	}
	for _, id := range []cluster.ID{b.ids[0], b.ids[2]} {
		if n := b.known(b.series(id, measure.Connections, begin)[0], memplatform.Sessions); n != 6 {
			t.Errorf("database %d has %d of 6 steps", id, n)
		}
	}
	if s := b.m.Stats(); s.Failed != 6 {
		t.Errorf("%+v", s)
	}
	b.platform.Clear()
	back := b.now
	b.pass(time.Minute, true)
	if n := b.known(b.series(b.ids[1], measure.Connections, back)[0], memplatform.Sessions); n != 6 {
		t.Errorf("back again it has %d of 6 steps", n)
	}
}

// TestRestingIsLeftAlone: suspended, sleeping and deleted databases aren't measured.
func TestRestingIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newMeasuring(t, 3, 1)
	for i, set := range []string{"status = 'suspended'", "sleeping_since = now()", "deleted = now()"} {
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET "+set+" WHERE id = $1", int64(b.ids[i])); err != nil {
			t.Fatal(err)
		}
	}
	b.pass(30*time.Second, true)
	if s := b.m.Stats(); s.Readings != 0 || s.Databases != 0 {
		t.Errorf("%+v", s)
	}
}

// TestHungReadingIsntRepeated: as long as one hangs no other one of the same database begins, and others go on.
func TestHungReadingIsntRepeated(t *testing.T) {
	t.Parallel()
	b := newMeasuring(t, 2, 1)
	b.m.list(t.Context())
	hung := b.m.clusters[b.ids[0]]
	hung.reading = true
	begin := b.now
	for range 2 * measure.Every / tick {
		b.m.begin(t.Context(), b.now)
		b.m.reading.Wait()
		b.now = b.now.Add(tick)
	}
	if s := b.m.Stats(); s.Readings != 2 {
		t.Errorf("%+v", s)
	}
	if n := len(b.series(b.ids[0], measure.Connections, begin)); n != 0 {
		t.Error("it was read while another reading went on")
	}
}

// TestScraper: whoever asks at the same time gets one reading, and a later one after a second.
func TestScraper(t *testing.T) {
	t.Parallel()
	b := newMeasuring(t, 3, 1)
	s := NewScraper(b.platform)
	b.platform.Inject(memplatform.Fault{Step: memplatform.StepMeasure, Cluster: b.ids[0], Delay: 300 * time.Millisecond})
	b.platform.Inject(memplatform.Fault{Step: memplatform.StepMeasure, Cluster: b.ids[1], Delay: time.Hour})
	results := make(chan error, 20)
	for range cap(results) {
		go func() {
			nodes, err := s.Families(t.Context(), b.ids[0])
			if err == nil && len(nodes) != 1 {
				err = context.Canceled
			}
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Families(ctx, b.ids[1]); err == nil {
		t.Error("one that hangs answers")
	}
	looks := 0
	for _, step := range b.platform.Done() {
		if step == memplatform.StepMeasure {
			looks++
		}
	}
	if looks != 2 {
		t.Errorf("%d readings of two databases", looks)
	}
	// One that hangs keeps those waiting who ask for it, and nobody else.
	for range 50 {
		go func() { _, _ = s.Families(t.Context(), b.ids[1]) }() // ends with the test
	}
	if tables, err := s.Tables(t.Context(), b.ids[2], 5); err != nil || len(tables) != 1 {
		t.Errorf("%v, %v", tables, err)
	}
}
