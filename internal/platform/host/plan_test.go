package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	// Servers as they are after a create, running and stopped.
	running := nodeStatus{Data: true, Bootstrapped: true, Running: true, Answers: true, Settled: true}
	stopped := nodeStatus{Data: true, Bootstrapped: true, Rebooted: true, Settled: true}
	with := func(s nodeStatus, change func(*nodeStatus)) nodeStatus {
		change(&s)
		return s
	}
	create := []step{stepClone, stepCertificate, stepFiles, stepStart, stepReady, stepBootstrap, stepRoute, stepSettle}
	for _, c := range []struct {
		name string
		see  nodeStatus
		want []step
	}{
		{"nothing is there", nodeStatus{Rebooted: true, CertificateDue: true, RouteDue: true}, create},
		{"all is well", running, nil},
		{
			"the create ended before the clone came",
			nodeStatus{RouteDue: true},
			[]step{stepClone, stepFiles, stepStart, stepReady, stepBootstrap, stepRoute, stepSettle},
		},
		{
			"the create ended after the clone came",
			nodeStatus{Data: true, RouteDue: true},
			[]step{stepFiles, stepStart, stepReady, stepBootstrap, stepRoute, stepSettle},
		},
		{
			"the create ended while the server started",
			nodeStatus{Data: true, Running: true, RouteDue: true},
			[]step{stepReady, stepBootstrap, stepRoute, stepSettle},
		},
		{
			"the create ended before the gateway opened",
			with(running, func(s *nodeStatus) { s.RouteDue, s.Settled = true, false }),
			[]step{stepRoute, stepSettle},
		},
		{
			"the machine was rebooted during the create",
			nodeStatus{Data: true, Rebooted: true, CertificateDue: true, RouteDue: true},
			append([]step{stepDiscard}, create...),
		},
		{
			"the machine was rebooted",
			with(stopped, func(s *nodeStatus) { s.RouteDue = true }),
			[]step{stepFiles, stepStart, stepReady, stepRoute, stepSettle},
		},
		{
			"a customer's data is never thrown away",
			with(stopped, func(s *nodeStatus) { s.Settled, s.FilesDue, s.CertificateDue = false, true, true }),
			[]step{stepCertificate, stepFiles, stepStart, stepReady, stepSettle},
		},
		{"an older steward let customers have more", with(running, func(s *nodeStatus) { s.FencesDue = true }), []step{stepFence, stepSettle}},
		{"that, and files to load", with(running, func(s *nodeStatus) { s.FencesDue, s.FilesDue = true, true }), []step{stepFiles, stepReload, stepSettle}},
		{"the server hangs", with(running, func(s *nodeStatus) { s.Answers = false }), []step{stepReady, stepSettle}},
		{"the allow list changed", with(running, func(s *nodeStatus) { s.RouteDue = true }), []step{stepRoute, stepSettle}},
		{
			"settings changed that a reload may do",
			with(running, func(s *nodeStatus) { s.FilesDue, s.Settled = true, false }),
			[]step{stepFiles, stepReload, stepSettle},
		},
		{
			"the certificate nears its end",
			with(running, func(s *nodeStatus) { s.CertificateDue = true }),
			[]step{stepCertificate, stepReload, stepSettle},
		},
		{
			"another amount of memory",
			with(running, func(s *nodeStatus) { s.Restart, s.FilesDue, s.LimitsDue, s.Settled = true, true, true, false }),
			[]step{stepStop, stepFiles, stepStart, stepReady, stepSettle},
		},
		{
			"more processors",
			with(running, func(s *nodeStatus) { s.LimitsDue, s.Settled = true, false }),
			[]step{stepLimits, stepSettle},
		},
		{
			"a patch",
			with(running, func(s *nodeStatus) { s.OtherBuild, s.FilesDue = true, true }),
			[]step{stepStop, stepFiles, stepStart, stepReady, stepUpgrade, stepSettle},
		},
		{
			"a patch was interrupted after the newer server started",
			with(running, func(s *nodeStatus) { s.Upgrading = true }),
			[]step{stepUpgrade, stepSettle},
		},
		{
			"the distribution replaced the build while the server was stopped",
			with(stopped, func(s *nodeStatus) { s.OtherBuild = true }),
			[]step{stepFiles, stepStart, stepReady, stepUpgrade, stepSettle},
		},
		{
			"the disk guard is to hold",
			with(running, func(s *nodeStatus) { s.ReadOnlyDue, s.FilesDue = true, true }),
			[]step{stepFiles, stepReload, stepReadOnly, stepSettle},
		},
		{
			"the disk guard is to hold from the start",
			with(stopped, func(s *nodeStatus) { s.ReadOnlyDue = true }),
			[]step{stepFiles, stepStart, stepReady, stepSettle},
		},
		{"encrypted: the keyring is looked at each time", with(running, func(s *nodeStatus) { s.Encrypted = true }), []step{stepKeyring}},
		{
			"encrypted: a create",
			nodeStatus{Rebooted: true, CertificateDue: true, RouteDue: true, Encrypted: true},
			[]step{
				stepClone, stepCertificate, stepFiles, stepStart, stepReady, stepBootstrap, stepKeyring, stepRoute, stepSettle,
			},
		},
		{
			"a replica of a new cluster",
			nodeStatus{Rebooted: true, CertificateDue: true, Replicated: true, Replica: true},
			[]step{
				stepClone, stepPrepareReplica, stepCertificate, stepFiles, stepStart, stepReady, stepBootstrap, stepRole, stepSettle,
			},
		},
		{
			"a replica whose create was interrupted is made anew",
			nodeStatus{Data: true, CertificateDue: true, Replicated: true, Replica: true},
			[]step{
				stepDiscard, stepClone, stepPrepareReplica, stepCertificate, stepFiles, stepStart, stepReady, stepBootstrap, stepRole, stepSettle,
			},
		},
		{
			"a replica's server ended",
			with(stopped, func(s *nodeStatus) { s.Replicated, s.Replica = true, true }),
			[]step{stepFiles, stepStart, stepReady, stepRole, stepSettle},
		},
		{
			"a replica doesn't follow",
			with(running, func(s *nodeStatus) { s.Replicated, s.Replica, s.RoleDue = true, true, true }),
			[]step{stepRole, stepSettle},
		},
		{
			"steward ended between the record and the promotion",
			with(running, func(s *nodeStatus) { s.Replicated, s.RoleDue, s.RouteDue = true, true, true }),
			[]step{stepRole, stepRoute, stepSettle},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, plan(c.see)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever is seen, some things must never be planned.
func TestPlanKeepsData(t *testing.T) {
	const flags = 17
	for bits := range 1 << flags {
		bit := func(n int) bool { return bits&(1<<n) != 0 }
		s := nodeStatus{
			Data: bit(0), Bootstrapped: bit(1), Rebooted: bit(2), Running: bit(3), Answers: bit(4), OtherBuild: bit(5),
			Upgrading: bit(6), Encrypted: bit(7), CertificateDue: bit(8), FilesDue: bit(9), Restart: bit(10),
			LimitsDue: bit(11), RouteDue: bit(12), Settled: bit(13),
			Replicated: bit(14), Replica: bit(14) && bit(15), RoleDue: bit(14) && bit(16),
		}
		at := map[step]int{}
		for i, step := range plan(s) {
			if _, twice := at[step]; twice {
				t.Fatalf("%+v: %s twice", s, step)
			}
			at[step] = i + 1
		}
		before := func(a, b step) {
			if at[a] > 0 && at[b] > 0 && at[a] > at[b] {
				t.Fatalf("%+v: %s comes after %s", s, a, b)
			}
		}
		switch {
		case s.Data && s.Bootstrapped && (at[stepDiscard] > 0 || at[stepClone] > 0):
			t.Fatalf("%+v: a customer's data is replaced", s)
		case s.Data && at[stepClone] > 0 && at[stepDiscard] == 0:
			t.Fatalf("%+v: a clone is put over data", s)
		case s.Running && at[stepStart] > 0 && at[stepStop] == 0:
			t.Fatalf("%+v: two servers on one folder", s)
		case at[stepStart] > 0 && (at[stepFiles] == 0 || at[stepReady] == 0):
			t.Fatalf("%+v: started without files or without waiting", s)
		case !s.Bootstrapped && at[stepRoute] > 0 && at[stepBootstrap] == 0:
			t.Fatalf("%+v: the gateway opens to a server without the customer's password", s)
		}
		if s.Replicated && at[stepStart] > 0 && at[stepRole] == 0 {
			t.Fatalf("%+v: started without being told whom to follow", s)
		}
		if at[stepPrepareReplica] > 0 && (at[stepClone] == 0 || !s.Replica) {
			t.Fatalf("%+v: data that was in use is made a twin", s)
		}
		before(stepClone, stepPrepareReplica)
		before(stepPrepareReplica, stepStart)
		before(stepBootstrap, stepRole)
		before(stepReady, stepRole)
		before(stepRole, stepRoute)
		before(stepRole, stepUpgrade)
		before(stepStop, stepStart)
		before(stepFiles, stepStart)
		before(stepReady, stepBootstrap)
		before(stepBootstrap, stepRoute)
		before(stepKeyring, stepRoute)
		before(stepKeyring, stepSettle)
	}
}
