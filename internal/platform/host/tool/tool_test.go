package tool_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/platform/host/tool"
)

// TestNothingOutlivesAKilledProgram: a program that is killed has ended, although what it started holds its output; and that ends, too.
func TestNothingOutlivesAKilledProgram(t *testing.T) {
	t.Parallel()
	said, err := tool.Runner{Mark: "test"}.Run(t.Context(), t.TempDir(), engine.Process{
		Argv: []string{"/bin/sh", "-c", "sleep 10000 & echo $!; kill -9 $$"}, Env: []string{"PATH=/usr/bin:/bin"},
	}, nil)
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(said)))
	if err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	await.True(t, "what it started ends", func() bool { return syscall.Kill(pid, 0) != nil })
}
