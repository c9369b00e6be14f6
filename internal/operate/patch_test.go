package operate_test

import (
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/operate"
	"steward/internal/operation"
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
