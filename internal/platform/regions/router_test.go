package regions

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
)

// fake is a platform in memory that may be away, and says what it was asked.
type fake struct {
	*memplatform.Driver
	away    atomic.Bool
	closed  atomic.Bool
	changes chan cluster.ID
	asked   atomic.Int64
}

func newFake() *fake {
	return &fake{Driver: memplatform.New(memplatform.NewWorld(), memplatform.Options{Secrets: secrets{}}), changes: make(chan cluster.ID)}
}

func (p *fake) Check(context.Context) error {
	if p.away.Load() {
		return errors.New("no route to host")
	}
	return nil
}

func (p *fake) Abilities() catalog.Abilities {
	return catalog.Abilities{Engines: []catalog.Engine{{Engine: cluster.PostgreSQL, Series: "17"}}}
}

func (p *fake) Changes() <-chan cluster.ID { return p.changes }

func (p *fake) Close() { p.closed.Store(true) }

func (p *fake) Reconcile(ctx context.Context, _ func(context.Context) ([]cluster.Cluster, error)) error {
	p.asked.Add(1)
	return ctx.Err()
}

func (p *fake) Logs(context.Context, cluster.ID, insight.LogQuery) ([]insight.LogLine, error) {
	p.asked.Add(1)
	return nil, nil
}

type secrets struct{}

func (secrets) Secret(context.Context, cluster.ID, platform.SecretName) ([]byte, error) {
	return []byte("secret"), nil
}

func (secrets) SaveSecret(context.Context, cluster.ID, platform.SecretName, []byte) error { return nil }

func wanted(id cluster.ID, region string) platform.Wanted {
	c := cluster.Cluster{ID: id, Port: 21000 + int(id), Spec: cluster.Spec{Engine: cluster.PostgreSQL, Series: "15", Region: region, Size: 1}}
	if c.Platform = catalog.Host; region != "local" {
		c.Platform = "kubernetes/" + region
	}
	c.AllowList = cluster.AllowList{"192.0.2.0/24"}
	return platform.Wanted{Cluster: c, Plan: catalog.DefaultPlans()[0]}
}

// bench is a router between this host and two regions, of which one is away at first.
type bench struct {
	host, near, far *fake
	farOpens        atomic.Bool
	*Router
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{host: newFake(), near: newFake(), far: newFake()}
	b.Router = New(Options{
		Host: b.host, Logger: slog.New(slog.DiscardHandler), Every: 20 * time.Millisecond,
		Regions: []Region{
			{ID: "near", Platform: "kubernetes/near", Open: func(context.Context) (Driver, error) { return b.near, nil }},
			{ID: "far", Platform: "kubernetes/far", Open: func(context.Context) (Driver, error) {
				if !b.farOpens.Load() {
					return nil, errors.New("connection refused")
				}
				return b.far, nil
			}},
		},
		Cluster: func(_ context.Context, id cluster.ID) (cluster.Cluster, error) {
			region, ok := map[cluster.ID]string{1: "local", 2: "near", 3: "far", 5: "elsewhere"}[id]
			if !ok {
				return cluster.Cluster{}, fault.NewNotFound()
			}
			return wanted(id, region).Cluster, nil
		},
	})
	b.Start(t.Context())
	t.Cleanup(b.Close)
	return b
}

