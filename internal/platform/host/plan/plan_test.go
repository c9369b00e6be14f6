package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	// Servers as they are after a create, running and stopped.
	running := Status{Data: true, Bootstrapped: true, Running: true, Answers: true, Settled: true}
	stopped := Status{Data: true, Bootstrapped: true, Rebooted: true, Settled: true}
	with := func(s Status, change func(*Status)) Status {
		change(&s)
		return s
	}
	create := []Step{Clone, Certificate, Files, Start, Ready, Bootstrap, Route, Settle}
	for _, c := range []struct {
		name string
		see  Status
		want []Step
	}{
		{"nothing is there", Status{Rebooted: true, CertificateDue: true, RouteDue: true}, create},
		{"all is well", running, nil},
		{
			"the create ended before the clone came",
			Status{RouteDue: true},
			[]Step{Clone, Files, Start, Ready, Bootstrap, Route, Settle},
		},
		{
			"the create ended after the clone came",
			Status{Data: true, RouteDue: true},
			[]Step{Files, Start, Ready, Bootstrap, Route, Settle},
		},
		{
			"the create ended while the server started",
			Status{Data: true, Running: true, RouteDue: true},
			[]Step{Ready, Bootstrap, Route, Settle},
		},
		{
			"the create ended before the gateway opened",
			with(running, func(s *Status) { s.RouteDue, s.Settled = true, false }),
			[]Step{Route, Settle},
		},
		{
			"the machine was rebooted during the create",
			Status{Data: true, Rebooted: true, CertificateDue: true, RouteDue: true},
			append([]Step{Discard}, create...),
		},
		{
			"the machine was rebooted",
			with(stopped, func(s *Status) { s.RouteDue = true }),
			[]Step{Files, Start, Ready, Route, Settle},
		},
		{
			"a customer's data is never thrown away",
			with(stopped, func(s *Status) { s.Settled, s.FilesDue, s.CertificateDue = false, true, true }),
			[]Step{Certificate, Files, Start, Ready, Route, Settle},
		},
		{"an older steward let customers have more", with(running, func(s *Status) { s.FencesDue = true }), []Step{Fence, Settle}},
		{"that, and files to load", with(running, func(s *Status) { s.FencesDue, s.FilesDue = true, true }), []Step{Files, Reload, Settle}},
		{"the server hangs", with(running, func(s *Status) { s.Answers = false }), []Step{Ready, Settle}},
		{"the allow list changed", with(running, func(s *Status) { s.RouteDue = true }), []Step{Route, Settle}},
		{
			"settings changed that a reload may do",
			with(running, func(s *Status) { s.FilesDue, s.Settled = true, false }),
			[]Step{Files, Reload, Settle},
		},
		{
			"the certificate nears its end",
			with(running, func(s *Status) { s.CertificateDue = true }),
			[]Step{Certificate, Reload, Settle},
		},
		{
			"another amount of memory",
			with(running, func(s *Status) { s.Restart, s.FilesDue, s.LimitsDue, s.Settled = true, true, true, false }),
			[]Step{Stop, Files, Start, Ready, Route, Settle},
		},
		{
			"more processors",
			with(running, func(s *Status) { s.LimitsDue, s.Settled = true, false }),
			[]Step{Limits, Settle},
		},
		{
			"a patch",
			with(running, func(s *Status) { s.OtherBuild, s.FilesDue = true, true }),
			[]Step{Stop, Files, Start, Ready, Upgrade, Route, Settle},
		},
		{
			"a patch was interrupted after the newer server started",
			with(running, func(s *Status) { s.Upgrading = true }),
			[]Step{Upgrade, Settle},
		},
		{
			"the distribution replaced the build while the server was stopped",
			with(stopped, func(s *Status) { s.OtherBuild = true }),
			[]Step{Files, Start, Ready, Upgrade, Route, Settle},
		},
		{
			"the disk guard is to hold",
			with(running, func(s *Status) { s.ReadOnlyDue, s.FilesDue = true, true }),
			[]Step{Files, Reload, ReadOnly, Settle},
		},
		{
			"the disk guard is to hold from the start",
			with(stopped, func(s *Status) { s.ReadOnlyDue = true }),
			[]Step{Files, Start, Ready, Route, Settle},
		},
		{"encrypted: the keyring is looked at each time", with(running, func(s *Status) { s.Encrypted = true }), []Step{Keyring}},
		{
			"encrypted: a create",
			Status{Rebooted: true, CertificateDue: true, RouteDue: true, Encrypted: true},
			[]Step{
				Clone, Certificate, Files, Start, Ready, Bootstrap, Keyring, Route, Settle,
			},
		},
		{
			"encrypted: the server ended during the create",
			Status{Data: true, CertificateDue: true, RouteDue: true, Encrypted: true},
			[]Step{
				Discard, Clone, Certificate, Files, Start, Ready, Bootstrap, Keyring, Route, Settle,
			},
		},
		{
			"encrypted: steward ended during the create",
			Status{Data: true, Running: true, Answers: true, RouteDue: true, Encrypted: true},
			[]Step{Bootstrap, Keyring, Route, Settle},
		},
		{
			"a replica of a new cluster",
			Status{Rebooted: true, CertificateDue: true, Replicated: true, Replica: true},
			[]Step{
				Clone, PrepareReplica, Certificate, Files, Start, Ready, Bootstrap, Role, Settle,
			},
		},
		{
			"a replica whose create was interrupted is made anew",
			Status{Data: true, CertificateDue: true, Replicated: true, Replica: true},
			[]Step{
				Discard, Clone, PrepareReplica, Certificate, Files, Start, Ready, Bootstrap, Role, Settle,
			},
		},
		{
			"a replica's server ended",
			with(stopped, func(s *Status) { s.Replicated, s.Replica = true, true }),
			[]Step{Files, Start, Ready, Role, Settle},
		},
		{
			"steward ended before a replica that it started had answered",
			with(running, func(s *Status) { s.Replicated, s.Replica, s.Answers = true, true, false }),
			[]Step{Ready, Role, Settle},
		},
		{
			"a replica doesn't follow",
			with(running, func(s *Status) { s.Replicated, s.Replica, s.RoleDue = true, true, true }),
			[]Step{Role, Settle},
		},
		{
			"steward ended between the record and the promotion",
			with(running, func(s *Status) { s.Replicated, s.RoleDue, s.RouteDue = true, true, true }),
			[]Step{Role, Route, Settle},
		},
		{
			"somebody needs a cluster that sleeps",
			with(stopped, func(s *Status) { s.Asleep, s.RouteDue = true, true }),
			[]Step{Files, Start, Ready, Wake, Route, Settle},
		},
		{
			"steward ended while it woke",
			with(running, func(s *Status) { s.Asleep, s.RouteDue = true, true }),
			[]Step{Wake, Route, Settle},
		},
		{
			"a replica wakes with its primary",
			with(stopped, func(s *Status) { s.Asleep, s.Replicated, s.Replica = true, true, true }),
			[]Step{Files, Start, Ready, Role, Settle},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Steps(c.see)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// An encrypted node that is well has its keyring looked at each time: nobody waits for
// its replicas then, as nobody does for those of others.
func TestOnlyKeyring(t *testing.T) {
	for _, settled := range []bool{true, false} {
		s := Status{Data: true, Bootstrapped: true, Running: true, Answers: true, Encrypted: true, Settled: settled}
		if steps := Steps(s); !OnlyKeyring(steps) {
			t.Errorf("settled %v: %v", settled, steps)
		}
	}
	if OnlyKeyring(nil) || OnlyKeyring([]Step{Role, Keyring, Settle}) {
		t.Error("other steps are taken for the keyring's")
	}
}

// Whatever is seen, some things must never be planned.
func TestPlanKeepsData(t *testing.T) {
	const flags = 18
	for bits := range 1 << flags {
		bit := func(n int) bool { return bits&(1<<n) != 0 }
		s := Status{
			Data: bit(0), Bootstrapped: bit(1), Rebooted: bit(2), Running: bit(3), Answers: bit(4), OtherBuild: bit(5),
			Upgrading: bit(6), Encrypted: bit(7), CertificateDue: bit(8), FilesDue: bit(9), Restart: bit(10),
			LimitsDue: bit(11), RouteDue: bit(12), Settled: bit(13),
			Replicated: bit(14), Replica: bit(14) && bit(15), RoleDue: bit(14) && bit(16),
			Asleep: bit(17),
		}
		at := map[Step]int{}
		for i, step := range Steps(s) {
			if _, twice := at[step]; twice {
				t.Fatalf("%+v: %s twice", s, step)
			}
			at[step] = i + 1
		}
		before := func(a, b Step) {
			if at[a] > 0 && at[b] > 0 && at[a] > at[b] {
				t.Fatalf("%+v: %s comes after %s", s, a, b)
			}
		}
		switch {
		case s.Data && s.Bootstrapped && (at[Discard] > 0 || at[Clone] > 0):
			t.Fatalf("%+v: a customer's data is replaced", s)
		case s.Data && at[Clone] > 0 && at[Discard] == 0:
			t.Fatalf("%+v: a clone is put over data", s)
		case s.Running && at[Start] > 0 && at[Stop] == 0:
			t.Fatalf("%+v: two servers on one folder", s)
		case at[Start] > 0 && (at[Files] == 0 || at[Ready] == 0):
			t.Fatalf("%+v: started without files or without waiting", s)
		case !s.Bootstrapped && at[Route] > 0 && at[Bootstrap] == 0:
			t.Fatalf("%+v: the gateway opens to a server without the customer's password", s)
		}
		if s.Replicated && at[Start] > 0 && at[Role] == 0 {
			t.Fatalf("%+v: started without being told whom to follow", s)
		}
		if at[PrepareReplica] > 0 && (at[Clone] == 0 || !s.Replica) {
			t.Fatalf("%+v: data that was in use is prepared as a replica", s)
		}
		if s.Asleep && !s.Replica && at[Route] > 0 && at[Wake] == 0 {
			t.Fatalf("%+v: led to servers that the next look stops", s)
		}
		before(Ready, Wake)
		before(Wake, Route)
		before(Clone, PrepareReplica)
		before(PrepareReplica, Start)
		before(Bootstrap, Role)
		before(Ready, Role)
		before(Role, Route)
		before(Role, Upgrade)
		before(Stop, Start)
		before(Files, Start)
		before(Ready, Bootstrap)
		before(Bootstrap, Route)
		before(Keyring, Route)
		before(Keyring, Settle)
	}
}
