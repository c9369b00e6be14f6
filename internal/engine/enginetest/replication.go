package enginetest

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/testdir"
)

// replicationCases are what every installation must pass as three nodes.
func replicationCases() []Check {
	return []Check{
		{"three nodes", threeNodes},
		{"three nodes, asynchronous", inTurn(func(t *testing.T, b *Bench) *Cluster { return b.ThreeNodes(t) }, asynchronousParts())},
	}
}

// threeNodes tries of a flavour that the distribution hasn't what its own replication decides; RunThorough tries all.
func threeNodes(t *testing.T, b *Bench) {
	parts := clusterParts()
	if !b.whole() && !b.long() {
		parts = slices.DeleteFunc(parts, func(p part[*Cluster]) bool { return slices.Contains(furtherParts, p.name) })
	}
	inTurn(func(t *testing.T, b *Bench) *Cluster { return b.ThreeNodes(t, synchronous) }, parts)(t, b)
}

// furtherParts are those of clusterParts in which flavours of a family differ least.
var furtherParts = []string{"a replica's lag is measured", "a replica comes back", "backup of a replica, restored in place"}

// clusterParts are of a cluster that has just been started, whose commits wait for a replica until it is changed.
func clusterParts() []part[*Cluster] {
	return []part[*Cluster]{
		{"prepared replicas stream", preparedReplicasStream},
		{"replicas that confirm are counted", confirmingMeasured},
		{"switchover", switchovers},
		{"failover", failovers},
		{"commits wait for a replica", commitsWait},
		{"commits wait no longer", commitsWaitNoLonger},
		{"a replica's lag is measured", lagMeasured},
		{"a replica comes back", replicaComesBack},
		{"backup of a replica, restored in place", backupOfReplica},
	}
}

// asynchronousParts are of one whose commits have never waited.
func asynchronousParts() []part[*Cluster] {
	return []part[*Cluster]{
		{"prepared replicas stream", preparedReplicasStream},
		{"base backup under writes", baseBackupUnderWrites},
		{"switchover", switchovers},
		{"failover", failovers},
	}
}

// rounds of failing over, and of switching over: each node has been primary and replica
// after three.
func (b *Bench) rounds() int {
	if b.long() {
		return 3
	}
	return 1
}

const createKept = "CREATE TABLE kept (v int PRIMARY KEY)"

// empty has the primary have a table kept without rows.
func (c *Cluster) empty(t *testing.T) {
	t.Helper()
	c.Primary.empty(t)
}

func (s *Server) empty(t *testing.T) {
	t.Helper()
	s.Exec(t, "DROP TABLE IF EXISTS kept", createKept)
}

func preparedReplicasStream(t *testing.T, c *Cluster) {
	b := c.Bench
	c.Primary.Exec(t, createKept, "INSERT INTO kept VALUES (1)")
	for _, s := range c.replicas() {
		await.NoError(t, "login to a replica", func() error { return s.TryLogin(t, s.Login()) })
		await.NoError(t, "the table arrives", func() error {
			db := s.DB(t, s.Login())
			defer db.Close()
			_, err := db.ExecContext(t.Context(), "SELECT v FROM kept")
			return err
		})
		c.Agrees(t, s)
		s.wantReadOnly(t)
		s.Bootstrap(t) // still nothing to do
		if got := s.ReplicationStatus(t); got.Writable || got.Position == "" || got.Received == 0 {
			t.Errorf("a replica has the replication status %+v", got)
		}
	}
	got := c.Primary.ReplicationStatus(t)
	if !got.Writable || got.Streaming || got.Position == "" || got.Received == 0 || got.Received != got.Applied {
		t.Errorf("the primary has the replication status %+v", got)
	}
	must(t, b.Driver.Promote(t.Context(), c.Primary.Node), "promote the primary, which is nothing to do")
	c.Primary.Node.RootPassword = "rotated-5Hd8Lq2Wx"
	must(t, b.Driver.SetRootPassword(t.Context(), c.Primary.Node), "set root password")
	for _, s := range c.Nodes {
		s.Node.RootPassword = c.Primary.Node.RootPassword
		if b.Installation.Family() == cluster.MySQL {
			// There accounts are a node's own.
			must(t, b.Driver.SetRootPassword(t.Context(), s.Node), "set root password on each node")
		}
		await.NoError(t, "the new password arrives", func() error { return b.Driver.VerifyRootPassword(t.Context(), s.Node) })
		if s != c.Primary {
			must(t, b.Driver.SetRootPassword(t.Context(), s.Node), "set root password on a replica")
		}
		if s.reload(t) {
			t.Error("reload of the same files asks for a restart")
		}
		s.wantNoPasswordInLogs(t)
	}
}

