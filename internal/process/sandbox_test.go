package process_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"steward/internal/await"
	"steward/internal/process"
)

func TestSandbox(t *testing.T) {
	uid := 0
	if os.Geteuid() == 0 {
		uid = 791235
	}
	sandbox, err := process.FindSandbox(t.Context(), uid)
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	s := server(t, `ls -d /* /etc/shadow /root $HIDDEN; ls -A /tmp; ps ax -o pid= | wc -l; trap 'echo bye; exit' TERM; echo up; while :; do sleep 0.01; done`)
	hidden := filepath.Join(t.TempDir(), "hidden")
	if err := os.WriteFile(hidden, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Env = append(s.Env, "HIDDEN="+hidden)
	if uid != 0 {
		s.User, s.Group, s.Identity.UID = uid, uid, uid
		if err := os.Chown(s.WorkDir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	s.Argv = sandbox.Wrap(s.Argv, process.View{Write: []string{s.WorkDir}}, s.WorkDir)
	s.Sandboxed = true
	p := start(t, s)
	await.True(t, "start", holds(s.Output, "up"))
	content, err := os.ReadFile(s.Output)
	if err != nil {
		t.Fatal(err)
	}
	seen := strings.Fields(string(content))
	for _, path := range []string{hidden, "/root", "/home", "/etc/shadow", "/var", "/sys"} {
		if slices.Contains(seen, path) {
			t.Errorf("the server sees %s:\n%s", path, content)
		}
	}
	inner := p.Pid()
	name, err := os.ReadFile("/proc/" + strconv.Itoa(inner) + "/comm")
	if err != nil || strings.TrimSpace(string(name)) != "sh" {
		t.Errorf("pid is that of %q, want the server in the sandbox: %v", name, err)
	}
	if err := p.Stop(t.Context(), syscall.SIGTERM, testPatience, nil); err != nil {
		t.Fatal(err)
	}
	if !holds(s.Output, "bye")() {
		t.Error("the stop signal didn't reach the server")
	}
	if p.Pid() != inner {
		t.Errorf("the pid of the ended server is %d, was %d: its sandbox is taken for it", p.Pid(), inner)
	}
	if left := members(t, s.Identity); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestSandboxIsKilledWithItsServer(t *testing.T) {
	uid := 0
	if os.Geteuid() == 0 {
		uid = 791236
	}
	sandbox, err := process.FindSandbox(t.Context(), uid)
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	s := server(t, `sleep 1001 & echo up; sleep 1000`)
	if uid != 0 {
		s.User, s.Group = uid, uid
		if err := os.Chown(s.WorkDir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	s.Argv = sandbox.Wrap(s.Argv, process.View{Write: []string{s.WorkDir}}, s.WorkDir)
	p := start(t, s)
	await.True(t, "start", holds(s.Output, "up"))
	if err := process.KillAll(t.Context(), s.Identity, nil); err != nil {
		t.Fatal(err)
	}
	ended(t, p)
	if left := members(t, s.Identity); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
