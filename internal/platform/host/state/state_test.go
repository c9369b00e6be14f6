package state_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steward/internal/cluster"
	"steward/internal/platform/host/state"
)

var addresses = cmpopts.EquateComparable(netip.AddrPort{})

func TestNodeIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, durably := range []bool{true, false} {
		dir := t.TempDir()
		if n, err := state.ReadNode(dir); n != nil || err != nil {
			t.Errorf("none there: %+v, %v", n, err)
		}
		want := &state.Node{Cluster: 7, Ordinal: 2, Engine: cluster.MySQL, Bootstrapped: true, Launch: &state.Launch{Sandboxed: true}}
		if err := want.Write(dir, durably); err != nil {
			t.Fatal(err)
		}
		got, err := state.ReadNode(dir)
		if diff := cmp.Diff(want, got, addresses); err != nil || diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	}
}

// Files of running installations keep their members' names.
func TestNodeOfAnOlderStewardIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, state.NodeFile(dir), `{"cluster": 7, "launch": {"walled": true}, "fenced": 1, "applied": {"ssl_connection": true}}`)
	got, err := state.ReadNode(dir)
	want := &state.Node{Cluster: 7, Launch: &state.Launch{Sandboxed: true}, Fenced: 1, Applied: &state.Settings{SSLConnection: true}}
	if diff := cmp.Diff(want, got, addresses); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

// A crash of the machine may tear a record that wasn't written durably: that of a clone
// nobody has used counts as none, any other is a fault.
func TestTornRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, state.NodeFile(dir), `{"cluster": 7`)
	if n, err := state.ReadNode(dir); n != nil || err == nil {
		t.Errorf("a customer's: %+v, %v", n, err)
	}
	if err := (state.Template{Password: "p"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	if n, err := state.ReadNode(dir); n != nil || err != nil {
		t.Errorf("a clone's: %+v, %v", n, err)
	}
	for range 2 {
		if err := state.RemoveTemplate(dir); err != nil {
			t.Error(err)
		}
	}
	if got, err := state.ReadTemplate(dir); got != (state.Template{}) || err != nil {
		t.Errorf("removed: %+v, %v", got, err)
	}
}

func TestTopology(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cluster.json")
	if got, err := state.ReadTopology(path); err != nil || got != (state.Topology{Size: 1}) {
		t.Errorf("none there: %+v, %v", got, err)
	}
	want := state.Topology{Size: 3, Primary: 2, Failovers: 4, Reason: "its server ended"}
	if err := state.Write(path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := state.ReadTopology(path); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []string{`{"members": 0}`, `{"members": 4}`, `{"members": 3, "primary": 3}`, `{"members": 3, "primary": -1}`, `{`, ``} {
		put(t, path, wrong)
		if got, err := state.ReadTopology(path); err == nil {
			t.Errorf("%q is read as %+v", wrong, got)
		}
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