// TestRouter: each cluster is where it was made, and a region that is away keeps nobody else from anything.
func TestRouter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for id, region := range map[cluster.ID]string{1: "local", 2: "near"} {
		if seen, err := b.Apply(t.Context(), wanted(id, region)); err != nil || !seen.Exists {
			t.Errorf("%s: %+v, %v", region, seen, err)
		}
		if seen, err := b.Observe(t.Context(), id); err != nil || !seen.Exists {
			t.Errorf("look at %s: %+v, %v", region, seen, err)
		}
	}
	if seen, err := b.host.Observe(t.Context(), 2); err != nil || seen.Exists {
		t.Errorf("the region's cluster is on the host: %+v, %v", seen, err)
	}
	_, applied := b.Apply(t.Context(), wanted(3, "far"))
	_, observed := b.Observe(t.Context(), 3)
	for _, err := range []error{applied, observed, b.Remove(t.Context(), wanted(3, "far").Cluster)} {
		if !errors.Is(err, platform.ErrAway) || !strings.Contains(err.Error(), "region far") || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("a region that is away: %v", err)
		}
	}
	if err := b.Upload(t.Context(), wanted(3, "far"), nil); err != nil {
		t.Errorf("what waits there: %v", err)
	}
	if can := b.Abilities("far"); can.Away == "" || len(can.Engines) > 0 {
		t.Errorf("it can %+v", can)
	}
	moved := wanted(2, "near")
	moved.Platform = catalog.Host
	_, looked := b.Observe(t.Context(), 5)
	_, elsewhere := b.Apply(t.Context(), wanted(5, "elsewhere"))
	for _, err := range []error{looked, elsewhere, b.Remove(t.Context(), moved.Cluster)} {
		if !errors.Is(err, platform.ErrAway) || !strings.Contains(err.Error(), "for who made the database") {
			t.Errorf("a cluster of another catalog's: %v", err)
		}
	}
	if _, err := b.Observe(t.Context(), 4); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a cluster that nobody knows: %v", err)
	}
	if err := b.Reconcile(t.Context(), nil); err != nil || b.near.asked.Load() != 1 || b.host.asked.Load() != 1 || b.far.asked.Load() != 0 {
		t.Errorf("orphans: %v, asked %d, %d and %d", err, b.host.asked.Load(), b.near.asked.Load(), b.far.asked.Load())
	}

	b.farOpens.Store(true)
	await.True(t, "the region is reached", func() bool { return b.Abilities("far").Away == "" })
	if can := b.Abilities("far"); len(can.Engines) != 1 || can.Backups {
		t.Errorf("it can %+v", can)
	}
	if _, err := b.Apply(t.Context(), wanted(3, "far")); err != nil {
		t.Error(err)
	}

	b.far.away.Store(true)
	await.True(t, "the region is degraded", func() bool { return b.States()[0].Away != nil })
	if _, err := b.Apply(t.Context(), wanted(3, "far")); !errors.Is(err, platform.ErrAway) {
		t.Errorf("a change: %v", err)
	}
	if seen, err := b.Observe(t.Context(), 3); err != nil || !seen.Exists {
		t.Errorf("what was seen of it still counts: %+v, %v", seen, err)
	}
	if can := b.Abilities("far"); can.Away == "" || len(can.Engines) != 1 {
		t.Errorf("it can %+v", can)
	}
	b.far.away.Store(false)
	await.True(t, "it is back", func() bool { return b.States()[0].Away == nil })
}

// TestChangesOfAll: hints come from wherever they do.
func TestChangesOfAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for id, from := range map[cluster.ID]*fake{1: b.host, 2: b.near} {
		from.changes <- id
		if got := <-b.Changes(); got != id {
			t.Errorf("got %d, want %d", got, id)
		}
	}
	b.Close()
	if !b.near.closed.Load() || b.host.closed.Load() || b.far.closed.Load() {
		t.Error("what was opened is closed, and the host isn't")
	}
}

// TestHostAlone: without further regions it is the host, and nothing runs beside it.
func TestHostAlone(t *testing.T) {
	t.Parallel()
	host := newFake()
	r := New(Options{Host: host, Cluster: func(_ context.Context, id cluster.ID) (cluster.Cluster, error) {
		return wanted(id, "local").Cluster, nil
	}})
	r.Start(t.Context())
	defer r.Close()
	if _, err := r.Observe(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if r.Changes() != host.Changes() || len(r.States()) != 0 {
		t.Error("it isn't the host")
	}
}
