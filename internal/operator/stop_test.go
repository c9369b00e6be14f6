package operator

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/datadir"
)

// TestStopServingWaitsForWhatWasKilled: its lock is held by a child for a moment, as its process is gone.
func TestStopServingWaitsForWhatWasKilled(t *testing.T) {
	data := t.TempDir()
	if served, err := StopServing(t.Context(), data, time.Minute); served || err != nil {
		t.Fatalf("an unused folder: %v, %v", served, err)
	}
	lock, err := (datadir.Dir{Data: data}).Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(ended.Process.Pid)+"\n"), 0); err != nil {
		t.Fatal(err)
	}
	served, err := StopServing(t.Context(), data, 50*time.Millisecond)
	if !served || err == nil || !strings.Contains(err.Error(), "didn't stop within") {
		t.Errorf("while the lock is held: %v, %v; want that it was waited for", served, err)
	}
	lock.Close()
	if served, err := StopServing(t.Context(), data, time.Minute); served || err != nil {
		t.Errorf("once it was let go: %v, %v", served, err)
	}
}
