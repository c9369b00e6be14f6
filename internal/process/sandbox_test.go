package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"steward/internal/await"
	"steward/internal/process"
	"steward/internal/testdir"
)

func TestSandbox(t *testing.T) {
	uid := 0
	if os.Geteuid() == 0 {
		uid = 791235
	}
	sandbox, err := process.FindSandbox(t.Context(), uid, filterFolder(t))
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
	if err := p.Stop(t.Context(), process.Request{Signal: syscall.SIGTERM, Patience: testPatience}, nil); err != nil {
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
	sandbox, err := process.FindSandbox(t.Context(), uid, filterFolder(t))
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

// filterFolder is one that servers' users can look into.
func filterFolder(t *testing.T) string {
	t.Helper()
	dir := testdir.New(t, "steward-filter-")
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSandboxRefusesSystemCalls: what would open the kernel is refused inside, and only inside.
func TestSandboxRefusesSystemCalls(t *testing.T) {
	sandbox, err := process.FindSandbox(t.Context(), 0, filterFolder(t))
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	if !sandbox.Filters() {
		t.Fatal("system calls aren't filtered here")
	}
	// Perl is part of every Debian, and calls by number.
	const script = `use Errno; sub try { my ($name, $n, @args) = @_; my $r = syscall($n, @args); print "$name ", ($r < 0 ? $!+0 : 0), "\n" }
try("getpid", 39); try("socketpair", 41, 1, 1, 0); try("inet", 41, 2, 1, 0);
try("ptrace", 101, 0, 0, 0, 0); try("unshare", 272, 0); try("keyctl", 250, 0, -3, 0); try("io_uring_setup", 425, 0, 0); try("bpf", 321, 0, 0, 0);
try("userfaultfd", 323, 0); try("vsock", 41, 40, 1, 0); try("alg", 41, 38, 5, 0); try("x32 getpid", 39 | 0x40000000);`
	asked := func(argv []string) map[string]string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		answers := map[string]string{}
		for line := range strings.Lines(string(out)) {
			i := strings.LastIndex(line, " ")
			answers[line[:i]] = strings.TrimSpace(line[i:])
		}
		return answers
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers are those of amd64")
	}
	perl := []string{"/usr/bin/perl", "-e", script}
	outside, inside := asked(perl), asked(sandbox.Wrap(perl, process.View{}, "/"))
	for name, number := range inside {
		want := map[string]string{"getpid": "0", "socketpair": "0", "inet": "0", "x32 getpid": strconv.Itoa(int(syscall.ENOSYS))}[name]
		if want == "" {
			want = strconv.Itoa(int(syscall.EPERM))
		}
		if number != want {
			t.Errorf("%s is answered %s inside, want %s", name, number, want)
		}
	}
	// Outside these fail, if at all, for what they were asked.
	for _, name := range []string{"keyctl", "io_uring_setup", "socketpair"} {
		if outside[name] == strconv.Itoa(int(syscall.EPERM)) {
			t.Errorf("%s is refused outside, too: that it is inside proves nothing", name)
		}
	}
	if len(inside) != 12 || len(outside) != 12 {
		t.Errorf("asked %d and %d times", len(outside), len(inside))
	}
}
