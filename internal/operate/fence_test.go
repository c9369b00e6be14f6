package operate_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

// TestAWorkerThatLostItsLeaseCantFinish: the connection that holds its lease is cut
// without a word while it applies, and another server takes the lease.
func TestAWorkerThatLostItsLeaseCantFinish(t *testing.T) {
	t.Parallel()
	url := pgtest.MigratedURL(t)
	options := store.Options{MaxConns: 8, Sealer: pgtest.Sealer(), Logger: slog.New(slog.DiscardHandler)}
	proxy := pgtest.NewProxy(t, url)
	options.URL = proxy.URL
	b := newBenchOn(t, pgtest.Open(t, options), operate.Limits{})
	options.URL = url
	other := pgtest.Open(t, options)

	c := b.active()
	if err := b.control.Clusters.Patch(t.Context(), b.admin, "", c.ID); err != nil {
		t.Fatal(err)
	}
	var release func()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepRoute, Times: 1, Do: func() {
		proxy.Sever("steward leases")
		for deadline := time.Now().Add(20 * time.Second); release == nil && time.Now().Before(deadline); {
			_, free, ok, err := other.Lease(t.Context(), c.ID)
			if err != nil {
				t.Error(err)
			}
			if ok {
				release = free
			}
		}
	}})
	if _, err := b.operator.Run(t.Context(), b.last); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the worker ends with %v", err)
	}
	if release == nil {
		t.Fatal("nobody else got the lease")
	}
	if o, now := b.event(b.last), b.view(c.ID); o.Status != operation.Started || now.Status != cluster.Updating {
		t.Errorf("the operation is %s and the database %s", o.Status, now.Status)
	}
	release()
	b.store = other
	b.restart()
	if o := b.runToEnd(); o.Status != operation.Finished || b.view(c.ID).Status != cluster.Active {
		t.Errorf("the other server ends it as %+v", o)
	}
}
