// Package history measures what the history of databases takes on the disk, and to look at it. `go
// test -bench . -benchtime 1x ./bench/history` runs it; nothing here asserts a time.
package history

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/pgtest"
	"steward/internal/store"
)

var recorded = flag.Int("recorded", 300, "how many databases have a history")

func TestMain(m *testing.M) { pgtest.Main(m) }

// busy is a node's values as those of a database at work are: some jump about, some creep, some stay.
func busy(random *rand.Rand, last *measure.Values) measure.Values {
	for _, d := range measure.Definitions() {
		switch v := &last[d.Metric]; {
		case d.Metric%3 == 0: // stays
			if *v == 0 {
				*v = float64(1 + random.IntN(1000))
			}
		case d.Counter: // jumps
			*v = random.Float64() * 5000
		default: // creeps
			*v = max(1, *v+random.NormFloat64()*10)
		}
	}
	return *last
}

// BenchmarkHistory fills the store with a day of some hundred databases, and asks for a day of one metric. The floor is
// a question for one row of the same size.
func BenchmarkHistory(b *testing.B) {
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	s := pgtest.Store(b, pgtest.WithNow(func() time.Time { return now }))
	ids := clusters(b, s, *recorded)
	if err := s.KeepMeasurements(b.Context()); err != nil {
		b.Fatal(err)
	}
	begin := now
	filled := fill(b, s, &now, ids)
	size := func(like string) (n int64) {
		if err := s.Pool().QueryRow(b.Context(), "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relkind = 'r' AND relname LIKE $1", like).Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	samples := float64(*recorded) * float64(measure.Count-1) * float64(24*time.Hour/measure.Every)
	b.Logf("a day of %d databases, two thirds of whose metrics change all the time: %.0f million samples, %d MiB with indexes, %.2f bytes a sample; packing an hour took %v",
		*recorded, samples/1e6, size("measured_fine_%")>>20, float64(size("measured_fine_%"))/samples, (filled / 24).Round(time.Millisecond))
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		var took, floor []time.Duration
		for range 500 {
			id := ids[random.IntN(len(ids))]
			metric := measure.Definitions()[random.IntN(measure.Count-1)].Metric
			started := time.Now()
			builder := measure.NewBuilder(measure.Range{From: begin, To: now, Step: measure.Every})
			if err := s.AddMeasurements(b.Context(), builder, id, []measure.Metric{metric}); err != nil {
				b.Fatal(err)
			}
			if all := builder.Series(); len(all) != 1 || len(all[0].Points) != 8640 {
				b.Fatalf("%d series", len(all))
			}
			took = append(took, time.Since(started))
			started = time.Now()
			var row []byte
			if err := s.Pool().QueryRow(b.Context(), "SELECT convert_to(repeat('x', 15000), 'UTF8')").Scan(&row); err != nil {
				b.Fatal(err)
			}
			floor = append(floor, time.Since(started))
		}
		slices.Sort(took)
		slices.Sort(floor)
		b.Logf("a day of one metric: p50 %v, p99 %v; floor, one row of as many bytes: p50 %v, p99 %v", took[250], took[495], floor[250], floor[495])
		b.ReportMetric(float64(took[495].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(size("measured_fine_%"))/samples, "bytes/sample")
		b.ReportMetric(0, "ns/op")
	}
}

// fill has a day go by, and returns how long the store took to pack it.
func fill(b *testing.B, s *store.Store, now *time.Time, ids []cluster.ID) (packing time.Duration) {
	b.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	last := make([]measure.Values, len(ids))
	for range 24 {
		for end := now.Add(time.Hour); now.Before(end); {
			var slices []store.Slice
			for range 10 { // at once
				for i, id := range ids {
					steps := [3]measure.Values{busy(random, &last[i]), busy(random, &last[i]), busy(random, &last[i])}
					slices = append(slices, store.Slice{Cluster: id, Started: *now, Packed: measure.PackSlice(steps[:])})
				}
				*now = now.Add(measure.Slice)
			}
			if err := s.AddSlices(b.Context(), slices); err != nil {
				b.Fatal(err)
			}
		}
		*now = now.Add(5 * time.Minute)
		started := time.Now()
		if err := s.KeepMeasurements(b.Context()); err != nil {
			b.Fatal(err)
		}
		packing += time.Since(started)
		*now = now.Add(-5 * time.Minute)
	}
	return packing
}

// clusters are rows of databases that nobody runs.
func clusters(b *testing.B, s *store.Store, n int) (ids []cluster.ID) {
	b.Helper()
	err := s.InTx(b.Context(), func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(b.Context())
		if err != nil {
			return err
		}
		for i := range n {
			c, err := tx.CreateCluster(b.Context(), cluster.Cluster{Account: admin.Account, Spec: cluster.Spec{
				Label: fmt.Sprintf("db-%d", i), Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "g6-nanode-1", Size: 1,
				Replication: cluster.ReplicationNone, Commit: cluster.CommitLocal, Updates: cluster.DefaultWindow(0),
			}}, nil, store.Ports{First: 21000, Last: 21999})
			if err != nil {
				return err
			}
			ids = append(ids, c.ID)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return ids
}