func (s *Server) wantNoPasswordInLogs(t *testing.T) {
	t.Helper()
	passwords := []string{s.Node.AdminPassword, s.Node.RootPassword, s.Node.TemplatePassword}
	wantNone(t, "console.log", []byte(s.Console(t)), passwords)
	must(t, testdir.Walk(s.Node.Log, func(path string, d fs.DirEntry) error {
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		wantNone(t, strings.TrimPrefix(path, s.base), content, passwords)
		return err
	}), "search logs")
}

// replicaComesBack stops a replica, and kills the other, while rows are written.
func replicaComesBack(t *testing.T, c *Cluster) {
	c.empty(t)
	l := c.Primary.write(t)
	l.reach(t, 50)
	stopped, killed := c.replicas()[0], c.replicas()[1]
	stopped.Stop(t)
	killed.Kill(t)
	l.reach(t, l.count()+50) // no commit waits
	for _, s := range []*Server{stopped, killed} {
		s.Start(t)
		s.Bootstrap(t)
		s.follow(t)
		s.streams(t)
	}
	l.reach(t, l.count()+50)
	l.end()
	for _, s := range c.replicas() {
		c.Agrees(t, s)
		await.NoError(t, "all is applied", func() error { return s.applied(t) })
	}
}

// applied is nil when the replica has applied all it received.
func (s *Server) applied(t *testing.T) error {
	t.Helper()
	if got := s.ReplicationStatus(t); got.Applied < got.Received || got.Lag != 0 {
		return &behind{got}
	}
	return nil
}

type behind struct{ status engine.ReplicationStatus }

func (b *behind) Error() string { return "behind at " + b.status.Position }

func baseBackupUnderWrites(t *testing.T, c *Cluster) {
	c.empty(t)
	l := c.Primary.write(t)
	l.reach(t, 100)
	s := c.replicas()[1]
	s.Kill(t)
	c.Recopy(t, s)
	l.reach(t, l.count()+50)
	rows := l.end()
	c.Agrees(t, s)
	if n := s.missing(t, rows); n > 0 {
		t.Errorf("the copied replica misses %d of %d rows", n, len(rows))
	}
}

// failovers kills one primary after the other.
func failovers(t *testing.T, c *Cluster) {
	c.empty(t)
	lossless := c.Primary.commitsWait() || c.Bench.Driver.CanDrain(c.Bench.Installation)
	for round := range c.Bench.rounds() {
		if !c.Failover(t, round, lossless) {
			t.Logf("round %d: a new copy was needed", round)
			if c.Bench.Driver.CanDrain(c.Bench.Installation) {
				t.Error("what is drained leaves the old primary with nothing of its own")
			}
		}
	}
	// All of them have changed roles and sources by now.
	for _, s := range c.Nodes {
		s.wantNoPasswordInLogs(t)
	}
}

// Failover kills the primary under writers and demands that the others go on,
// and that it comes back. Without loss when lossless, and then it reports whether
// the killed one came back as it was.
func (c *Cluster) Failover(t *testing.T, round int, lossless bool) (asItWas bool) {
	t.Helper()
	l := c.Primary.write(t)
	l.reach(t, 200)
	dead := c.Primary
	dead.Kill(t)
	began := time.Now()
	rows := l.end()
	candidate, other := c.furthest(t)
	c.succeed(t, candidate, other)
	t.Logf("round %d: primary after %v, %d rows acknowledged", round, time.Since(began).Round(time.Millisecond), len(rows))
	candidate.Exec(t, c.Bench.marker())
	if n := candidate.missing(t, rows); n > 0 && lossless {
		t.Errorf("round %d: %d of %d acknowledged rows are lost", round, n, len(rows))
	}
	other.streams(t)
	asItWas = c.rejoin(t, dead)
	c.Agrees(t, other)
	c.Agrees(t, dead)
	return asItWas
}

