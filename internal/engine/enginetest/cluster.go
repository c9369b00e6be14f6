package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
)

// replicationDeadline is for what takes milliseconds on a machine that isn't busy.
const replicationDeadline = 60 * time.Second

// Cluster is a cluster of three nodes, driven through the steps that the platform takes.
type Cluster struct {
	Bench   *Bench
	Nodes   []*Server
	Primary *Server
}

// synchronous has commits wait for a replica.
func synchronous(n *engine.Node) {
	if n.Installation.Family() == cluster.PostgreSQL {
		n.Commit = cluster.CommitOn
	} else {
		n.Replication = cluster.SemiSynch
	}
}

// asynchronous has commits wait for no replica.
func asynchronous(n *engine.Node) {
	if n.Installation.Family() == cluster.PostgreSQL {
		n.Commit = cluster.CommitLocal
	} else {
		n.Replication = cluster.Asynch
	}
}

// commitsWait reports whether commits wait for a replica.
func (s *Server) commitsWait() bool {
	return s.Node.Commit == cluster.CommitOn || s.Node.Replication == cluster.SemiSynch
}

// ThreeNodes starts a primary and two replicas from clones of its template, all streaming.
func (b *Bench) ThreeNodes(t *testing.T, change ...func(*engine.Node)) *Cluster {
	t.Helper()
	began := time.Now()
	c := &Cluster{Bench: b}
	first := b.next()
	uid, id := firstUID+first, cluster.ID(first)
	for i := range 3 {
		number := first
		if i > 0 {
			number = b.next()
		}
		clustered := func(n *engine.Node) {
			n.Cluster, n.Ordinal, n.ClusterSize = id, i, 3
			n.Role, n.Replication = cluster.Primary, cluster.Asynch
			if i > 0 {
				n.Role, n.Source = cluster.Replica, c.Nodes[0].peer()
			}
			for _, f := range change {
				f(n)
			}
		}
		s := b.serverOf(t, number, uid, clustered)
		c.Nodes = append(c.Nodes, s)
		if i > 0 {
			c.prepareReplica(t, s)
		}
		s.Start(t)
		s.Bootstrap(t)
	}
	c.Primary = c.Nodes[0]
	trustEachOther(t, c.Nodes)
	for _, s := range c.replicas() {
		s.follow(t)
	}
	for _, s := range c.replicas() {
		s.streams(t)
	}
	t.Logf("three nodes after %v", time.Since(began).Round(time.Millisecond))
	return c
}

// prepareReplica is done while the primary runs, the harder case, and twice.
func (c *Cluster) prepareReplica(t *testing.T, s *Server) {
	t.Helper()
	for range 2 {
		must(t, c.Bench.Driver.PrepareReplica(t.Context(), c.Nodes[0].Node.Data, s.Node.Data), "prepare replica")
	}
	s.WriteFiles(t)
}

// replicas are the nodes other than the primary.
func (c *Cluster) replicas() []*Server {
	var others []*Server
	for _, s := range c.Nodes {
		if s != c.Primary {
			others = append(others, s)
		}
	}
	return others
}

func (s *Server) peer() engine.Peer {
	return engine.Peer{Ordinal: s.Node.Ordinal, Listen: s.Node.Listen, Run: s.Node.Run}
}

// ReplicationStatus asks the driver.
func (s *Server) ReplicationStatus(t *testing.T) engine.ReplicationStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), replicationDeadline)
	defer cancel()
	status, err := s.Bench.Driver.ReplicationStatus(ctx, s.Node)
	must(t, err, "ask for the replication status")
	return status
}

// follow is repeatable.
func (s *Server) follow(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), replicationDeadline)
	defer cancel()
	for again := range 2 {
		afresh, err := s.Bench.Driver.Follow(ctx, s.Node)
		must(t, err, "follow")
		if afresh && again > 0 {
			t.Error("a replica that follows begins afresh")
		}
	}
}

// streams waits until the replica receives from its source.
func (s *Server) streams(t *testing.T) {
	t.Helper()
	await.NoError(t, "replica streams", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), replicationDeadline)
		defer cancel()
		status, err := s.Bench.Driver.ReplicationStatus(ctx, s.Node)
		if err == nil && (!status.Streaming || status.Problem != "" || status.Writable) {
			err = fmt.Errorf("its replication status: %+v", status)
		}
		return err
	})
}

// demote makes the stopped or running node's files those of a replica of the primary.
func (c *Cluster) demote(t *testing.T, s *Server) {
	t.Helper()
	s.Node.Role, s.Node.Source = cluster.Replica, c.Primary.peer()
	s.WriteFiles(t)
}

// furthest disconnects the survivors of the primary and tells which has
// received more.
func (c *Cluster) furthest(t *testing.T) (candidate, other *Server) {
	t.Helper()
	survivors := c.replicas()
	ctx, cancel := context.WithTimeout(t.Context(), replicationDeadline)
	defer cancel()
	for _, s := range survivors {
		must(t, c.Bench.Driver.Disconnect(ctx, s.Node), "disconnect")
	}
	candidate, other = survivors[0], survivors[1]
	if other.ReplicationStatus(t).Received > candidate.ReplicationStatus(t).Received {
		candidate, other = other, candidate
	}
	return candidate, other
}

