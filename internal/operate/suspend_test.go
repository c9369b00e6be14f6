package operate_test

import (
	"testing"

	"steward/internal/cluster"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
)

func (b *bench) suspending() cluster.Cluster {
	b.t.Helper()
	c := b.active()
	if err := b.control.Clusters.Suspend(b.t.Context(), b.admin, c.Engine, c.ID); err != nil {
		b.t.Fatal(err)
	}
	return c
}

func TestSuspendIsNeverGivenUp(t *testing.T) {
	t.Parallel()
	for _, f := range []memplatform.Fault{{Step: memplatform.StepStop}, {Step: memplatform.StepStop, Problem: "It hangs on."}} {
		b := newBench(t, hopeless)
		c := b.suspending()
		b.driver.Inject(f)
		for range 6 {
			again, err := b.operator.Run(t.Context(), b.last)
			if err != nil || again <= 0 {
				t.Fatalf("again in %v, %v", again, err)
			}
			if o, now := b.event(b.last), b.view(c.ID); o.Status != operation.Started || now.Status != cluster.Suspending {
				t.Fatalf("event %+v, database %s", o, now.Status)
			}
		}
		b.driver.Clear()
		b.runToEnd()
		b.mustRest(c)
	}
}

// TestSuspendedWithoutFiles: what has lost its files can be suspended, since
// nothing runs, and fails when it is resumed, after which it can be deleted.
func TestSuspendedWithoutFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.suspending()
	if err := b.driver.Remove(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.Finished || o.Message != platform.LostReason || b.view(c.ID).Status != cluster.Suspended {
		t.Errorf("event %+v, database %s", o, b.view(c.ID).Status)
	}
	if err := b.control.Clusters.Resume(t.Context(), b.admin, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.FailedStatus || o.Message != platform.LostReason || b.view(c.ID).Status != cluster.Failed {
		t.Errorf("event %+v, database %s", o, b.view(c.ID).Status)
	}
	if _, there := b.world.Cluster(c.ID); there {
		t.Error("an empty database was made in its place")
	}
	b.remove(c)
}

// TestRestingNeedsNoPlan: a type that has left the catalog keeps nobody from
// suspending, only from resuming.
func TestRestingNeedsNoPlan(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.suspending()
	b.operator.Catalog.Plans = nil
	b.runToEnd()
	b.mustRest(c)
	c.Status = cluster.Suspended
	if want, err := platform.NewWanted(c, b.operator.Catalog, false); err != nil || !want.Suspended {
		t.Errorf("%+v, %v", want, err)
	}
	c.Status = cluster.Resuming
	if _, err := platform.NewWanted(c, b.operator.Catalog, false); err == nil {
		t.Error("resumed without a plan")
	}
}

// TestThreeNodes: a cluster of three is made, rests and comes back whole; an
// update of one that has lost a replica is done when the replica is back.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick)
	spec := b.spec()
	spec.Size = 3
	c, err := b.control.Clusters.Create(t.Context(), b.admin, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.runToEnd()
	if c = b.view(c.ID); c.Status != cluster.Active || len(c.Members) != 3 {
		t.Fatalf("made: %+v", c)
	}
	if err := b.control.Clusters.Suspend(t.Context(), b.admin, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	b.runToEnd()
	b.mustRest(c)
	if err := b.control.Clusters.Resume(t.Context(), b.admin, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	b.runToEnd()
	b.driver.LoseReplica(c.ID)
	if err := b.control.Clusters.Patch(t.Context(), b.admin, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	b.operator.Limits.Pass = quickPass
	if _, err := b.operator.Run(t.Context(), b.last); err != nil {
		t.Fatal(err)
	}
	if o := b.event(b.last); o.Status != operation.Started || b.view(c.ID).Status != cluster.Updating {
		t.Errorf("with a replica missing: %+v, %s", o, b.view(c.ID).Status)
	}
	b.driver.Mend(c.ID)
	if o := b.runToEnd(); o.Status != operation.Finished || b.view(c.ID).Status != cluster.Active {
		t.Errorf("whole again: %+v, %s", o, b.view(c.ID).Status)
	}
}
