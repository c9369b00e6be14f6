package operate_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform/memplatform"
)

// TestSwitchoverWithoutAPrimary: when nothing takes writes any more, the database isn't said to be at an update for as long as its switchover
// is tried: it has failed, and upkeep takes over. One that serves keeps its switchover.
func TestSwitchoverWithoutAPrimary(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost   [3]bool
		status cluster.Status
		done   bool
	}{
		"no node is left":      {[3]bool{true, true, true}, cluster.Failed, true},
		"only the primary is":  {[3]bool{false, true, true}, cluster.Updating, false},
		"its primary was lost": {[3]bool{true, false, true}, cluster.Updating, false}, // the one that is left takes over
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := operate.Limits{Quick: time.Nanosecond, Pass: quickPass, Unserved: quickPass / 2}
			if c.done {
				limits.Pass = time.Minute // it ends before, however busy the machine is
			}
			b := newBench(t, limits)
			db := b.active()
			if err := b.update(db, control.UpdateCluster{Size: new(3)}); err != nil {
				t.Fatal(err)
			}
			b.runToEnd()
			if err := b.control.Clusters.Switchover(t.Context(), b.admin, db.Engine, db.ID); err != nil {
				t.Fatal(err)
			}
			b.world.Edit(db.ID, func(real *memplatform.Cluster) { real.Lost = c.lost })
			if _, err := b.operator.Run(t.Context(), b.last); err != nil {
				t.Fatal(err)
			}
			event := b.event(b.last)
			if got := b.view(db.ID).Status; got != c.status || event.Status.Done() != c.done {
				t.Errorf("the database is %s, its switchover %s: %s", got, event.Status, event.Message)
			}
			if c.done && (event.Status != operation.FailedStatus || !strings.Contains(event.Message, "No node takes writes")) {
				t.Errorf("the switchover is %s: %s", event.Status, event.Message)
			}
		})
	}
}
