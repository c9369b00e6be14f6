package control_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/monitor"
	"steward/internal/sshlogin"
	"steward/internal/sshlogin/sshdtest"
)

// check tries to log in from the host "here", and returns the name of the step
// that failed with what it says, or "" and "" when none has.
func (b *bench) check(p account.Principal, id monitor.MachineID, by control.Check) (step, detail string) {
	b.t.Helper()
	c, err := b.Machines.View(b.t.Context(), p, id)
	if err != nil {
		b.t.Fatal(err)
	}
	by.Host = "here"
	report, err := b.Machines.Check(b.t.Context(), c, by)
	if err != nil {
		b.t.Fatal(err)
	}
	if report.OK() {
		return "", ""
	}
	last := report.Steps[len(report.Steps)-1]
	return last.Name, last.Detail
}

// here makes this host one of the account's machines, with the settings of the server.
func (b *bench) here(p account.Principal, s *sshdtest.Server) monitor.Machine {
	b.t.Helper()
	if err := b.store.EnsureHost(b.t.Context(), p.Account, "here"); err != nil {
		b.t.Fatal(err)
	}
	all, err := b.store.AllMachines(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return b.set(p, all[0].ID, monitor.SSHChange{User: &s.User, Port: port(b.t, s)})
}

func (b *bench) set(p account.Principal, id monitor.MachineID, in monitor.SSHChange) monitor.Machine {
	b.t.Helper()
	c, err := b.Machines.Update(b.t.Context(), p, id, in, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func port(t *testing.T, s *sshdtest.Server) *int {
	t.Helper()
	_, text, _ := net.SplitHostPort(s.Address)
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return &n
}

// TestCheckPinsHostKey: the host key of the first log-in is what later ones must find.
func TestCheckPinsHostKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, server, other := b.tenant("one"), sshdtest.New(t), sshdtest.New(t)
	c := b.here(p, server)
	if step, _ := b.check(p, c.ID, control.Check{}); step != sshlogin.LogIn {
		t.Errorf("a machine that doesn't know the key yet fails at %q", step)
	}
	key, err := b.SSHKeys.View(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	server.Allow(key)
	other.Allow(key)
	pinned := func() string {
		c, err := b.Machines.View(t.Context(), p, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		return c.SSH.HostKey
	}
	if pinned() != "" {
		t.Error("a host key is pinned before a log-in")
	}
	well := func(when string, by control.Check) {
		t.Helper()
		if step, detail := b.check(p, c.ID, by); step != "" {
			t.Fatalf("%s: %s fails: %s", when, step, detail)
		}
	}
	well("the first time", control.Check{})
	first := pinned()
	if !strings.HasPrefix(first, "ssh-ed25519 ") {
		t.Errorf("pinned %q", first)
	}
	well("the second time", control.Check{})
	server.NewHostKey("ed25519")
	if step, _ := b.check(p, c.ID, control.Check{}); step != sshlogin.HostKey || pinned() != first {
		t.Errorf("another host key fails at %q, and %q is pinned", step, pinned())
	}
	well("set up anew", control.Check{NewHostKey: true})
	if second := pinned(); second == first || second == "" {
		t.Errorf("still pinned: %q", second)
	}
	b.set(p, c.ID, monitor.SSHChange{Port: port(t, other)})
	if pinned() != "" {
		t.Error("a host key is known of an address that nobody has been at")
	}
	well("at another port", control.Check{})
}

func TestCheckByTheSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, server := b.tenant("one"), sshdtest.New(t)
	key, err := b.SSHKeys.View(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	server.Allow(key)
	here := b.here(p, server)
	b.set(p, here.ID, monitor.SSHChange{Access: new(false)})
	if step, detail := b.check(p, here.ID, control.Check{}); step != "settings" || !strings.Contains(detail, "access") {
		t.Errorf("without access: %s %s", step, detail)
	}
	if err := b.store.EnsureHost(t.Context(), p.Account, "there"); err != nil {
		t.Fatal(err)
	}
	all, err := b.store.AllMachines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := b.set(p, all[1].ID, monitor.SSHChange{User: &server.User, Port: port(t, server)})
	if step, detail := b.check(p, there.ID, control.Check{}); step != "settings" || !strings.Contains(detail, "another server") {
		t.Errorf("any address of another server: %s %s", step, detail)
	}
	b.set(p, there.ID, monitor.SSHChange{IP: new("127.0.0.1")})
	if step, detail := b.check(p, there.ID, control.Check{}); step != "" {
		t.Errorf("at the address that is set: %s fails: %s", step, detail)
	}
	registered, err := b.Machines.Register(t.Context(), p, monitor.Machine{Label: "registered", Source: "http://localhost:9/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	b.set(p, registered.ID, monitor.SSHChange{User: &server.User, Port: port(t, server)})
	if step, detail := b.check(p, registered.ID, control.Check{}); step != "" {
		t.Errorf("any address is that of the source: %s fails: %s", step, detail)
	}
}
