package operation_test

import (
	"encoding/json"
	"testing"
	"time"

	"steward/internal/operation"
)

func TestDone(t *testing.T) {
	t.Parallel()
	for status, want := range map[operation.Status]bool{
		operation.Scheduled: false, operation.Started: false,
		operation.Finished: true, operation.FailedStatus: true, operation.Notification: true,
	} {
		if status.Done() != want {
			t.Errorf("%s is done: %v", status, !want)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	now := start.Add(time.Minute)
	for _, c := range []struct {
		name string
		o    operation.Operation
		want time.Duration
	}{
		{"not begun", operation.Operation{}, 0},
		{"under way", operation.Operation{Started: &start}, time.Minute},
		{"over", operation.Operation{Started: &start, Finished: new(start.Add(time.Second))}, time.Second},
	} {
		if got := c.o.Duration(now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestParamsAreReadByLaterVersions: what is stored is JSON with names of its own.
func TestParamsAreReadByLaterVersions(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(operation.Params{Type: "b", OldType: "a", AllowList: true})
	if err != nil || string(text) != `{"type":"b","old_type":"a","allow_list":true}` {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := json.Marshal(operation.Params{}); err != nil || string(text) != "{}" {
		t.Errorf("%s, %v", text, err)
	}
}
