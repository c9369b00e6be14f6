package alarm

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/outage"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// BenchmarkPass judges 300 databases, of which each was measured for another half minute, by the defaults. The floor is what
// the store takes to answer what was measured; core is the share of a processor that passes take, half a minute apart.
func BenchmarkPass(b *testing.B) {
	const databases = 300
	now := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC).Add(writtenBy)
	s := pgtest.Store(b, pgtest.WithNow(func() time.Time { return now }))
	var ids []cluster.ID
	err := s.InTx(b.Context(), func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(b.Context())
		if err != nil {
			return err
		}
		for n := range databases {
			c, err := tx.CreateCluster(b.Context(), cluster.Cluster{Account: admin.Account, Spec: cluster.Spec{
				Label: fmt.Sprintf("db%d", n), Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "g6-nanode-1", Size: 1,
				Replication: cluster.ReplicationNone, Commit: cluster.CommitLocal, Updates: cluster.DefaultWindow(0),
			}}, nil, store.Ports{First: 21000, Last: 21999})
			if err != nil {
				return err
			}
			ids = append(ids, c.ID)
		}
		_, err = tx.Pgx().Exec(b.Context(), "UPDATE clusters SET status = 'active'")
		return err
	})
	if err == nil {
		err = s.KeepMeasurements(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	var steps [measure.Slice / measure.Every]measure.Values
	for i := range steps {
		for _, d := range measure.Definitions() {
			steps[i][d.Metric] = 10
		}
		steps[i][measure.CertificateLeft], steps[i][measure.ReplicationLag], steps[i][measure.Restarts] = 1e7, 0, 0
	}
	packed := measure.PackSlice(steps[:])
	measured := func() {
		b.Helper()
		var all []store.Slice
		for _, id := range ids {
			all = append(all, store.Slice{Cluster: id, Started: measure.Floor(now, measure.Slice), Packed: packed})
		}
		if err := s.AddSlices(b.Context(), all); err != nil {
			b.Fatal(err)
		}
		now = now.Add(measure.Slice)
	}
	j := New(Options{Store: s, Issues: outage.IssueTracker{}, Logger: pgtest.Logger(b), Backups: true, Now: func() time.Time { return now }})
	for range 70 { // until all is remembered that is
		measured()
		if err := j.pass(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	var passes, floor time.Duration
	for b.Loop() {
		b.StopTimer()
		measured()
		b.StartTimer()
		began := time.Now()
		if _, err := s.SlicesSince(b.Context(), ids, now.Add(-late-writtenBy-measure.Slice), now); err != nil {
			b.Fatal(err)
		}
		floor += time.Since(began)
		began = time.Now()
		if err := j.pass(b.Context()); err != nil {
			b.Fatal(err)
		}
		passes += time.Since(began)
	}
	remembered := heap()
	runtime.KeepAlive(j)
	j = nil
	b.ReportMetric(float64(remembered-heap())/(1<<20), "MiB")
	each := passes / time.Duration(b.N)
	b.ReportMetric(float64(each)/float64(time.Millisecond), "ms/pass")
	b.ReportMetric(float64(floor)/float64(b.N)/float64(time.Millisecond), "ms-floor")
	b.ReportMetric(each.Seconds()/measure.Slice.Seconds()*100, "%core")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
