package host_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
)

// file is a name that MariaDB needs for a file of its own when it starts. Databases
// of that name are of before it was refused.
const file = "ib_logfile101"

// blocks demands that an error says, to customers, that the database is in the way.
func blocks(t *testing.T, what string, err error) {
	t.Helper()
	blocked, ok := errors.AsType[*platform.CustomerError](err)
	if !ok || !strings.HasPrefix(blocked.Reason, "The database "+file+" has a name that the server needs") {
		t.Errorf("%s isn't refused for the database's name: %v", what, err)
	}
}

// TestWhatWouldEndAServerForGoodIsRefused: while a customer has a database of the
// name of a file, its server isn't stopped to be started again, nor copied. It goes
// on serving, and nobody is turned away, until the database is gone.
func TestWhatWouldEndAServerForGoodIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, distributionOf(t, engine.FlavourMariaDB))
	d := s.started(t)
	want := s.wanted(t, 1)
	want.Engine = cluster.MySQL
	before := settle(t, d, want).Nodes[0]
	bigger, resting := want, want
	bigger.Plan.MemoryMB *= 2
	resting.Suspended = true
	attempts := []struct {
		name string
		do   func() error
	}{
		{"a resize", func() error { _, err := d.Apply(t.Context(), bigger); return err }},
		{"a suspension", func() error { _, err := d.Apply(t.Context(), resting); return err }},
		{"a backup", func() error { _, err := d.Backup(t.Context(), want, cluster.Primary, discard{}); return err }},
	}
	s.asSteward(t, want.ID, "CREATE DATABASE "+file)
	password, customer := s.secrets.Text(want.ID, platform.RootPassword), netip.MustParseAddr("127.0.0.1")
	for _, a := range attempts {
		blocks(t, a.name, a.do())
		if err := s.login(t.Context(), want.Cluster, customer, password); err != nil {
			t.Errorf("after %s that was refused: %v", a.name, err)
		}
		seen, err := d.Observe(t.Context(), want.ID)
		if err != nil || !seen.Serving || seen.Closed || seen.Nodes[0].Pid != before.Pid {
			t.Errorf("after %s that was refused: %+v, %v", a.name, seen, err)
		}
	}
	s.asSteward(t, want.ID, "DROP DATABASE "+file)
	for _, a := range attempts {
		if err := a.do(); err != nil {
			t.Errorf("%s, when the database is gone: %v", a.name, err)
		}
		settle(t, d, want)
	}
}

// discard takes a copy that nobody needs.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestReplicaIsNotGivenACopyThatNoServerCouldStartWith: the copy isn't begun, the
// primary serves, and whoever looks is told what stands in the way.
func TestReplicaIsNotGivenACopyThatNoServerCouldStartWith(t *testing.T) {
	t.Parallel()
	found := distributionOf(t, engine.FlavourMariaDB)
	b := benches(found)[0]
	h := newThreeNodes(t, found, b, modes(b)[0])
	primary, replica := h.node(h.healthy(), cluster.Primary), h.node(h.healthy(), cluster.Replica)
	h.s.asSteward(t, h.want.ID, "CREATE DATABASE "+file)
	// Not removed file by file: the server that still runs would make others meanwhile.
	if err := os.Rename(h.data(replica.Ordinal), filepath.Join(filepath.Dir(h.s.o.DataDir), "gone")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(replica.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var seen platform.Observed
	await.True(t, "the replica to be refused a copy", func() bool {
		var err error
		seen, err = h.driver.Observe(t.Context(), h.want.ID)
		return err == nil && seen.CustomerProblem != ""
	})
	if n := seen.Nodes[replica.Ordinal]; !strings.Contains(n.Problem, "can't be given a new copy of the data: The database "+file) {
		t.Errorf("operators are told %q", n.Problem)
	}
	if !seen.Serving || !seen.Degraded || h.node(seen, cluster.Primary).Pid != primary.Pid {
		t.Errorf("%+v", seen)
	}
	_, err := h.driver.Apply(t.Context(), h.want)
	blocks(t, "a new copy for a replica", err)
	begun, err := filepath.Glob(filepath.Join(h.s.o.DataDir, "clusters", "*", "node-*", "tmp", "seed-*"))
	if err != nil || len(begun) > 0 || exists(h.data(replica.Ordinal)) {
		t.Errorf("a copy was begun: %v, %v", begun, err)
	}
	h.s.asSteward(t, h.want.ID, "DROP DATABASE "+file)
	if after := h.healthy(); after.CustomerProblem != "" || after.Failovers != 0 {
		t.Errorf("when it is gone: %+v", after)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
