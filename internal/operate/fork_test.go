package operate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/archive/archivetest"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform/memplatform"
)

// fork asks for a database with another one's data.
func (b *bench) fork(of cluster.Cluster, at *time.Time) cluster.Cluster {
	b.t.Helper()
	spec := b.spec()
	spec.Fork = &cluster.Fork{Source: of.ID, RestoreTime: at}
	c, err := b.control.Clusters.Create(b.t.Context(), b.admin, spec, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// mustBeFork demands that the database serves the backup's data with a password
// of its own.
func (b *bench) mustBeFork(c, of cluster.Cluster, kept backup.Backup, data string) {
	b.t.Helper()
	b.mustServe(c.ID)
	b.mustHold(c, data)
	theirs, _ := b.world.Cluster(of.ID)
	if ours, _ := b.world.Cluster(c.ID); ours.Password == theirs.Password || ours.Port == theirs.Port {
		b.t.Error("the fork shares a password or a port with its source")
	}
	now := b.view(c.ID)
	if now.Fork == nil || now.Fork.Source != of.ID || now.Fork.RestoreTime == nil || !now.Fork.RestoreTime.Equal(kept.Created) {
		b.t.Errorf("it says to be a fork of %+v", now.Fork)
	}
}

func TestFork(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	b.hold(c, "one")
	first := b.keep(c, "first")
	time.Sleep(time.Until(first.Created.Truncate(time.Second).Add(time.Second))) // times are shown in seconds
	b.hold(c, "two")
	second := b.keep(c, "second")
	b.hold(c, "three")
	for _, f := range []struct {
		at   *time.Time
		kept backup.Backup
		data string
	}{{nil, second, "two"}, {&first.Created, first, "one"}} {
		made := b.fork(c, f.at)
		if o := b.runToEnd(); o.Status != operation.Finished || o.Params.Fork != c.ID {
			t.Errorf("%+v", o)
		}
		b.mustBeFork(made, c, f.kept, f.data)
	}
	b.mustHold(c, "three")
	if now := b.view(c.ID); now.OldestBackup == nil || !now.OldestBackup.Equal(first.Created) {
		t.Errorf("the oldest backup is of %v", now.OldestBackup)
	}
}

// TestForksGoOnAfterAFault: before and after every step, with the same process
// and with a new one; what a customer wrote once let in is never lost.
func TestForksGoOnAfterAFault(t *testing.T) {
	t.Parallel()
	forksGoOnAfter(t, failures)
}

func TestForksGoOnAfterAFaultThorough(t *testing.T) {
	t.Parallel()
	forksGoOnAfter(t, otherFailures)
}

func forksGoOnAfter(t *testing.T, failures []failure) {
	t.Helper()
	b := newBench(t, quick)
	c := b.active()
	b.hold(c, "one")
	kept := b.keep(c, "s")
	for _, f := range failures {
		for name := range restoreFaults(b, f.after) {
			made := b.fork(c, nil)
			b.failOnce(restoreFaults(b, f.after)[name], f.death)
			if real, ok := b.world.Cluster(made.ID); ok && real.Routed {
				b.hold(made, "written since")
			}
			if o := b.runToEnd(); o.Status != operation.Finished {
				t.Errorf("%s after=%v restarted=%v: %+v", name, f.after, f.death, o)
			}
			want := "one"
			if real, _ := b.world.Cluster(made.ID); real.Data == "written since" {
				want = real.Data
			} else if name == string(memplatform.StepRoute) && f.after {
				t.Error("what was written since is lost")
			}
			b.mustBeFork(made, c, kept, want)
		}
	}
}

func TestAForkBegunTwiceIsPlacedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick)
	c := b.active()
	b.hold(c, "one")
	kept := b.keep(c, "s")
	made := b.fork(c, nil)
	ctx, die := context.WithCancel(t.Context())
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepRoute, After: true, Times: 1, Do: die})
	if _, err := b.operator.Run(ctx, b.last); err == nil {
		t.Fatal("the run didn't die")
	}
	b.hold(made, "written since")
	b.restart()
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustBeFork(made, c, kept, "written since")
}

// TestADamagedBackupIsPassedOver where the newest was asked for, and not where
// it is the one that was.
func TestADamagedBackupIsPassedOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick)
	c := b.active()
	b.hold(c, "one")
	first := b.keep(c, "first")
	time.Sleep(time.Until(first.Created.Truncate(time.Second).Add(time.Second)))
	b.hold(c, "two")
	second := b.keep(c, "second")
	b.archive.Damage(c.ID, second.ID)
	made := b.fork(c, nil)
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustBeFork(made, c, first, "one")
	b.mustFailToFork(b.fork(c, &second.Created), "damaged")
}

// mustFailToFork runs a fork to its end, which is that nothing is left of it.
func (b *bench) mustFailToFork(c cluster.Cluster, why string) {
	b.t.Helper()
	if o := b.runToEnd(); o.Status != operation.FailedStatus || !strings.Contains(o.Message, why) {
		b.t.Errorf("want %q: %+v", why, o)
	}
	if now := b.view(c.ID); now.Status != cluster.Failed {
		b.t.Errorf("it is %s", now.Status)
	}
	if left, ok := b.world.Cluster(c.ID); ok {
		b.t.Errorf("left: %+v", left)
	}
}

// TestTheSourceIsDeletedMeanwhile before the fork begins, and while it is copied.
func TestTheSourceIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, copying := range []bool{false, true} {
		t.Run(fmt.Sprintf("copying=%v", copying), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, quick)
			c := b.active()
			b.keep(c, "s")
			made := b.fork(c, nil)
			fork := b.last
			remove := func() {
				if err := b.control.Clusters.Delete(context.WithoutCancel(t.Context()), b.admin, c.Engine, c.ID, false); err != nil {
					t.Error(err)
				}
				b.runToEnd()
				b.last = fork
			}
			if copying {
				b.driver.Inject(memplatform.Fault{Step: memplatform.StepCopy, Cluster: made.ID, Times: 1, Do: remove, Err: memplatform.ErrInjected})
			} else {
				remove()
			}
			b.mustFailToFork(made, "was deleted meanwhile")
		})
	}
}

func TestTheBackupIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick)
	c := b.active()
	kept := b.keep(c, "s")
	made := b.fork(c, nil)
	fork := b.last
	if err := b.control.Backups.Delete(t.Context(), b.admin, c.Engine, c.ID, kept.ID); err != nil {
		t.Fatal(err)
	}
	b.runToEnd()
	b.last = fork
	b.mustFailToFork(made, "is gone")
}

// TestAForkThatGoesOnFailingIsTakenAway.
func TestAForkThatGoesOnFailingIsTakenAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, hopeless)
	c := b.active()
	b.keep(c, "s")
	b.archive.Inject(archivetest.Fault{Call: "Get"})
	b.mustFailToFork(b.fork(c, nil), "went on failing")
}
