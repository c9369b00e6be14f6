package host_test

import (
	"bytes"
	"net/netip"
	"syscall"
	"testing"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
)

// TestRestoredPasswordThatWasResetLetsNobodyIn: after a restore of data from before
// a reset, the gateway stays closed, also while the server is killed and started
// again and when another steward takes over, until today's password is set.
func TestRestoredPasswordThatWasResetLetsNobodyIn(t *testing.T) {
	onEach(t, restoredPasswordLetsNobodyIn, engine.FlavourPostgreSQL)
}

func TestRestoredPasswordThatWasResetLetsNobodyInThorough(t *testing.T) {
	onEach(t, restoredPasswordLetsNobodyIn, engine.FlavourMariaDB)
}

func restoredPasswordLetsNobodyIn(t *testing.T, flavour engine.Flavour) {
	t.Helper()
	s := newSite(t, distributionOf(t, flavour))
	d := s.started(t)
	want := s.wanted(t, 1)
	want.Engine = s.o.Installations[0].Family()
	settle(t, d, want)
	old, today := s.secrets.Text(want.ID, platform.RootPassword), "today-4nQx8Vb2Lk"
	letsIn := func(password string) bool {
		return s.login(t.Context(), want.Cluster, netip.MustParseAddr("127.0.0.1"), password) == nil
	}
	var content bytes.Buffer
	of, err := d.Backup(t.Context(), want, cluster.Primary, &content)
	if err != nil {
		t.Fatal(err)
	}
	s.secrets.Set(want.ID, platform.RootPassword, today)
	if err := d.SetPassword(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if letsIn(old) || !letsIn(today) {
		t.Fatal("the reset did nothing")
	}
	if _, err := d.Restore(t.Context(), want, platform.Source{Copy: of}, &content, nil); err != nil {
		t.Fatal(err)
	}
	if letsIn(old) {
		t.Error("the restore itself lets people in")
	}
	closed := func(when string, seen platform.Observed) {
		t.Helper()
		if !seen.Serving || !seen.Closed {
			t.Errorf("%s: serving %v, closed %v", when, seen.Serving, seen.Closed)
		}
		if letsIn(old) || letsIn(today) {
			t.Errorf("%s somebody is let in", when)
		}
	}
	want.LockedOut = true
	seen := settle(t, d, want)
	closed("after the restore", seen)

	killed := seen.Nodes[0].Pid
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the server to be back", func() bool {
		if letsIn(old) {
			t.Error("who knows the old password is let in while the server starts")
		}
		seen, err = d.Observe(t.Context(), want.ID)
		return err == nil && seen.Serving && seen.Nodes[0].Pid != killed
	})
	closed("after the server was killed", seen)
	d.Close()
	d = s.started(t)
	closed("with another steward", settle(t, d, want))

	// The operator's word: today's password first, then the gateway.
	if err := d.SetPassword(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if letsIn(old) || letsIn(today) {
		t.Error("a password that is set opens the gateway")
	}
	want.LockedOut = false
	if seen := settle(t, d, want); seen.Closed || letsIn(old) || !letsIn(today) {
		t.Errorf("opened: closed %v, today's password lets in %v, the old one %v", seen.Closed, letsIn(today), letsIn(old))
	}
}
