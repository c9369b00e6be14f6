package process_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/await"
	"steward/internal/process"
)

// The real thing, whichever version this machine has.
func TestGroupOfThisMachine(t *testing.T) {
	groups, err := process.FindGroups(fmt.Sprintf("steward-test-%d", os.Getpid()))
	if err != nil {
		t.Skipf("no control groups on this machine: %v", err)
	}
	t.Cleanup(func() {
		if err := groups.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	g, err := groups.Make("7-0", process.GroupLimits{MemoryBytes: 64 << 20, CPUs: 1, Processes: 50})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	// Nothing but the group ties these processes together.
	s := server(t, `cat /proc/self/cgroup; cd /; env -i setsid sleep 1001 & exec sleep 1000`)
	s.Cgroup = g
	p := start(t, s)
	await.True(t, "two processes", func() bool {
		list, err := g.Members()
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 2 && holds(s.Output, "7-0")()
	})
	if names, err := groups.Names(); err != nil || len(names) != 1 || names[0] != "7-0" {
		t.Errorf("names: %v, %v", names, err)
	}
	if err := g.Limit(process.GroupLimits{MemoryBytes: 128 << 20, CPUs: 2, Processes: 60}); err != nil {
		t.Errorf("raise limits of a running server: %v", err)
	}
	if err := process.KillAll(t.Context(), process.Identity{}, groups.Find("7-0")); err != nil {
		t.Fatal(err)
	}
	ended(t, p)
}

func TestMemoryLimitHolds(t *testing.T) {
	groups, err := process.FindGroups(fmt.Sprintf("steward-test-%d", os.Getpid()))
	if err != nil {
		t.Skipf("no control groups on this machine: %v", err)
	}
	g, err := groups.Make("8-0", process.GroupLimits{MemoryBytes: 16 << 20, CPUs: 1, Processes: 50})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
		if err := groups.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	// tail keeps a line that never ends in memory.
	s := server(t, `head -c 200000000 /dev/zero | tail -n 1 | wc -c; exec sleep 1000`)
	s.Cgroup = g
	start(t, s)
	await.True(t, "the end of the pipe", holds(s.Output, "\n"))
	content, err := os.ReadFile(s.Output)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "200000000") {
		t.Error("200 MB were held in a group of 16 MB")
	}
	if err := process.KillAll(t.Context(), s.Identity, g); err != nil {
		t.Fatal(err)
	}
}

// tree makes a folder that looks like a control group hierarchy.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestUnifiedGroups(t *testing.T) {
	root := tree(t, map[string]string{
		"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "cpu memory pids\n",
		"st/cgroup.controllers": "cpu memory pids\n", "st/cgroup.subtree_control": "memory cpu pids\n",
		"st/3-0/memory.max": "", "st/3-0/cpu.max": "", "st/3-0/pids.max": "", "st/3-0/cpu.weight": "",
		"st/3-0/cgroup.kill": "", "st/3-0/cgroup.procs": "",
	})
	groups, err := process.FindGroupsIn("cgroup2 "+root+" cgroup2 rw 0 0\n", "st")
	if err != nil {
		t.Fatal(err)
	}
	if groups.Kind() != "cgroup v2" || len(groups.Lacks()) > 0 {
		t.Errorf("kind %q, lacks %v", groups.Kind(), groups.Lacks())
	}
	g, err := groups.Make("3-0", process.GroupLimits{MemoryBytes: 1 << 30, CPUs: 2, Processes: 500})
	if err != nil {
		t.Fatal(err)
	}
	// The test's own process stands for a member: it must not be killed, so
	// only the file's content is looked at.
	if err := g.Add(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"memory.max": "1073741824", "cpu.max": "200000 100000", "pids.max": "500", "cpu.weight": "200",
		"cgroup.procs": fmt.Sprint(os.Getpid()),
	} {
		if got := read(t, filepath.Join(root, "st/3-0", file)); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	if list, err := g.Members(); err != nil || len(list) != 1 || list[0] != os.Getpid() {
		t.Errorf("members: %v, %v", list, err)
	}
	if err := g.Limit(process.GroupLimits{CPUs: 1, Weight: 8}); err != nil {
		t.Fatal(err)
	}
	if weight, quota := read(t, filepath.Join(root, "st/3-0/cpu.weight")), read(t, filepath.Join(root, "st/3-0/cpu.max")); weight != "800" || quota != "100000 100000" {
		t.Errorf("a weight of its own: %s, with %s", weight, quota)
	}
}

func TestUnifiedKillUsesTheKernelsOwn(t *testing.T) {
	s := server(t, `exec sleep 1000`)
	p := start(t, s)
	root := tree(t, map[string]string{
		"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": "cpu memory pids",
		"st/cgroup.controllers": "cpu memory pids", "st/cgroup.subtree_control": "cpu memory pids",
		"st/3-0/cgroup.kill": "", "st/3-0/cgroup.procs": fmt.Sprintf("%d\n4194303\n", p.Pid()),
	})
	groups, err := process.FindGroupsIn("cgroup2 "+root+" cgroup2 rw 0 0\n", "st")
	if err != nil {
		t.Fatal(err)
	}
	if err := groups.Find("3-0").Kill(); err != nil {
		t.Error(err)
	}
	ended(t, p)
	if got := read(t, filepath.Join(root, "st/3-0/cgroup.kill")); got != "1" {
		t.Errorf("cgroup.kill holds %q", got)
	}
}

func TestGroupsThatCannotBeUsed(t *testing.T) {
	bare := tree(t, map[string]string{"cgroup.controllers": "hugetlb\n", "cgroup.subtree_control": "\n", "st/cgroup.controllers": "", "st/cgroup.subtree_control": ""})
	partly := tree(t, map[string]string{
		"cgroup.controllers": "memory pids", "cgroup.subtree_control": "memory pids",
		"st/cgroup.controllers": "memory pids", "st/cgroup.subtree_control": "memory pids",
	})
	if g, err := process.FindGroupsIn("cgroup2 "+bare+" cgroup2 rw 0 0\n", "st"); err == nil {
		t.Errorf("groups without controllers were taken: %v", g)
	}
	if g, err := process.FindGroupsIn("proc /proc proc rw 0 0\n", "st"); err == nil || g != nil {
		t.Errorf("groups found where none are mounted")
	}
	g, err := process.FindGroupsIn("cgroup2 "+partly+" cgroup2 rw 0 0\n", "st")
	if err != nil || strings.Join(g.Lacks(), ";") != "control groups v2 without cpu" {
		t.Errorf("lacks %v, %v", g.Lacks(), err)
	}
}
