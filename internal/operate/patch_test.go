package operate_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/monitor"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

// TestPatchWithNothingToDoIsSeen: whoever asks for one and looks sees that the
// database is being updated, however little there is to do.
func TestPatchWithNothingToDoIsSeen(t *testing.T) {
	t.Parallel()
	const seen = 400 * time.Millisecond
	b := newBench(t, operate.Limits{Seen: seen})
	c := b.active()
	if err := b.control.Clusters.Patch(t.Context(), b.admin, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	if now := b.view(c.ID); now.Status != cluster.Updating {
		t.Errorf("right after the answer: %s", now.Status)
	}
	o := b.runToEnd()
	if o.Status != operation.Finished || o.Message != "There was nothing to do." || o.Finished.Sub(o.Created) < seen {
		t.Errorf("event: %+v", o)
	}
	b.mustServe(c.ID)
}

// TestMaintenanceThatIsGivenUpIsTold: contacts who were told that it began learn that
// it isn't finished. Of a patch that somebody asked for nobody is told.
func TestMaintenanceThatIsGivenUpIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, hopeless)
	b.change = func(o *operate.Options) { o.Issues = outage.IssueTracker{Channels: []string{"ops"}, Maintenance: true} }
	b.restart()
	c := b.active()
	if err := b.control.Clusters.Patch(t.Context(), b.admin, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	b.runToEnd()
	notices := func() []monitor.Notice {
		t.Helper()
		all, err := b.store.Notices(t.Context(), store.NoticeQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if told := notices(); len(told) > 0 {
		t.Fatalf("of a patch: %+v", told)
	}
	start := time.Now().UTC().Truncate(time.Hour)
	end := start.Add(4 * time.Hour)
	err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.RecordBegun(t.Context(), c.ID, start); err != nil {
			return err
		}
		if _, err := tx.Transition(t.Context(), b.view(c.ID), cluster.Change); err != nil {
			return err
		}
		o, err := tx.CreateOperation(t.Context(), operation.Operation{
			Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: operation.Maintenance, Status: operation.Scheduled,
			Params: operation.Params{Until: &end},
		})
		b.last = o.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepRoute})
	if o := b.runToEnd(); o.Status != operation.FailedStatus {
		t.Fatalf("event: %+v", o)
	}
	told := notices()
	if len(told) != 1 || told[0].Kind != monitor.NoticeUnfinished || told[0].Database != c.ID || !told[0].Window.Equal(start) {
		t.Fatalf("%+v", told)
	}
	if m := told[0].Content.Maintenance; !m.End.Equal(end) || !strings.HasPrefix(m.Work, "It went on failing for ") || !strings.HasSuffix(m.Work, " What is left waits for the next maintenance window.") {
		t.Errorf("%+v", m)
	}
}
