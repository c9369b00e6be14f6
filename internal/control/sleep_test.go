package control_test

import (
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/control"
)

// TestNoSleepHere: where databases can't sleep, who asks for it is told so; that they
// never do may be said.
func TestNoSleepHere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	told := func(err error) {
		t.Helper()
		if found := texts(err); len(found) != 1 || !strings.Contains(found[0], "auto_suspend.idle_minutes") {
			t.Errorf("told %v", found)
		}
	}
	spec := b.spec()
	spec.AskedAutoSuspend = new(5)
	_, err := b.Clusters.Create(t.Context(), p, spec, nil)
	told(err)
	spec.AskedAutoSuspend = new(0)
	if _, err := b.Clusters.Create(t.Context(), p, spec, nil); err != nil {
		t.Error(err)
	}
	c := b.in(p, cluster.Active)
	_, err = b.Clusters.Update(t.Context(), p, c.Engine, c.ID, control.UpdateCluster{AutoSuspend: new(5)}, nil)
	told(err)
}

// TestWhenDatabasesFallAsleep: those that don't say when the operator says, forks when their source does.
func TestWhenDatabasesFallAsleep(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(d *control.Deps) { d.CanSleep, d.AutoSuspend = true, 30 })
	p := b.tenant("one")
	for _, c := range []struct {
		asked *int
		want  int
	}{{nil, 30}, {new(5), 5}, {new(0), 0}} {
		spec := b.spec()
		spec.AskedAutoSuspend = c.asked
		made, err := b.Clusters.Create(t.Context(), p, spec, nil)
		if err != nil || made.AutoSuspend != c.want {
			t.Errorf("asked for %v: %d, %v; want %d", c.asked, made.AutoSuspend, err, c.want)
		}
	}
	source := b.in(p, cluster.Active)
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET auto_suspend = 7 WHERE id = $1", source.ID); err != nil {
		t.Fatal(err)
	}
	b.kept(p, source, "first")
	fork, err := b.fork(p, source.ID, nil)
	if err != nil || fork.AutoSuspend != 7 {
		t.Errorf("the fork of one that sleeps after 7 minutes: %d, %v", fork.AutoSuspend, err)
	}
}
