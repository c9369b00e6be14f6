package operate_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform/memplatform"
)

// restoreTo asks for what a database was at a point in time.
func (b *bench) restoreTo(c cluster.Cluster, to time.Time) error {
	b.control.Backups.Continuous = true
	return b.control.Backups.RestoreTo(b.t.Context(), b.admin, c.Engine, c.ID, &to, nil)
}

// TestRestoreToAPointInTime: what was archived by then is waited for, the data goes on from the backup before it, and
// today's password is in force whatever was then.
func TestRestoreToAPointInTime(t *testing.T) {
	t.Parallel()
	ahead := time.Duration(0)
	b := newBench(t, quick)
	b.change = func(o *operate.Options) { o.Now = func() time.Time { return time.Now().Add(ahead) } }
	b.restart()
	c := b.active()
	b.hold(c, "one")
	kept := b.keep(c, "s")
	asked := kept.Finished.Truncate(time.Second).Add(time.Second)
	time.Sleep(time.Until(asked)) // a point in time is a whole second, and mustn't lie ahead
	b.hold(c, "two")
	b.resetPassword(c)
	for _, to := range []time.Time{kept.Created.Add(-time.Hour), time.Now().Add(time.Hour)} {
		if err := b.restoreTo(c, to); !fault.IsKind(err, fault.Invalid) || !strings.Contains(err.Error(), "restore-windows; the last one is ") {
			t.Errorf("to %s: %v", to, err)
		}
	}
	if err := b.restoreTo(c, asked); err != nil {
		t.Fatal(err)
	}
	if again, err := b.operator.Run(t.Context(), b.last); err != nil || again == 0 || again > 3*time.Second {
		t.Errorf("what isn't archived yet is looked at again in %s, %v", again, err)
	}
	b.mustHold(c, "two")
	ahead = 2 * time.Minute
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepSwap, Times: 1, After: true})
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Fatalf("%+v", o)
	}
	b.mustServe(c.ID)
	b.mustHold(c, "one")
	if real, _ := b.world.Cluster(c.ID); real.Recovered == nil || !real.Recovered.Equal(asked) {
		t.Errorf("it was recovered to %v, want %s", real.Recovered, asked)
	}
}

// TestUndoByTheCustomer: once, of a restore that replaced something, and for a day.
func TestUndoByTheCustomer(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick)
	c := b.active()
	undo := func() error { return b.control.Backups.UndoRestore(t.Context(), b.admin, c.Engine, c.ID) }
	refused := func(when string) {
		t.Helper()
		if err := undo(); !fault.IsKind(err, fault.Precondition) || !strings.Contains(err.Error(), "no restore to undo") {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("before any restore")
	b.hold(c, "one")
	kept := b.keep(c, "s")
	b.hold(c, "two")
	b.restore(c, kept)
	b.runToEnd()
	b.mustHold(c, "one")
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.Finished || o.Params.BackupLabel != "s" {
		t.Errorf("%+v", o)
	}
	b.mustServe(c.ID)
	b.mustHold(c, "two")
	refused("after it was undone")

	b.restore(c, kept)
	b.runToEnd()
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE operations SET finished = now() - interval '25 hours' WHERE action = 'database_backup_restore'"); err != nil {
		t.Fatal(err)
	}
	refused("a day later")

	b.restore(c, kept)
	b.runToEnd()
	b.world.Edit(c.ID, func(c *memplatform.Cluster) { c.Aside = nil })
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.FailedStatus || !strings.Contains(o.Message, "No data is set aside") {
		t.Errorf("%+v", o)
	}
	b.mustServe(c.ID)
}