// succeed makes candidate the primary in place of the stopped one, which isn't
// touched but read, and has other follow it.
func (c *Cluster) succeed(t *testing.T, candidate, other *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), replicationDeadline)
	defer cancel()
	driver, dead, began := c.Bench.Driver, c.Primary, time.Now()
	if driver.CanDrain(c.Bench.Installation) {
		for range 2 {
			must(t, driver.Drain(ctx, dead.Node, candidate.Node), "drain")
		}
	}
	drained := time.Now()
	candidate.Node.Role, candidate.Node.Source = cluster.Primary, engine.Peer{}
	candidate.WriteFiles(t)
	must(t, driver.Promote(ctx, candidate.Node), "promote")
	t.Logf("drain (twice) %v, promote %v", drained.Sub(began).Round(time.Millisecond), time.Since(drained).Round(time.Millisecond))
	must(t, driver.Promote(ctx, candidate.Node), "promote again")
	if status := candidate.ReplicationStatus(t); !status.Writable || status.Streaming {
		t.Fatalf("the replication status of the promoted node: %+v", status)
	}
	c.Primary = candidate
	c.demote(t, other)
	other.follow(t)
}

// rejoin starts the former primary as a replica, copied anew only when it
// can't follow as it is, and reports whether it could.
func (c *Cluster) rejoin(t *testing.T, old *Server) (asItWas bool) {
	t.Helper()
	began := time.Now()
	if old.Running() {
		old.Stop(t)
	}
	c.demote(t, old)
	old.Start(t)
	_, err := c.Bench.Driver.Follow(t.Context(), old.Node)
	if err == nil {
		err = c.catchesUp(t, old)
	} else if !errors.Is(err, engine.ErrDiverged) {
		t.Fatalf("follow: %v", err)
	}
	if err == nil {
		t.Logf("the former primary streams after %v", time.Since(began).Round(time.Millisecond))
		return true
	}
	t.Logf("the former primary needs a new copy: %v", err)
	old.Kill(t)
	c.Recopy(t, old)
	return false
}

// catchesUp is nil once the replica has all that the primary has. That it streams
// is not enough: the primary may yet tell it that it has gone another way.
func (c *Cluster) catchesUp(t *testing.T, s *Server) error {
	t.Helper()
	want := c.Primary.ReplicationStatus(t).Received
	return poll(10*time.Second, func() error {
		status := s.ReplicationStatus(t)
		if !status.Streaming || status.Problem != "" || status.Writable || status.Applied < want {
			return fmt.Errorf("its replication status: %+v", status)
		}
		return nil
	})
}

// Recopy gives the stopped node a copy of the primary's data and starts it.
func (c *Cluster) Recopy(t *testing.T, s *Server) {
	t.Helper()
	dir := c.Primary.Node.Tmp + "/copy"
	must(t, os.Mkdir(dir, 0o700), "make folder for a copy")
	giveAway(t, dir, s.uid)
	ctx, cancel := context.WithTimeout(t.Context(), replicationDeadline)
	defer cancel()
	began := time.Now()
	must(t, c.Bench.Driver.BaseBackup(ctx, c.Primary.Node, dir, c.Primary.careful(t)), "base backup")
	t.Logf("base backup %v", time.Since(began).Round(time.Millisecond))
	must(t, os.RemoveAll(s.Node.Data), "remove the old data")
	must(t, os.Rename(dir, s.Node.Data), "put the copy in place")
	c.demote(t, s)
	s.Start(t)
	s.Bootstrap(t)
	s.follow(t)
	s.streams(t)
}

// Agrees waits until the node reads the same of the table kept as the primary.
func (c *Cluster) Agrees(t *testing.T, s *Server) {
	t.Helper()
	const query = "SELECT concat(count(*), ' rows, in sum ', coalesce(sum(v), 0)) FROM kept"
	own, primary := s.DB(t, s.Login()), c.Primary.DB(t, c.Primary.Login())
	defer own.Close()
	defer primary.Close()
	await.NoError(t, "nodes agree", func() error {
		// A writer that was stopped may leave a row that is committed later.
		var got, want string
		must(t, own.QueryRowContext(t.Context(), query).Scan(&got), query)
		must(t, primary.QueryRowContext(t.Context(), query).Scan(&want), query)
		if got != want {
			return fmt.Errorf("node %d has %s, the primary %s", s.Node.Ordinal, got, want)
		}
		return nil
	})
}

// longestPause is between two looks at what a test waits for: on a busy machine those who
// look often take the processor from whom they wait for.
const longestPause = 50 * time.Millisecond

// poll tries until there is no error, or too late.
func poll(limit time.Duration, check func() error) error {
	deadline := time.Now().Add(limit)
	for pause := 2 * time.Millisecond; ; pause = min(pause*2, longestPause) { // many a check logs in
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}
