package host_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/host"
	"steward/internal/platform/platformtest"
	"steward/internal/process"
	"steward/internal/testdir"
)

// distribution is one PostgreSQL installation of this machine.
func distribution(t *testing.T) []engine.Installation {
	t.Helper()
	return distributionOf(t, engine.FlavourPostgreSQL)
}

func distributionOf(t *testing.T, flavour engine.Flavour) []engine.Installation {
	t.Helper()
	found, _ := ofDistribution()
	for _, i := range found {
		if i.Flavour == flavour {
			return []engine.Installation{i}
		}
	}
	t.Fatalf("the distribution's %s isn't installed", flavour)
	return nil
}

// wanted is a cluster on a port of the site, with secrets.
func (s *site) wanted(t *testing.T, id cluster.ID) platform.Wanted {
	t.Helper()
	s.secrets.Make(t, id)
	return platform.Wanted{
		Cluster: cluster.Cluster{ID: id, Port: s.firstPort + int(id%10), Spec: cluster.Spec{
			Engine: cluster.PostgreSQL, Series: s.o.Installations[0].Series, Size: 1,
			SSLConnection: true, AllowList: cluster.AllowList{"127.0.0.1"},
		}.WithDefaults()},
		Plan: platformtest.Small,
	}
}

func (s *site) started(t *testing.T) *host.Driver {
	t.Helper()
	d := s.open(t)
	s.serves(d)
	t.Cleanup(d.Close)
	return d
}

func settle(t *testing.T, d *host.Driver, want platform.Wanted) platform.Observed {
	t.Helper()
	seen, err := d.Apply(t.Context(), want)
	if err != nil || !seen.Settled {
		t.Fatalf("apply: settled %v, %q, %v", seen.Settled, seen.Problem, err)
	}
	return seen
}

func (s *site) node(id cluster.ID) string {
	return filepath.Join(s.o.DataDir, "clusters", fmt.Sprint(id), "node-0")
}

// oneServer is a database of one node.
type oneServer struct {
	s    *site
	d    *host.Driver
	want platform.Wanted
}

// TestOneServer has one server for all that ends with it as it was.
func TestOneServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	o := &oneServer{s: s, d: s.started(t), want: s.wanted(t, 1)}
	settle(t, o.d, o.want)
	t.Run("one that can't start is tried again, and reported", o.isTriedAgain)
	t.Run("it is sandboxed and limited", o.isSandboxedAndLimited)
	t.Run("secrets stay out of sight", o.keepsSecretsOutOfSight)
	t.Run("data without record is left alone", o.isLeftAloneWithoutRecord)
	t.Run("lost data is not replaced", o.isNotReplaced)
	t.Run("an upgrade of steward doesn't restart it", o.outlivesAnUpgrade)
}

func (o *oneServer) isSandboxedAndLimited(t *testing.T) {
	s, d, want := o.s, o.d, o.want
	seen := settle(t, d, want)
	pid := strconv.Itoa(seen.Nodes[0].Pid)
	facts := d.Facts()
	if os.Geteuid() == 0 {
		info, err := os.Stat("/proc/" + pid)
		if err != nil {
			t.Fatal(err)
		}
		if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != s.o.UIDBase+want.Port {
			t.Errorf("runs as user %d", uid)
		}
	}
	if facts.Bubblewrap {
		for _, hidden := range []string{"/root", "/home", "/etc/shadow", "/var", s.o.DataDir + "/templates"} {
			if _, err := os.Stat("/proc/" + pid + "/root" + hidden); err == nil {
				t.Errorf("the server sees %s", hidden)
			}
		}
	}
	if facts.ControlGroups == "cgroup v1" {
		limit := func() string {
			content, err := os.ReadFile("/sys/fs/cgroup/memory/steward-" + host.ScopeOf(s.o.DataDir) + "/1-0/memory.limit_in_bytes")
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(content))
		}
		if got := limit(); got != strconv.Itoa(want.Plan.MemoryMB<<20) {
			t.Errorf("memory limit %s", got)
		}
		want.Plan = platformtest.Large
		settle(t, d, want)
		if got := limit(); got != strconv.Itoa(want.Plan.MemoryMB<<20) {
			t.Errorf("memory limit after a resize: %s", got)
		}
	}
}

