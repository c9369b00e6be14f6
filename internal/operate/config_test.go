package operate_test

import (
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/parameter"
	"steward/internal/platform/memplatform"
)

// TestSettingsThatDontTake: a server that can't be brought to other settings soon gets
// those back that it had, and the event says so; upkeep then makes them true.
func TestSettingsThatDontTake(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{Quick: time.Nanosecond, Configure: time.Nanosecond, GiveUp: time.Hour})
	c := b.active()
	if err := b.update(c, control.UpdateCluster{Config: map[string]any{"work_mem": 8.0}}); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.Finished || b.view(c.ID).Config["work_mem"] != int64(8) {
		t.Errorf("%+v, %v", o, b.view(c.ID).Config)
	}
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepRoute})
	if err := b.update(b.view(c.ID), control.UpdateCluster{Config: map[string]any{"work_mem": nil, "shared_buffers_percentage": 30.0}}); err != nil {
		t.Fatal(err)
	}
	o := b.runToEnd()
	if o.Status != operation.FailedStatus {
		t.Errorf("%+v", o)
	}
	const said = "The servers couldn't be brought to these settings; those from before take their place again."
	if now := b.view(c.ID); now.Config.Text() != (parameter.Config{"work_mem": int64(8)}).Text() || o.Message != said || now.Status == cluster.Updating {
		t.Errorf("%s with %s: %q", now.Status, now.Config.Text(), o.Message)
	}
}
