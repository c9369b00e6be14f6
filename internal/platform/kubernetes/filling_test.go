package kubernetes_test

import (
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/platform/kubernetes"
)

// TestAVolumeThatFills: what a server has used is asked the sooner again the less is left of its volume, which it would have filled before anybody
// makes it read-only.
func TestAVolumeThatFills(t *testing.T) {
	b := newBench(t)
	var ahead atomic.Int64
	o := b.options()
	o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	d, err := kubernetes.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 731)
	want.Plan.DiskMB = 1 // each has a larger one than that before it: no volume shrinks
	for _, c := range []struct {
		name    string
		percent int
		after   time.Duration
		asked   bool
	}{
		{"one that has no room", 85, 2 * time.Second, true},
		{"one that is half full, not at each look", 60, 2 * time.Second, false},
		{"one that is half full", 55, 11 * time.Second, true},
		{"an empty one", 10, 11 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := settle(t, d, &want)
			if seen.UsedBytes == nil {
				t.Fatalf("what it uses isn't known: %+v", seen)
			}
			want.Plan.DiskMB = int(*seen.UsedBytes>>20) * 100 / c.percent
			before := *settle(t, d, &want).UsedBytes
			const fill = "CREATE TABLE IF NOT EXISTS filler (v text); INSERT INTO filler SELECT repeat('x', 100) FROM generate_series(1, 10000)"
			if err := b.execute(t, want.Cluster, fill); err != nil {
				t.Fatal(err)
			}
			ahead.Add(int64(c.after))
			await.NoError(t, "looked", func() error {
				seen, err = d.Observe(t.Context(), want.ID)
				return err
			})
			if asked := seen.UsedBytes != nil && *seen.UsedBytes > before; asked != c.asked {
				t.Errorf("it uses %d bytes after %d: asked again after %s: %v", *seen.UsedBytes, before, c.after, asked)
			}
		})
	}
}
