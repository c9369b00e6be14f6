package converge_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/converge"
	"steward/internal/operation"
	"steward/internal/platform/memplatform"
)

func TestALostReplicaDegradesAndIsHealed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, other := b.activeOf(3), b.activeOf(3)
	b.driver.LoseReplica(c.ID)
	b.mustBecome(c.ID, cluster.Degraded)
	b.mustServe(c.ID)
	b.mustHaveEvents(c.ID, operation.Degraded)
	if e := b.events(c.ID)[0]; !strings.Contains(e.Message, "only 2 of 3 nodes serve.") {
		t.Errorf("event: %+v", e)
	}
	b.driver.LoseReplica(c.ID)
	b.lookedAgain(c.ID)
	b.mustHaveEvents(c.ID, operation.Degraded)
	b.driver.Mend(c.ID)
	b.mustBecome(c.ID, cluster.Active)
	b.mustHaveEvents(c.ID, operation.Degraded, operation.Recovered)
	b.mustServe(c.ID)
	b.mustHaveEvents(other.ID)
}

// TestDegradedIsToldBeforeApply: bringing a node back may take long.
func TestDegradedIsToldBeforeApply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.activeOf(3)
	b.adopted(c.ID)
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepStart, Delay: time.Hour})
	b.driver.LosePrimary(c.ID)
	b.mustBecome(c.ID, cluster.Degraded)
	b.mustHaveEvents(c.ID, operation.Failover, operation.Degraded)
}

// TestMembersFollowAFailoverDuringApply: a node is being brought back, for as long as
// that takes, when the primary changes.
func TestMembersFollowAFailoverDuringApply(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.activeOf(3)
	b.adopted(c.ID)
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepStart, Delay: time.Hour})
	b.driver.LoseReplica(c.ID)
	b.mustBecome(c.ID, cluster.Degraded)
	b.driver.LosePrimary(c.ID)
	await.True(b.t, "the members have changed", func() bool {
		now := b.view(c.ID)
		return now.Members["127.0.77.1"] == "failover" && now.Failovers == 1
	})
	b.mustHaveEvents(c.ID, operation.Degraded, operation.Failover)
}

// TestANodeThatComesBackAtOnceIsNotMissed: a server that crashed starts again.
func TestANodeThatComesBackAtOnceIsNotMissed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keeper.Stop()
	b.keep(converge.Options{Every: 50 * time.Millisecond, Grace: time.Hour})
	c := b.activeOf(3)
	b.adopted(c.ID)
	for n := 1; n <= 2; n++ {
		b.driver.LosePrimary(c.ID)
		await.True(b.t, "the failover is told", func() bool { return b.view(c.ID).Failovers == n })
		b.driver.Mend(c.ID)
	}
	b.mustHaveEvents(c.ID, operation.Failover, operation.Failover)
	if now := b.view(c.ID); now.Status != cluster.Active {
		t.Errorf("it is %s", now.Status)
	}
}

// TestTheDiskGuardHoldsWhileDegraded: a database that waits for a node fills up
// like any other.
func TestTheDiskGuardHoldsWhileDegraded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.activeOf(3)
	b.driver.LoseReplica(c.ID)
	b.mustBecome(c.ID, cluster.Degraded)
	b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.UsedBytes = small.DiskBytes() })
	b.driver.Change(c.ID)
	await.True(b.t, "read-only", func() bool {
		real, _ := b.world.Cluster(c.ID)
		return real.ReadOnly && b.view(c.ID).ReadOnly
	})
	b.mustHaveEvents(c.ID, operation.Degraded, operation.LowDiskSpace)
}

// TestAFailoverIsToldOnce: however often it is looked at, by however many
// keepers, also when none was there as it happened.
func TestAFailoverIsToldOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.activeOf(3)
	b.driver.LosePrimary(c.ID)
	b.mustBecome(c.ID, cluster.Degraded)
	b.mustHaveEvents(c.ID, operation.Failover, operation.Degraded)
	if e := b.events(c.ID)[0]; !strings.HasPrefix(e.Message, "Node 0 was lost; node 1 took over") || e.Status != operation.Notification {
		t.Errorf("event: %+v", e)
	}
	b.mustServe(c.ID)
	await.True(b.t, "the members have changed", func() bool { return b.view(c.ID).Members["127.0.77.2"] == "primary" })
	b.keeper.Stop()
	b.start()
	b.driver.Mend(c.ID)
	b.mustBecome(c.ID, cluster.Active)
	b.mustHaveEvents(c.ID, operation.Failover, operation.Degraded, operation.Recovered)

	// With nobody there as it happens, and the node back by the time somebody is.
	b.keeper.Stop()
	b.driver.LosePrimary(c.ID)
	b.driver.Mend(c.ID)
	b.start()
	await.True(b.t, "the failover is told", func() bool { return len(b.events(c.ID)) == 4 })
	b.keeper.Stop()
	b.start()
	b.lookedAgain(c.ID)
	b.mustHaveEvents(c.ID, operation.Failover, operation.Degraded, operation.Recovered, operation.Failover)
	if got := b.view(c.ID); got.Failovers != 2 || got.Status != cluster.Active {
		t.Errorf("%+v", got)
	}
}

// TestAFailoverDuringAnOperation is told once, when the operation is over at the latest.
func TestAFailoverDuringAnOperation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.activeOf(3)
	if err := b.control.Clusters.Patch(t.Context(), b.admin, "", c.ID); err != nil {
		t.Fatal(err)
	}
	b.driver.LosePrimary(c.ID)
	b.driver.Mend(c.ID)
	b.run()
	await.True(b.t, "the failover is told", func() bool { return len(b.events(c.ID)) == 2 })
	b.mustHaveEvents(c.ID, operation.Patch, operation.Failover)
}

// TestNoNodeCanTakeOver: without any node the database has failed; one that
// comes back as the only one makes it degraded.
func TestNoNodeCanTakeOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.activeOf(3)
	for range 3 {
		b.driver.LosePrimary(c.ID)
	}
	b.mustBecome(c.ID, cluster.Failed)
	b.mustHaveLast(c.ID, operation.Failed)
	b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.Lost[real.Primary] = false })
	b.driver.Change(c.ID)
	b.mustBecome(c.ID, cluster.Degraded)
	b.mustServe(c.ID)
	b.mustHaveLast(c.ID, operation.Degraded)
	b.driver.Mend(c.ID)
	b.mustBecome(c.ID, cluster.Active)
	b.mustHaveLast(c.ID, operation.Recovered)
}

func (b *bench) mustHaveLast(id cluster.ID, want operation.Action) {
	b.t.Helper()
	all := b.events(id)
	if last := all[len(all)-1]; last.Action != want {
		b.t.Errorf("last event: %+v, want %s", last, want)
	}
}

// TestAFailoverThatGoesOnIsToldLater: another attempt finishes it, and knows then how long it took.
func TestAFailoverThatGoesOnIsToldLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.activeOf(3)
	change := cluster.PrimaryChange{From: 0, To: 1, Began: time.Now()}
	b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.Failovers, real.LastChange = 1, change })
	b.lookedAgain(c.ID)
	b.mustHaveEvents(c.ID)
	change.Took = 1700 * time.Millisecond
	b.world.Edit(c.ID, func(real *memplatform.Cluster) { real.LastChange = change })
	b.driver.Change(c.ID)
	await.True(b.t, "the failover is told", func() bool { return b.view(c.ID).Failovers == 1 })
	events := b.events(c.ID)
	if len(events) != 1 || events[0].Params.Primary == nil || events[0].Params.Primary.Took != change.Took {
		t.Errorf("%+v", events)
	}
}
