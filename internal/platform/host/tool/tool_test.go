package tool_test

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/platform/host/tool"
	"steward/internal/process"
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

// TestOrphansEnd: what a program left whose process has ended is ended, and nothing else.
func TestOrphansEnd(t *testing.T) {
	t.Parallel()
	ended := exec.CommandContext(t.Context(), "/bin/true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	const scope = "orphans-of-a-test"
	run := func(scope string, of int) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "/bin/sleep", "10000")
		cmd.Env = []string{process.MarkEnv(scope + "/tool-" + strconv.Itoa(of))}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	orphan, ours, foreign := run(scope, ended.Process.Pid), run(scope, os.Getpid()), run("another-"+scope, ended.Process.Pid)
	if err := tool.EndOrphans(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	for cmd, lives := range map[*exec.Cmd]bool{orphan: false, ours: true, foreign: true} {
		members, err := process.Identity{Mark: strings.TrimPrefix(cmd.Env[0], process.MarkEnv(""))}.Members()
		if err != nil || slices.Contains(members, cmd.Process.Pid) != lives {
			t.Errorf("%s lives: %t, %v", cmd.Env[0], !lives, err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
}
