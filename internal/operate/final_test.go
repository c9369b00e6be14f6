package operate_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/archive/archivetest"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform/memplatform"
)

// newFinalBench keeps last backups for an hour.
func newFinalBench(t *testing.T, limits operate.Limits) *bench {
	t.Helper()
	b := newBench(t, limits)
	b.change = func(o *operate.Options) { o.KeepFinal = time.Hour }
	b.restart()
	b.control.Clusters.KeepFinal = time.Hour
	return b
}

// finals are the last backups that the account has.
func (b *bench) finals() []control.Final {
	b.t.Helper()
	all, err := b.control.Clusters.Finals(b.t.Context(), b.admin)
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// TestFinalBackup: with a fault before and after each step; the last backup alone is left, a database can be made of it, and its
// owner can give it up.
func TestFinalBackup(t *testing.T) {
	t.Parallel()
	for _, step := range []memplatform.Step{"", memplatform.StepBackup, memplatform.StepRemove} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			b := newFinalBench(t, quick)
			c := b.active()
			b.hold(c, "one")
			older := b.keep(c, "s")
			b.hold(c, "two")
			if step != "" {
				b.driver.Inject(memplatform.Fault{Step: step, Times: 1, After: true})
			}
			if err := b.control.Clusters.Delete(t.Context(), b.admin, c.Engine, c.ID, true); err != nil {
				t.Fatal(err)
			}
			if all := b.finals(); len(all) > 0 {
				t.Errorf("listed before it is taken: %+v", all)
			}
			if o := b.runToEnd(); o.Status != operation.Finished {
				t.Fatalf("%+v", o)
			}
			if _, there := b.world.Cluster(c.ID); there || b.archive.Has(c.ID, older.ID) {
				t.Errorf("left: the database %v, its older backup %v", there, b.archive.Has(c.ID, older.ID))
			}
			all := b.finals()
			if len(all) != 1 || all[0].Cluster.ID != c.ID || all[0].Cluster.FinalUntil == nil || !b.archive.Has(c.ID, all[0].Backup.ID) {
				t.Fatalf("last backups: %+v", all)
			}
			forked := b.fork(c, nil)
			if o := b.runToEnd(); o.Status != operation.Finished {
				t.Errorf("%+v", o)
			}
			b.mustHold(forked, "two")
			if err := b.control.Clusters.DeleteFinal(t.Context(), b.admin, c.ID); err != nil {
				t.Fatal(err)
			}
			if all := b.finals(); len(all) > 0 {
				t.Errorf("given up, it is listed: %+v", all)
			}
			if err := b.control.Clusters.DeleteFinal(t.Context(), b.admin, c.ID); err == nil {
				t.Error("given up twice")
			}
		})
	}
}

// TestNoFinalBackup: what no last backup can be taken of isn't deleted, and is shown again.
func TestNoFinalBackup(t *testing.T) {
	t.Parallel()
	b := newFinalBench(t, hopeless)
	c := b.active()
	b.hold(c, "one")
	b.archive.Inject(archivetest.Fault{Call: "Put"})
	if err := b.control.Clusters.Delete(t.Context(), b.admin, c.Engine, c.ID, true); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.FailedStatus || !strings.Contains(o.Message, "wasn't deleted") {
		t.Errorf("%+v", o)
	}
	b.view(c.ID)
	b.mustHold(c, "one")
	if real, there := b.world.Cluster(c.ID); !there || !real.Running {
		t.Errorf("it is %+v", real)
	}
	b.control.Clusters.KeepFinal = 0
	c = b.active()
	if err := b.control.Clusters.Delete(t.Context(), b.admin, c.Engine, c.ID, true); err == nil || !strings.Contains(err.Error(), "final_backup: Must be false") {
		t.Errorf("where none is kept: %v", err)
	}
	if now := b.view(c.ID); now.Status != cluster.Active {
		t.Errorf("it is %s", now.Status)
	}
}
