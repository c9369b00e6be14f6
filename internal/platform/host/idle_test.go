package host_test

import (
	"context"
	"sync/atomic"
	"testing"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
)

// countedSecrets counts what is asked of the store.
type countedSecrets struct {
	platform.Secrets
	loads atomic.Int32
}

// Secret implements platform.Secrets.
func (s *countedSecrets) Secret(ctx context.Context, id cluster.ID, name platform.SecretName) ([]byte, error) {
	s.loads.Add(1)
	return s.Secrets.Secret(ctx, id, name)
}

// countedFiles counts how often a node's configuration is rendered.
type countedFiles struct {
	engine.Driver
	renders *atomic.Int32
}

// Files implements engine.Driver.
func (c countedFiles) Files(n engine.Node) ([]engine.File, error) {
	c.renders.Add(1)
	return c.Driver.Files(n)
}

// TestIdleApply: an Apply that finds three nodes as they are wanted reads and renders
// each once, and asks the store nothing; the first of another steward asks for no
// secret twice.
func TestIdleApply(t *testing.T) {
	t.Parallel()
	s := newSite(t, distributionOf(t, engine.FlavourPostgreSQL))
	secrets, renders := &countedSecrets{Secrets: s.o.Secrets}, &atomic.Int32{}
	s.o.Secrets = secrets
	s.o.Engines[cluster.PostgreSQL] = countedFiles{s.o.Engines[cluster.PostgreSQL], renders}
	d := s.open(t) // without Start nothing else looks at the nodes
	want := s.wanted(t, 1)
	want.Size, want.Replication = 3, cluster.Asynch
	await.True(t, "a settled cluster", func() bool {
		seen, err := d.Apply(t.Context(), want)
		return err == nil && seen.Settled
	})
	idle := func(loads int32) {
		t.Helper()
		secrets.loads.Store(0)
		renders.Store(0)
		if seen, err := d.Apply(t.Context(), want); err != nil || !seen.Settled {
			t.Fatalf("%+v, %v", seen, err)
		}
		if got := secrets.loads.Load(); got != loads {
			t.Errorf("%d secrets were loaded, want %d", got, loads)
		}
		if got := renders.Load(); got != 3 {
			t.Errorf("nodes were rendered %d times, want 3", got)
		}
	}
	idle(0)
	d.Close()
	d = s.open(t)
	defer d.Close()
	idle(2) // our own password and the authority's certificate
	idle(0)
}