func (o *oneServer) keepsSecretsOutOfSight(t *testing.T) {
	s, d, want := o.s, o.d, o.want
	pid := strconv.Itoa(settle(t, d, want).Nodes[0].Pid)
	places := []string{"/proc/" + pid + "/cmdline", "/proc/" + pid + "/environ"}
	err := testdir.Walk(s.node(1), func(path string, e os.DirEntry) error {
		if e.Type().IsRegular() {
			places = append(places, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range places {
		content, err := os.ReadFile(place)
		if err != nil {
			continue // a file of the running server that is gone again
		}
		for _, name := range []platform.SecretName{platform.RootPassword, platform.AdminPassword, platform.CAKey, platform.AtRestKey} {
			if strings.Contains(string(content), s.secrets.Text(1, name)) {
				t.Errorf("%s holds the %s", place, name)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(s.node(1), "template.json")); err == nil {
		t.Error("the template's password is left in the node's folder")
	}
}

func (o *oneServer) isTriedAgain(t *testing.T) {
	s, d, want := o.s, o.d, o.want
	seen := settle(t, d, want)
	conf := filepath.Join(s.node(1), "conf", "postgresql.conf")
	if err := os.WriteFile(conf, []byte("no_such_setting = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(seen.Nodes[0].Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the problem to be reported", func() bool {
		seen, err := d.Observe(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(seen.Problem, "no_such_setting") && !seen.Permanent && !seen.Serving
	})
	// Apply writes the files anew: that mends it.
	settle(t, d, want)
}

func (o *oneServer) isLeftAloneWithoutRecord(t *testing.T) {
	s, d, want := o.s, o.d, o.want
	settle(t, d, want)
	record := filepath.Join(s.node(1), "node.json")
	content, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func() error{
		"gone": func() error { return os.Remove(record) },
		"torn": func() error { return os.WriteFile(record, content[:len(content)/2], 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		seen, err := d.Apply(t.Context(), want)
		if err != nil || !seen.Permanent || seen.Problem == "" || seen.Settled {
			t.Errorf("%s: got %+v, %v", name, seen, err)
		}
		if _, err := os.Stat(filepath.Join(s.node(1), "data", "PG_VERSION")); err != nil {
			t.Errorf("%s: the data is gone: %v", name, err)
		}
		if err := os.WriteFile(record, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, d, want)
}

func (o *oneServer) isNotReplaced(t *testing.T) {
	s, d, want := o.s, o.d, o.want
	seen := settle(t, d, want)
	want.Hosts, want.Installation = seen.Hosts, seen.Installation
	if _, err := d.StopAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(s.node(1), "data"), filepath.Dir(s.node(1))} {
		if err := os.Rename(path, s.o.DataDir+"/aside"); err != nil {
			t.Fatal(err)
		}
		lost, err := d.Apply(t.Context(), want)
		if err != nil || !lost.Permanent || !strings.Contains(lost.Problem, "is gone") || lost.Serving {
			t.Errorf("%s: got %+v, %v", path, lost, err)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(s.o.DataDir+"/aside", path); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, d, want)
}

func TestManyAtOnceAndThePoolFillsAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	s.o.PoolSize = 2
	d := s.started(t)
	inst := s.o.Installations[0].ID()
	await.True(t, "clones made ahead", func() bool { return host.Ready(d, inst) == 2 })
	var wg sync.WaitGroup
	identifiers := make([]string, 4)
	for i := range identifiers {
		want := s.wanted(t, cluster.ID(i))
		wg.Go(func() {
			seen, err := d.Apply(t.Context(), want)
			if err != nil || !seen.Settled {
				t.Errorf("cluster %d: %q, %v", want.ID, seen.Problem, err)
				return
			}
			if err := s.login(t.Context(), want.Cluster, want.AllowList.Prefixes()[0].Addr(), s.secrets.Text(want.ID, platform.RootPassword)); err != nil {
				t.Errorf("cluster %d: %v", want.ID, err)
			}
			content, err := os.ReadFile(filepath.Join(s.node(want.ID), "data", "global", "pg_control"))
			if err != nil {
				t.Error(err)
				return
			}
			identifiers[i] = string(content[:8])
		})
	}
	wg.Wait()
	distinct := map[string]bool{}
	for _, id := range identifiers {
		distinct[id] = true
	}
	if len(distinct) != len(identifiers) {
		t.Errorf("%d servers share %d system identifiers", len(identifiers), len(distinct))
	}
	await.True(t, "the pool to be full again", func() bool { return host.Ready(d, inst) == 2 })
	// The next steward uses what this one made.
	d.Close()
	next := s.open(t)
	defer next.Close()
	s.o.PoolSize = 0
	settle(t, next, s.wanted(t, 8))
	if got := host.Ready(next, inst); got != 1 {
		t.Errorf("%d clones are left of the earlier steward's 2, want 1", got)
	}
}

func TestStopAllStopsCleanly(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	d := s.started(t)
	for id := range cluster.ID(2) {
		settle(t, d, s.wanted(t, id))
	}
	stopped, err := d.StopAll(t.Context())
	if err != nil || stopped != 2 {
		t.Errorf("stopped %d, %v", stopped, err)
	}
	for id := range cluster.ID(2) {
		output, err := os.ReadFile(filepath.Join(s.node(id), "output.log"))
		if err != nil || !strings.Contains(string(output), "database system is shut down") {
			t.Errorf("cluster %d wasn't stopped cleanly: %v", id, err)
		}
		if seen, err := d.Observe(t.Context(), id); err != nil || seen.Serving || seen.Nodes[0].Running {
			t.Errorf("cluster %d: %+v, %v", id, seen, err)
		}
	}
	if groups, err := filepath.Glob("/sys/fs/cgroup/*/steward-" + host.ScopeOf(s.o.DataDir)); err != nil || len(groups) > 0 {
		t.Errorf("control groups are left: %v, %v", groups, err)
	}
	if again, err := d.StopAll(t.Context()); err != nil || again != 0 {
		t.Errorf("stopped again: %d, %v", again, err)
	}
	settle(t, d, s.wanted(t, 4)) // everything can be started again
}

// renamed is an engine whose files a newer steward writes differently.
type renamed struct{ engine.Driver }

func (r renamed) Files(n engine.Node) ([]engine.File, error) {
	n.Plan.MemoryMB *= 2 // settings that need a restart
	return r.Driver.Files(n)
}

func (o *oneServer) outlivesAnUpgrade(t *testing.T) {
	s, d, want := o.s, o.d, o.want
	before := settle(t, d, want)
	d.Close()
	s.o.Engines[cluster.PostgreSQL] = renamed{s.o.Engines[cluster.PostgreSQL]}
	next := s.started(s.t)
	for range 2 {
		if after := settle(t, next, want); after.Nodes[0].Pid != before.Nodes[0].Pid {
			t.Fatal("the server was restarted")
		}
	}
	files, err := os.ReadFile(filepath.Join(s.node(1), "conf", "postgresql.conf"))
	if err != nil || !strings.Contains(string(files), "shared_buffers") {
		t.Fatal(err)
	}
	// A change the customer asked for takes the rest along.
	want.SSLConnection = false
	if after := settle(t, next, want); after.Nodes[0].Pid == before.Nodes[0].Pid {
		t.Error("settings that need a restart are still waiting")
	}
}

// TestLeftoversOfAnEarlierRunAreCleared: unfinished templates, trash, and a program that hasn't ended with its process.
func TestLeftoversOfAnEarlierRunAreCleared(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	s.o.PoolSize = 1
	if err := os.RemoveAll(filepath.Join(s.o.DataDir, "templates")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"templates/.making-123/data", "templates/postgresql-9.6-gone/data"} {
		if err := os.MkdirAll(filepath.Join(s.o.DataDir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(s.o.DataDir, 0o711); err != nil {
		t.Fatal(err)
	}
	orphan, mark := exec.CommandContext(t.Context(), "/bin/sleep", "10000"), host.ScopeOf(s.o.DataDir)+"/tool-of-before"
	orphan.Env = []string{process.MarkEnv(mark)}
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	d := s.started(t)
	await.NoError(t, "the program ends", func() error {
		if members, err := (process.Identity{Mark: mark}).Members(); err != nil || len(members) > 0 {
			return fmt.Errorf("%v are left: %w", members, err)
		}
		return nil
	})
	_ = orphan.Wait() // it was killed
	await.True(t, "a clone", func() bool { return host.Ready(d, s.o.Installations[0].ID()) == 1 })
	entries, err := os.ReadDir(filepath.Join(s.o.DataDir, "templates"))
	if err != nil || len(entries) != 1 || entries[0].Name() != s.o.Installations[0].ID() {
		t.Errorf("templates: %v, %v", entries, err)
	}
	if err := host.EmptyTrash(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(s.o.DataDir, "trash")); err != nil || len(left) > 0 {
		t.Errorf("trash: %v, %v", left, err)
	}
}

func TestAFolderThatServersCannotReachIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := newSite(t, distribution(t))
	closed := filepath.Join(filepath.Dir(s.o.DataDir), "closed")
	if err := os.MkdirAll(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	o := s.o
	o.DataDir = filepath.Join(closed, "data")
	if _, err := host.New(t.Context(), o); err == nil || !strings.Contains(err.Error(), "chmod o+x "+closed) {
		t.Errorf("got %v", err)
	}
}

// An order that ends early must leave nothing that the next one stumbles over.
func TestRemoveOfAHalfMadeCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	d := s.started(t)
	for _, limit := range []time.Duration{1, 20, 60, 100, 150} {
		want := s.wanted(t, 5)
		ctx, cancel := context.WithTimeout(t.Context(), limit*time.Millisecond)
		_, _ = d.Apply(ctx, want) // wherever it gets to
		cancel()
		if err := d.Remove(t.Context(), want.Cluster); err != nil {
			t.Fatalf("after %v ms: %v", int(limit), err)
		}
		if left := s.leftovers(t, want.ID, want.Port); len(left) > 0 {
			t.Errorf("after %v ms: left %v", int(limit), left)
		}
	}
}
