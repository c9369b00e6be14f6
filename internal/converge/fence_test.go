package converge_test

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/pgtest"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

// TestAKeeperThatLostItsLeaseRecordsNothing: the connection that holds its lease is
// cut without a word while it looks, and another server takes the lease.
func TestAKeeperThatLostItsLeaseRecordsNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.MigratedURL(t)
	options := store.Options{MaxConns: 8, Sealer: pgtest.Sealer(), Logger: slog.New(slog.DiscardHandler)}
	proxy := pgtest.NewProxy(t, url)
	options.URL = proxy.URL
	b := newBenchOn(t, pgtest.Open(t, options))
	options.URL = url
	other := pgtest.Open(t, options)

	c := b.active()
	b.adopted(c.ID)
	lost, recorded := make(chan func(), 1), make(chan struct{})
	var once sync.Once
	var looks atomic.Int32
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepObserve, Cluster: c.ID, Do: func() {
		looks.Add(1)
		_, release, ok, err := other.Lease(t.Context(), c.ID)
		if err != nil {
			t.Error(err)
		}
		if ok { // a look without the lease
			release()
			return
		}
		once.Do(func() {
			proxy.Sever("steward leases")
			for deadline := time.Now().Add(20 * time.Second); !ok && time.Now().Before(deadline); {
				if _, release, ok, err = other.Lease(t.Context(), c.ID); err != nil {
					t.Error(err)
				}
			}
			if ok {
				lost <- release
			}
			close(recorded)
		})
	}})
	b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.UsedBytes = 10 << 30 })
	b.driver.Change(c.ID)
	<-recorded
	var release func()
	select {
	case release = <-lost:
	default:
		t.Fatal("nobody else got the lease")
	}
	before := looks.Load()
	await.True(b.t, "the next look", func() bool { return looks.Load() > before })
	if now := b.view(c.ID); *now.UsedBytes != *c.UsedBytes {
		t.Errorf("%d bytes are recorded, %d before", *now.UsedBytes, *c.UsedBytes)
	}
	b.keeper.Stop()
	release()
	b.driver.Clear()
	b.store = other
	b.start()
	await.True(b.t, "the next one records it", func() bool { return *b.view(c.ID).UsedBytes == 10<<30 })
}
