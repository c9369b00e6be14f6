package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"steward/internal/process"
	"steward/internal/testdir"
)

// TestStopAllEndsScratchServers: one that was trying a backup when steward was
// killed has no record among the clusters' nodes.
func TestStopAllEndsScratchServers(t *testing.T) {
	t.Parallel()
	dir := testdir.New(t, "sc")
	d := &Driver{scope: filepath.Base(dir), layout: layout{data: dir, run: filepath.Join(dir, "run"), keys: filepath.Join(dir, "keys")}, log: slog.New(slog.DiscardHandler)}
	left := &scratch{nodeReconciler: &nodeReconciler{d: d, dir: d.layout.scratch(7)}}
	left.want.ID = 7
	if err := os.MkdirAll(left.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(process.Spec{
		Identity: left.identity(), Argv: []string{"/bin/sleep", "1000"}, Env: []string{"PATH=/usr/bin:/bin"},
		WorkDir: left.dir, Output: outputFile(left.dir), PidFile: filepath.Join(left.dir, "pid"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.StopAll(t.Context()); err != nil {
		t.Errorf("stop all: %v", err)
	}
	select {
	case <-p.Done(): // noticed a moment after the fact
	case <-time.After(10 * time.Second):
		t.Error("the scratch server runs on")
		if err := process.KillAll(t.Context(), left.identity(), nil); err != nil {
			t.Error(err)
		}
	}
	if exists(left.dir) {
		t.Error("its folder is still there")
	}
}
