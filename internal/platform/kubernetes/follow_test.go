package kubernetes_test

import (
	"context"
	"testing"
	"time"
)

// TestAPrimaryThatWasFollows: CloudNativePG has a server that was the primary look into the one that is, as a role of its own and in the database of the
// administration, before it lets it follow (1.30, recorded: "permission denied for database postgres", for ever).
func TestAPrimaryThatWasFollows(t *testing.T) {
	b := newBench(t)
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 221)
	want.Size = 3
	before := settle(t, d, &want)
	want.Switchover = new(before.Nodes[0].Ordinal)
	after := settle(t, d, &want)
	if len(after.Nodes) != 3 || after.Healthy != 3 || after.Nodes[0].Ordinal == *want.Switchover {
		t.Errorf("handed over by node %d: %+v", *want.Switchover, after)
	}
	if err := d.Remove(t.Context(), want.Cluster); err != nil {
		t.Error(err)
	}
}

// TestAPasswordDoesntWaitForReplicas: after the primary is lost another serves long before there are three again (1.30, recorded: minutes), and a database
// that had failed is called degraded only once its password is what the API answers.
func TestAPasswordDoesntWaitForReplicas(t *testing.T) {
	b := newBench(t)
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 222)
	want.Size = 3
	settle(t, d, &want)
	b.op.Pause()
	b.op.LosePrimary(object(222))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.SetPassword(ctx, want); err != nil {
		t.Error(err)
	}
	if seen, err := d.Observe(ctx, want.ID); err != nil || !seen.Serving || !seen.Degraded {
		t.Errorf("it wasn't degraded: %+v, %v", seen, err)
	}
	b.op.Resume()
	if err := d.Remove(t.Context(), want.Cluster); err != nil {
		t.Error(err)
	}
}