// switchovers move the primary on purpose, under writers. Nothing may get lost,
// and nobody may need a new copy.
func switchovers(t *testing.T, c *Cluster) {
	b := c.Bench
	c.empty(t)
	for round := range b.rounds() {
		l := c.Primary.write(t)
		l.reach(t, 100)
		old, began := c.Primary, time.Now()
		for range 2 {
			must(t, b.Driver.StepDown(t.Context(), old.Node), "step down")
		}
		candidate, other := c.stepDown(t, old)
		c.succeed(t, candidate, other)
		t.Logf("round %d: switched over after %v", round, time.Since(began).Round(time.Millisecond))
		rows := l.end()
		candidate.Exec(t, c.Bench.marker())
		if n := candidate.missing(t, rows); n > 0 {
			t.Errorf("round %d: %d of %d acknowledged rows are lost", round, n, len(rows))
		}
		other.streams(t)
		if !c.rejoin(t, old) {
			t.Errorf("round %d: the former primary needed a new copy", round)
		}
		c.Agrees(t, other)
		c.Agrees(t, old)
	}
}

// stepDown waits until the one that stepped down has nothing the candidate hasn't:
// by stopping it when its files can be drained.
func (c *Cluster) stepDown(t *testing.T, old *Server) (candidate, other *Server) {
	t.Helper()
	if c.Bench.Driver.CanDrain(c.Bench.Installation) {
		old.Stop(t)
		return c.furthest(t)
	}
	want := old.ReplicationStatus(t).Received
	for _, s := range c.replicas() {
		await.NoError(t, "the replica receives what is left", func() error {
			if got := s.ReplicationStatus(t); got.Received < want {
				return &behind{got}
			}
			return nil
		})
	}
	return c.furthest(t)
}

// commitsWait stops both replicas: a commit has to wait until one is back.
func commitsWait(t *testing.T, c *Cluster) {
	b := c.Bench
	c.empty(t)
	for _, s := range c.replicas() {
		s.Stop(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), replicationDeadline)
	defer cancel()
	must(t, b.Driver.SetRootPassword(ctx, c.Primary.Node), "set root password with no replica there")
	db := c.Primary.DB(t, c.Primary.Login())
	must(t, db.PingContext(ctx), "connect")
	committed := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(ctx, "INSERT INTO kept VALUES (1)")
		committed <- err
	}()
	select {
	case err := <-committed:
		t.Fatalf("a commit ended with no replica there: %v", err)
	case <-time.After(1500 * time.Millisecond):
	}
	// What isn't customers' goes on meanwhile.
	must(t, b.Driver.Ping(ctx, c.Primary.Node), "ping")
	s := c.replicas()[1]
	s.Start(t)
	s.follow(t)
	s.streams(t)
	must(t, <-committed, "commit with a replica back")
	c.Agrees(t, s)
	other := c.replicas()[0]
	other.Start(t)
	other.follow(t)
	other.streams(t)
}

// commitsWaitNoLonger changes the running cluster. That its commits wait for nobody shows when a replica comes back: until then none
// of them runs.
func commitsWaitNoLonger(t *testing.T, c *Cluster) {
	for _, s := range c.Nodes {
		asynchronous(&s.Node)
		if s.reload(t) {
			t.Error("to wait no longer needs a restart")
		}
	}
	must(t, c.Bench.Driver.Promote(t.Context(), c.Primary.Node), "promote the primary, which waits no longer")
	for _, s := range c.replicas() {
		s.follow(t)
		s.streams(t)
	}
}
