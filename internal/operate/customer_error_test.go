package operate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
)

// TestWhatOnlyCustomersCanMendIsToldThem: a resize and a backup that something of
// the customer's blocks are given up at once, with a sentence that says what, and
// the database is as it was.
func TestWhatOnlyCustomersCanMendIsToldThem(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	blocked := &platform.CustomerError{Reason: "The database ib_logfile101 has a name that the server needs."}
	inTheWay := func(step memplatform.Step) {
		b.driver.Inject(memplatform.Fault{Step: step, Err: errors.Join(errors.New(inner), fmt.Errorf("node 0: %w", blocked))})
	}
	c := b.active()
	for name, begin := range map[string]func(){
		"resize": func() {
			inTheWay(memplatform.StepConfigure)
			if err := b.update(c, control.UpdateCluster{Type: new(large.ID)}); err != nil {
				t.Fatal(err)
			}
		},
		"backup": func() { inTheWay(memplatform.StepBackup); b.snapshot(c, "s") },
	} {
		begin()
		o := b.runToEnd()
		b.driver.Clear()
		if o.Status != operation.FailedStatus || o.Attempt != 1 || o.Message != blocked.Reason {
			t.Errorf("%s: %+v", name, o)
		}
		if now := b.view(c.ID); now.Type != small.ID || now.Status == cluster.Failed {
			t.Errorf("%s: the database is %s, a %s", name, now.Status, now.Type)
		}
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active' WHERE id = $1", c.ID); err != nil { // as upkeep does
			t.Fatal(err)
		}
	}
	if kept := b.backups(c)[0]; kept.State != backup.Failed || kept.Problem != blocked.Reason {
		t.Errorf("%+v", kept)
	}
}

// TestASuspensionWaitsForTheCustomer: it isn't given up, says meanwhile what stands
// in the way, and goes on when that is gone.
func TestASuspensionWaitsForTheCustomer(t *testing.T) {
	t.Parallel()
	b := newBench(t, hopeless)
	c := b.suspending()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepStop, Err: &platform.CustomerError{Reason: "A database is in the way."}})
	for range 5 {
		if again, err := b.operator.Run(t.Context(), b.last); err != nil || again <= 0 {
			t.Fatalf("again in %v, %v", again, err)
		}
		if o := b.event(b.last); o.Status != operation.Started || !strings.HasSuffix(o.Message, "it will be tried again. A database is in the way.") {
			t.Fatalf("%+v", o)
		}
	}
	b.driver.Clear()
	b.runToEnd()
	b.mustRest(c)
}
