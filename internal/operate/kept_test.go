package operate_test

import (
	"fmt"
	"strings"
	"testing"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
)

// newKeepingBench has a platform that keeps backups itself.
func newKeepingBench(t *testing.T, limits operate.Limits) *bench {
	t.Helper()
	b := newBench(t, limits)
	b.keeps = true
	b.restart()
	return b
}

// TestAPlatformKeepsBackups: nothing of them comes into steward's archive, and all that is done to backups goes the platform's way, with a fault before
// and after each step, in the same process and in another.
func TestAPlatformKeepsBackups(t *testing.T) {
	t.Parallel()
	b := newKeepingBench(t, quick)
	for _, after := range []bool{false, true} {
		for _, restarted := range []bool{false, true} {
			for _, step := range []memplatform.Step{memplatform.StepBackup, memplatform.StepSwap, memplatform.StepUndo, memplatform.StepDrop} {
				what := fmt.Sprintf("%s after=%v restarted=%v", step, after, restarted)
				c := b.active()
				b.hold(c, what)
				b.snapshot(c, "s")
				strike := func(at memplatform.Step) {
					if step == at {
						b.failOnce(func() { b.driver.Inject(memplatform.Fault{Step: step, After: after, Times: 1}) }, restarted)
					}
				}
				strike(memplatform.StepBackup)
				if o := b.runToEnd(); o.Status != operation.Finished {
					t.Fatalf("%s: %+v", what, o)
				}
				kept := b.backups(c)
				if len(kept) != 1 || kept[0].State != backup.Complete || kept[0].Ref == "" || kept[0].StoredBytes == 0 || b.archive.Len() != 0 {
					t.Fatalf("%s: %+v", what, kept)
				}
				b.hold(c, "lost")
				b.restore(c, kept[0])
				strike(memplatform.StepSwap)
				if o := b.runToEnd(); o.Status != operation.Finished {
					t.Errorf("%s: %+v", what, o)
				}
				b.mustHold(c, what)
				b.mustServe(c.ID)
				if err := b.control.Backups.UndoRestore(t.Context(), b.admin, c.Engine, c.ID); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				strike(memplatform.StepUndo)
				if o := b.runToEnd(); o.Status != operation.Finished {
					t.Errorf("%s: %+v", what, o)
				}
				b.mustHold(c, "lost")
				if err := b.control.Backups.Delete(t.Context(), b.admin, c.Engine, c.ID, kept[0].ID); err != nil {
					t.Fatal(err)
				}
				strike(memplatform.StepDrop)
				b.runToEnd()
				if left := b.world.Kept(c.ID); len(left) > 0 {
					t.Errorf("%s: %v is left", what, left)
				}
			}
		}
	}
}

// TestAKeptBackupThatFails is listed with its reason, and nothing of it is kept.
func TestAKeptBackupThatFails(t *testing.T) {
	t.Parallel()
	b := newKeepingBench(t, hopeless)
	c := b.active()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepBackup, After: true})
	b.snapshot(c, "s")
	if o := b.runToEnd(); o.Status != operation.FailedStatus {
		t.Errorf("%+v", o)
	}
	if kept := b.backups(c); len(kept) != 1 || kept[0].State != backup.Failed || kept[0].Problem == "" || kept[0].Ref != "" {
		t.Errorf("%+v", kept)
	}
	if left := b.world.Kept(c.ID); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	b.mustServe(c.ID)
}

// TestAKeptBackupThatNoServerComesUpOn leaves the data as it was, and isn't tried for ten minutes.
func TestAKeptBackupThatNoServerComesUpOn(t *testing.T) {
	t.Parallel()
	b := newKeepingBench(t, operate.Limits{})
	c := b.active()
	b.hold(c, "one")
	kept := b.keep(c, "s")
	b.hold(c, "two")
	if err := b.driver.DropBackup(t.Context(), c, kept.ID, kept.Ref); err != nil {
		t.Fatal(err)
	}
	b.restore(c, kept)
	o := b.runToEnd()
	if o.Status != operation.FailedStatus || !strings.Contains(o.Message, operate.RestoreFailsReason) || !strings.Contains(o.Message, "as it was") || o.Attempt != 1 {
		t.Errorf("%+v", o)
	}
	b.mustHold(c, "two")
	b.mustServe(c.ID)
}

// TestARestoreOfAKeptBackupHasTodaysPassword, although that was reset since.
func TestARestoreOfAKeptBackupHasTodaysPassword(t *testing.T) {
	t.Parallel()
	b := newKeepingBench(t, operate.Limits{})
	c := b.active()
	b.hold(c, "one")
	kept := b.keep(c, "s")
	b.resetPassword(c)
	b.restore(c, kept)
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustHold(c, "one")
	b.mustServe(c.ID)
	if now := b.view(c.ID); now.LockedOut || now.Status != cluster.Active {
		t.Errorf("it is %s, locked out %v", now.Status, now.LockedOut)
	}
}

// TestADeleteTakesKeptBackupsAlong, and the backup's key is never made.
func TestADeleteTakesKeptBackupsAlong(t *testing.T) {
	t.Parallel()
	b := newKeepingBench(t, quick)
	c := b.active()
	b.keep(c, "s")
	if _, err := b.store.Secret(t.Context(), c.ID, platform.BackupKey); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a key: %v", err)
	}
	if err := b.control.Clusters.Delete(t.Context(), b.admin, c.Engine, c.ID, false); err != nil {
		t.Fatal(err)
	}
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepDrop, Times: 1})
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustBeGone(c)
	if left := b.world.Kept(c.ID); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestForkOfAKeptBackup, with a fault before and after it is placed; one of a backup that no server comes up on leaves nothing.
func TestForkOfAKeptBackup(t *testing.T) {
	t.Parallel()
	b := newKeepingBench(t, quick)
	c := b.active()
	b.hold(c, "one")
	kept := b.keep(c, "s")
	b.hold(c, "two")
	for _, after := range []bool{false, true} {
		made := b.fork(c, nil)
		b.failOnce(func() { b.driver.Inject(memplatform.Fault{Step: memplatform.StepSwap, After: after, Times: 1}) }, after)
		if o := b.runToEnd(); o.Status != operation.Finished {
			t.Errorf("after=%v: %+v", after, o)
		}
		b.mustBeFork(made, c, kept, "one")
	}
	if err := b.driver.DropBackup(t.Context(), c, kept.ID, kept.Ref); err != nil {
		t.Fatal(err)
	}
	made := b.fork(c, nil)
	if o := b.runToEnd(); o.Status != operation.FailedStatus || !strings.Contains(o.Message, operate.RestoreFailsReason) {
		t.Errorf("%+v", o)
	}
	if _, there := b.world.Cluster(made.ID); there {
		t.Error("something is left of it")
	}
}
