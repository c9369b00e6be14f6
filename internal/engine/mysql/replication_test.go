package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

// TestReplication runs clusters of three nodes of MariaDB. MySQL has those of the conformance suite.
func TestReplication(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *enginetest.Bench) {
		if onlyMariaDB(b) {
			replicate(t, b)
		}
	})
}

func replicate(t *testing.T, b *enginetest.Bench) {
	t.Helper()
	b.Case(t, "commits wait for a replica", func(t *testing.T, b *enginetest.Bench) { inTurn(t, b, newWaitingNodes(t, b), waitingParts) })
	b.Case(t, "commits wait for nobody", func(t *testing.T, b *enginetest.Bench) {
		c := newThreeNodes(t, b, cluster.Asynch)
		c.nodes[0].Exec(t, makeKept)
		inTurn(t, b, c, asynchronousParts)
	})
}

// TestReplicationThorough has what the conformance suite has much of, and for MySQL what MariaDB has in [TestReplication].
func TestReplicationThorough(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *enginetest.Bench) {
		if !onlyMariaDB(b) {
			replicate(t, b)
		}
		b.Case(t, "prepared replicas follow", func(t *testing.T, b *enginetest.Bench) { preparedReplicasFollow(t, b, cluster.SemiSynch) })
		b.Case(t, "prepared replicas follow, asynch", func(t *testing.T, b *enginetest.Bench) { preparedReplicasFollow(t, b, cluster.Asynch) })
		b.Case(t, "failover loses nothing, old primary comes back", failover)
		b.Case(t, "switchover loses nothing", switchover)
		b.Case(t, "base backup under writes", baseBackupUnderWrites)
		if onlyMariaDB(b) {
			b.Case(t, "source dies within a transaction", func(t *testing.T, b *enginetest.Bench) { diesWithin(t, newThreeNodes(t, b, cluster.Asynch)) })
		} else {
			b.Case(t, "a cluster grows", func(t *testing.T, b *enginetest.Bench) { failsOver(t, grown(t, b)) })
			b.Case(t, "a primary stops while writes wait", func(t *testing.T, b *enginetest.Bench) {
				c := newThreeNodes(t, b, cluster.SemiSynch)
				c.nodes[0].Exec(t, makeKept)
				for _, i := range c.replicas() {
					c.nodes[i].Kill(t)
				}
				stopsWhileWritesWait(t, c)
			})
		}
	})
}

// newWaitingNodes is a cluster that is encrypted where that is possible. MariaDB's has grown from one node.
func newWaitingNodes(t *testing.T, b *enginetest.Bench) *threeNodes {
	t.Helper()
	var change []func(*engine.Node)
	if b.Driver.EncryptionMissing(b.Installation) == "" {
		change = append(change, encryptedAlike(t))
	}
	if onlyMariaDB(b) {
		return grown(t, b, change...)
	}
	c := newThreeNodes(t, b, cluster.SemiSynch, change...)
	c.nodes[0].Exec(t, makeKept)
	c.agree(t)
	return c
}

// waitingParts are cases of one cluster, whose primary changes on the way and doesn't run any more at the end.
var waitingParts = []part[*threeNodes]{
	{name: "each node is what it shall be", run: asPrepared},
	{name: "replicas refuse writes, the account is out of reach", run: fencedReplicas},
	{name: "patch and password on a replica", run: replicaKept},
	{name: "events move with the primary", run: eventsMove},
	{name: "machine goes down under a replica with async flush", run: machineDown, only: engine.FlavourMySQL}, // replicas of the other sync each commit
	{name: "a cluster that has grown fails over", run: failsOver, only: engine.FlavourMariaDB},
	{name: "writes wait", run: writesWait},
}

// asynchronousParts are the same of one whose commits wait for nobody.
var asynchronousParts = []part[*threeNodes]{
	{name: "silently diverged replica is found", run: silentlyDiverged},
	{name: "a killed primary takes back what it cut", run: takesBack, only: engine.FlavourMariaDB}, // the other flavour cuts nothing
	{name: "diverged replica is detected and copied anew", run: diverged},
	{name: "a replica stops within a transaction", run: stopsWithin, only: engine.FlavourMySQL}, // which would wait for the rest
	{name: "source dies within a transaction", run: diesWithin, only: engine.FlavourMySQL},
}

// threeNodes is a cluster of three nodes; the first is the primary at its start.
type threeNodes struct {
	*enginetest.Bench
	nodes   []*enginetest.Server
	primary int
}

func newThreeNodes(t *testing.T, b *enginetest.Bench, kind cluster.Replication, change ...func(*engine.Node)) *threeNodes {
	t.Helper()
	c := &threeNodes{Bench: b}
	for i := range 3 {
		c.nodes = append(c.nodes, b.Server(t, append(change, func(n *engine.Node) {
			n.Ordinal, n.ClusterSize, n.Replication, n.Role = i, 3, kind, cluster.Replica
		})...))
	}
	for _, s := range c.nodes {
		s.Node.Cluster = c.nodes[0].Node.Cluster
	}
	c.shareCAs(t)
	c.setPrimary(t, 0)
	c.start(t)
	return c
}

// shareCAs makes each node's CA one that all of them verify by.
func (c *threeNodes) shareCAs(t *testing.T) {
	t.Helper()
	var authorities []byte
	for _, s := range c.nodes {
		ca, err := os.ReadFile(filepath.Join(s.Node.TLS, engine.TLSCA))
		noError(t, err)
		authorities = append(authorities, ca...)
	}
	for _, s := range c.nodes {
		noError(t, os.WriteFile(filepath.Join(s.Node.TLS, engine.TLSCA), authorities, 0o600))
	}
}

// start starts fresh nodes at once and has the replicas follow.
func (c *threeNodes) start(t *testing.T) {
	t.Helper()
	for _, s := range c.nodes[1:] {
		noError(t, c.Driver.PrepareReplica(t.Context(), c.nodes[0].Node.Data, s.Node.Data))
	}
	var wg sync.WaitGroup
	for _, s := range c.nodes {
		wg.Go(func() {
			s.Start(t)
			s.Bootstrap(t)
		})
	}
	wg.Wait()
	for i := range c.nodes {
		c.follow(t, i)
	}
	for i := range c.nodes {
		c.streams(t, i)
	}
}

// setPrimary says who is what from now on, in the files too.
func (c *threeNodes) setPrimary(t *testing.T, primary int) {
	t.Helper()
	c.primary = primary
	source := c.nodes[primary].Node
	for i, s := range c.nodes {
		s.Node.Role, s.Node.Source = cluster.Primary, engine.Peer{}
		if i != primary {
			s.Node.Role = cluster.Replica
			s.Node.Source = engine.Peer{Ordinal: primary, Listen: source.Listen, Run: source.Run}
		}
		s.WriteFiles(t)
	}
}

// follow has a replica follow; it does nothing to the primary.
func (c *threeNodes) follow(t *testing.T, i int) {
	t.Helper()
	if i != c.primary {
		_, err := c.Driver.Follow(t.Context(), c.nodes[i].Node)
		noError(t, err)
	}
}

func (c *threeNodes) status(t *testing.T, i int) engine.ReplicationStatus {
	t.Helper()
	st, err := c.Driver.ReplicationStatus(t.Context(), c.nodes[i].Node)
	noError(t, err)
	return st
}

func (c *threeNodes) streams(t *testing.T, i int) {
	t.Helper()
	if i == c.primary {
		return
	}
	await.NoError(t, fmt.Sprintf("node %d streams", i), func() error {
		if st := c.status(t, i); !st.Streaming {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
}

// agree waits until all nodes have what the primary has.
func (c *threeNodes) agree(t *testing.T) {
	t.Helper()
	for _, i := range c.replicas() {
		await.NoError(t, fmt.Sprintf("node %d has all", i), func() error {
			// A client that has gone may leave a write that ends later.
			st, want := c.status(t, i), c.status(t, c.primary)
			if st.Applied != want.Received || st.Received != st.Applied {
				return fmt.Errorf("%+v, primary %+v", st, want)
			}
			return nil
		})
	}
	rows := make([]string, 3)
	for i, s := range c.nodes {
		rows[i] = adminText(t, s, "SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(v), 0)) FROM defaultdb.kept")
	}
	if rows[0] != rows[1] || rows[0] != rows[2] {
		t.Errorf("the nodes' rows: %v", rows)
	}
}

// replicas are the indexes of the others.
func (c *threeNodes) replicas() []int {
	return []int{(c.primary + 1) % 3, (c.primary + 2) % 3}
}

// promoteBest compares the disconnected replicas and promotes the better one.
func (c *threeNodes) promoteBest(t *testing.T) {
	t.Helper()
	started := time.Now()
	r := c.replicas()
	for _, i := range r {
		noError(t, c.Driver.Disconnect(t.Context(), c.nodes[i].Node))
	}
	best, other := r[0], r[1]
	if c.status(t, best).Received < c.status(t, other).Received {
		best, other = other, best
	}
	c.setPrimary(t, best)
	followed := make(chan error, 1)
	go func() {
		_, err := c.Driver.Follow(t.Context(), c.nodes[other].Node)
		followed <- err
	}()
	noError(t, c.Driver.Promote(t.Context(), c.nodes[best].Node))
	t.Logf("promoted in %v", time.Since(started).Round(100*time.Microsecond))
	noError(t, <-followed)
	if st := c.status(t, best); !st.Writable || st.Received != st.Applied {
		t.Errorf("the promoted node: %+v", st)
	}
}

// writers insert numbers and remember which of them were acknowledged.
type writers struct {
	stop    context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	written []int64
	at      atomic.Pointer[target]
	last    time.Time
	gap     time.Duration
}

// target is where writers go: a copy, since the node's own description changes.
type target struct {
	node  engine.Node
	login enginetest.Login
}

// moveTo has the writers go on at another server.
func (w *writers) moveTo(s *enginetest.Server) { w.at.Store(&target{s.Node, s.Login()}) }

// writing starts four writers on the primary; at says where they go on.
func writing(t *testing.T, c *threeNodes) *writers {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &writers{stop: stop, last: time.Now()}
	w.moveTo(c.nodes[c.primary])
	var next atomic.Int64
	for range 4 {
		w.wg.Go(func() {
			for ctx.Err() == nil {
				w.session(ctx, w.at.Load(), &next)
			}
		})
	}
	await.True(t, "writers write", func() bool { return w.count() > 100 })
	return w
}

// session writes to one server until it refuses.
func (w *writers) session(ctx context.Context, at *target, next *atomic.Int64) {
	db, err := open(at.node, at.login)
	if err != nil {
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for ctx.Err() == nil && w.at.Load() == at {
		v := next.Add(1)
		if _, err := db.ExecContext(ctx, "INSERT INTO kept (v) VALUES (?)", v); err != nil {
			time.Sleep(10 * time.Millisecond) // a client that tries again
			return
		}
		w.mu.Lock()
		w.written = append(w.written, v)
		now := time.Now()
		w.gap, w.last = max(w.gap, now.Sub(w.last)), now
		w.mu.Unlock()
		time.Sleep(5 * time.Millisecond) // else they take the processor from whom the test waits for
	}
}

func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.written)
}

// forget begins to measure the longest gap anew.
func (w *writers) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gap = 0
}

// none of the acknowledged writes may be missing.
func (w *writers) check(t *testing.T, s *enginetest.Server) {
	t.Helper()
	w.stop()
	w.wg.Wait()
	rows, err := asAdmin(t, s).QueryContext(t.Context(), "SELECT v FROM defaultdb.kept")
	noError(t, err)
	defer rows.Close()
	there := map[int64]bool{}
	for rows.Next() {
		var v int64
		noError(t, rows.Scan(&v))
		there[v] = true
	}
	noError(t, rows.Err())
	lost := 0
	for _, v := range w.written {
		if !there[v] {
			lost++
		}
	}
	t.Logf("%d acknowledged writes, %d lost, longest gap %v", len(w.written), lost, w.gap.Round(time.Millisecond))
	if lost > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(w.written))
	}
}

const makeKept = "CREATE TABLE kept (id INT PRIMARY KEY AUTO_INCREMENT, v BIGINT)"

func preparedReplicasFollow(t *testing.T, b *enginetest.Bench, kind cluster.Replication) {
	started := time.Now()
	c := newThreeNodes(t, b, kind)
	t.Logf("three nodes in %v", time.Since(started).Round(time.Millisecond))
	c.nodes[0].Exec(t, makeKept)
	asPrepared(t, c)
	for _, i := range c.replicas() {
		c.nodes[i].Restart(t)
		c.follow(t, i)
		c.streams(t, i)
	}
	c.nodes[0].Exec(t, "INSERT INTO kept (v) VALUES (3)")
	c.agree(t)
	c.wantNothingToReload(t)
}

// asPrepared asks each node what it is.
func asPrepared(t *testing.T, c *threeNodes) {
	b := c.Bench
	c.nodes[0].Exec(t, "INSERT INTO kept (v) VALUES (1), (2)")
	c.agree(t)
	if st := c.status(t, 0); !st.Writable || st.Streaming || st.Problem != "" {
		t.Errorf("primary: %+v", st)
	}
	waits := map[bool]string{true: "ON", false: "OFF"}[c.nodes[0].Node.Replication == cluster.SemiSynch]
	source, replica := "Rpl_semi_sync_source_status", "Rpl_semi_sync_replica_status"
	if onlyMariaDB(b) {
		source, replica = "Rpl_semi_sync_master_status", "Rpl_semi_sync_slave_status"
	}
	if got := statusOf(t, c.nodes[0], source); got != waits {
		t.Errorf("%s: %s, want %s", source, got, waits)
	}
	for _, i := range c.replicas() {
		if st := c.status(t, i); st.Writable || st.Problem != "" || st.Lag != 0 {
			t.Errorf("replica: %+v", st)
		}
		if got := statusOf(t, c.nodes[i], replica); got != "ON" { // in any case: see replies
			t.Errorf("%s: %s, want ON", replica, got)
		}
	}
	c.wantNothingToReload(t)
}

// wantNothingToReload demands that each node runs with what its files say.
func (c *threeNodes) wantNothingToReload(t *testing.T) {
	t.Helper()
	for _, s := range c.nodes {
		if restart, err := c.Driver.Reload(t.Context(), s.Node); err != nil || restart {
			t.Errorf("reload: restart %v, %v", restart, err)
		}
	}
}

func statusOf(t *testing.T, s *enginetest.Server, name string) string {
	t.Helper()
	var variable, value string
	noError(t, asAdmin(t, s).QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&variable, &value))
	return value
}

func fencedReplicas(t *testing.T, c *threeNodes) {
	b := c.Bench
	refused(t, c.nodes[1].DB(t, c.nodes[1].Login()), "dbadmin", "INSERT INTO kept (v) VALUES (1)", "CREATE TABLE mine (v int)", "CREATE DATABASE mine")
	noError(t, b.Driver.SetReadOnly(t.Context(), c.nodes[1].Node, true))
	noError(t, b.Driver.SetReadOnly(t.Context(), c.nodes[1].Node, false))
	refused(t, c.nodes[1].DB(t, c.nodes[1].Login()), "dbadmin", "INSERT INTO kept (v) VALUES (1)")
	db := c.nodes[0].DB(t, c.nodes[0].Login())
	for _, host := range []string{"127.0.0.1", "127.%", "%"} {
		account := "'steward_replica'@'" + host + "'"
		attempts := []string{
			"CREATE USER " + account + " IDENTIFIED BY 'mine-Password-1'", "ALTER USER " + account + " IDENTIFIED BY 'mine-Password-1'",
			"SET PASSWORD FOR " + account + " = 'mine-Password-1'", "DROP USER " + account, "RENAME USER " + account + " TO 'mine'@'%'",
			"ALTER USER " + account + " ACCOUNT LOCK", "GRANT SELECT ON defaultdb.* TO " + account, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM " + account,
		}
		if !onlyMariaDB(b) && host != "127.0.0.1" {
			continue // another account, and one that comes after ours
		}
		refused(t, db, "dbadmin", attempts...)
	}
	if onlyMariaDB(b) {
		refused(t, db, "dbadmin", "CALL steward.create_user('steward_replica', 'mine-Password-1')", "CALL steward.set_password('steward_replica', 'mine-Password-1')",
			"CALL steward.drop_user('steward_replica')", "CALL steward.grant_database('defaultdb', 'steward_replica')", "CALL steward.revoke_database('defaultdb', 'steward_replica')")
	} else {
		c.nodes[0].Exec(t, "CREATE USER 'steward_replica'@'%' IDENTIFIED BY 'mine-Password-1'", "CREATE USER 'steward_replica'@'127.0.0.0/255.0.0.0' IDENTIFIED BY 'mine-Password-1'")
		c.nodes[0].Exec(t, "CREATE ROLE mine")
		refused(t, db, "dbadmin", "GRANT mine TO 'steward_replica'@'127.0.0.1'")
	}
	// A replica that has to log in again still can.
	for _, i := range c.replicas() {
		noError(t, b.Driver.Disconnect(t.Context(), c.nodes[i].Node))
		c.follow(t, i)
		c.streams(t, i)
	}
	c.nodes[0].Exec(t, "INSERT INTO kept (v) VALUES (1)")
	c.agree(t)
}

// withinTransaction does something as soon as a replica has received a part of a large transaction, and returns how
// the primary's commit of it ended.
func (c *threeNodes) withinTransaction(t *testing.T, replica int, do func()) error {
	t.Helper()
	source := c.nodes[c.primary]
	source.Exec(t, "CREATE TABLE IF NOT EXISTS kept (v INT)", "INSERT INTO kept (v) VALUES (1)", "DROP TABLE IF EXISTS large", "CREATE TABLE large (v longblob)")
	c.agree(t)
	const megabytes = 200
	before := c.relayed(t, replica)
	db := asAdmin(t, source)
	sent := make(chan error, 1)
	go func() {
		rows := strings.Repeat(", (REPEAT('x', 1 << 20))", megabytes-1)
		_, err := db.ExecContext(t.Context(), "INSERT INTO defaultdb.large VALUES (REPEAT('x', 1 << 20))"+rows)
		sent <- err
	}()
	await.True(t, "the transaction is on its way", func() bool { return c.relayed(t, replica) > before+1<<20 })
	do()
	got := c.relayed(t, replica) - before
	t.Logf("%d of %d MiB had come", got>>20, megabytes)
	if got > megabytes<<20 {
		t.Fatal("all of the transaction had come: nothing is proven")
	}
	return <-sent
}

// stopsWithin stops a replica that has received a part of a transaction, the rest of which doesn't come: Stop demands that it is quick.
func stopsWithin(t *testing.T, c *threeNodes) {
	source, i := c.nodes[c.primary], c.replicas()[0]
	err := c.withinTransaction(t, i, func() {
		source.Signal(t, syscall.SIGSTOP)
		defer source.Signal(t, syscall.SIGCONT)
		c.nodes[i].Stop(t)
	})
	noError(t, err)
	c.nodes[i].Start(t)
	c.follow(t, i)
	c.streams(t, i)
	c.agree(t)
}

// diesWithin kills a primary that has sent a part of a transaction: the replicas
// mustn't wait for the rest.
func diesWithin(t *testing.T, c *threeNodes) {
	dead := c.primary
	_ = c.withinTransaction(t, c.replicas()[0], func() { c.nodes[dead].Kill(t) }) // it may be committed already: it waits for nobody
	started := time.Now()
	c.promoteBest(t)
	const waitGroupDone = time.Minute // what MySQL waits for the rest of a transaction
	if took := time.Since(started); took > waitGroupDone/3 {
		t.Errorf("promoted after %v: it waited for the rest of a transaction", took)
	}
	c.nodes[c.primary].Exec(t, "INSERT INTO kept (v) VALUES (2)")
	c.streams(t, 3-dead-c.primary)
}

// relayed is how much of its source's log a replica has received, in bytes.
func (c *threeNodes) relayed(t *testing.T, i int) (size int64) {
	t.Helper()
	relays, err := filepath.Glob(filepath.Join(c.nodes[i].Node.Data, "*relay*"))
	noError(t, err)
	for _, file := range relays {
		info, err := os.Stat(file)
		if err == nil {
			size += info.Size()
		}
	}
	return size
}

func failover(t *testing.T, b *enginetest.Bench) {
	c := newThreeNodes(t, b, cluster.SemiSynch)
	c.nodes[0].Exec(t, makeKept)
	w := writing(t, c)
	for range 3 {
		dead := c.primary
		w.forget()
		c.nodes[dead].Kill(t)
		c.promoteBest(t)
		w.moveTo(c.nodes[c.primary])
		was := w.count()
		await.True(t, "writes go on", func() bool { return w.count() > was+50 })
		w.mu.Lock()
		t.Logf("longest gap %v", w.gap.Round(time.Millisecond))
		w.mu.Unlock()
		c.rejoin(t, dead)
	}
	w.check(t, c.nodes[c.primary])
	c.agree(t)
}

// rejoin has a killed primary come back, as it is if it can.
func (c *threeNodes) rejoin(t *testing.T, i int) {
	t.Helper()
	started := time.Now()
	s := c.nodes[i]
	s.Start(t)
	if st := c.status(t, i); st.Writable {
		t.Errorf("an old primary comes back writable: %+v", st)
	}
	_, err := c.Driver.Follow(t.Context(), s.Node)
	if errors.Is(err, engine.ErrDiverged) && !onlyMariaDB(c.Bench) {
		t.Logf("rebuilt: %v", err)
		c.recopy(t, i)
		_, err = c.Driver.Follow(t.Context(), s.Node)
	}
	noError(t, err)
	c.streams(t, i)
	t.Logf("back in %v", time.Since(started).Round(time.Millisecond))
}

// takesBack gives the killed primary a state without its last transactions, as
// its own recovery does when it starts as a replica: it has them from its candidate,
// under its own number.
func takesBack(t *testing.T, c *threeNodes) {
	was := c.primary
	old := c.nodes[was]
	old.Exec(t, "INSERT INTO kept (v) VALUES (1)")
	c.agree(t)
	old.Stop(t)
	before := old.Node.Data + ".before"
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", old.Node.Data, before).CombinedOutput(); err != nil {
		t.Fatalf("copy the data: %v: %s", err, out)
	}
	old.Start(t)
	old.Exec(t, "INSERT INTO kept (v) VALUES (2)", "INSERT INTO kept (v) VALUES (3)")
	for _, i := range c.replicas() {
		c.streams(t, i)
	}
	c.agree(t)
	old.Kill(t)
	c.promoteBest(t)
	noError(t, os.RemoveAll(old.Node.Data))
	noError(t, os.Rename(before, old.Node.Data))
	c.rejoin(t, was)
	c.agree(t)
}

// recopy gives a node a new copy of the primary's data.
func (c *threeNodes) recopy(t *testing.T, i int) {
	t.Helper()
	s, donor := c.nodes[i], c.nodes[c.primary]
	if s.Running() {
		s.Kill(t)
	}
	dir := filepath.Join(donor.Node.Tmp, "copy")
	noError(t, os.Mkdir(dir, 0o700))
	owner, err := os.Stat(donor.Node.Tmp)
	noError(t, err)
	stat := owner.Sys().(*syscall.Stat_t)
	noError(t, os.Chown(dir, int(stat.Uid), int(stat.Gid)))
	started := time.Now()
	noError(t, c.Driver.BaseBackup(t.Context(), donor.Node, dir, runAs(stat)))
	t.Logf("base backup in %v", time.Since(started).Round(time.Millisecond))
	noError(t, os.RemoveAll(s.Node.Data))
	noError(t, os.Rename(dir, s.Node.Data))
	if s.Node.Encrypted {
		noError(t, os.RemoveAll(s.Node.Keys))
		noError(t, os.CopyFS(s.Node.Keys, os.DirFS(donor.Node.Keys)))
	}
	s.WriteFiles(t)
	s.Start(t)
	s.Bootstrap(t)
	if s.Node.Encrypted {
		wantEncrypted(t, s)
	}
}

// runAs is the engine.Runner of an owner.
func runAs(owner *syscall.Stat_t) engine.Runner {
	return func(ctx context.Context, dir string, p engine.Process, stdin []byte) ([]byte, error) {
		cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
		cmd.Env, cmd.Dir, cmd.Stdin = p.Env, dir, bytes.NewReader(stdin)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
		}
		return cmd.CombinedOutput()
	}
}

func switchover(t *testing.T, b *enginetest.Bench) {
	c := newThreeNodes(t, b, cluster.SemiSynch)
	c.nodes[0].Exec(t, makeKept)
	w := writing(t, c)
	for range 2 {
		old := c.primary
		w.forget()
		started := time.Now()
		noError(t, b.Driver.StepDown(t.Context(), c.nodes[old].Node))
		t.Logf("stepped down in %v", time.Since(started).Round(100*time.Microsecond))
		final := c.status(t, old)
		if final.Writable {
			t.Errorf("stepped down: %+v", final)
		}
		for _, i := range c.replicas() {
			await.True(t, "replica has all", func() bool { return c.status(t, i).Received >= final.Received })
		}
		c.promoteBest(t)
		w.moveTo(c.nodes[c.primary])
		t.Logf("switched over in %v", time.Since(started).Round(100*time.Microsecond))
		was := w.count()
		await.True(t, "writes go on", func() bool { return w.count() > was+50 })
		c.follow(t, old)
		c.streams(t, old)
		w.mu.Lock()
		t.Logf("longest gap %v", w.gap.Round(time.Millisecond))
		w.mu.Unlock()
	}
	w.check(t, c.nodes[c.primary])
	c.agree(t)
}

func diverged(t *testing.T, c *threeNodes) {
	was := c.primary
	old := c.nodes[was]
	old.Exec(t, "INSERT INTO kept (v) VALUES (1)")
	c.agree(t)
	for _, i := range c.replicas() {
		noError(t, c.Driver.Disconnect(t.Context(), c.nodes[i].Node))
	}
	// What only the old primary has: more than the new one gets, as much, and less. MySQL's transactions say whose they
	// are, however many there are.
	old.Exec(t, "INSERT INTO kept (v) VALUES (2)", "INSERT INTO kept (v) VALUES (3)")
	old.Kill(t)
	c.promoteBest(t)
	values := []int{4, 5, 6}
	if !onlyMariaDB(c.Bench) {
		values = values[:1]
	}
	for _, value := range values {
		c.nodes[c.primary].Exec(t, fmt.Sprintf("INSERT INTO kept (v) VALUES (%d)", value))
		old.Start(t)
		for range 2 {
			await.True(t, "it is told that it has gone another way", func() bool {
				_, err := c.Driver.Follow(t.Context(), old.Node)
				if err != nil && !errors.Is(err, engine.ErrDiverged) {
					t.Fatalf("follow after going another way: %v, want ErrDiverged", err)
				}
				return err != nil // none while the source has yet to answer
			})
		}
		old.Kill(t)
	}
	c.recopy(t, was)
	c.follow(t, was)
	c.streams(t, was)
	c.nodes[c.primary].Exec(t, "INSERT INTO kept (v) VALUES (8)")
	c.agree(t)
}

func baseBackupUnderWrites(t *testing.T, b *enginetest.Bench) {
	c := newThreeNodes(t, b, cluster.SemiSynch)
	c.nodes[0].Exec(t, makeKept)
	c.agree(t)
	w := writing(t, c)
	for _, i := range []int{1, 2} {
		c.recopy(t, i)
		c.follow(t, i)
		c.streams(t, i)
		// A copy of a replica, and one that has been one, follows as well.
	}
	w.check(t, c.nodes[0])
	c.agree(t)
	c.nodes[0].Kill(t)
	c.promoteBest(t)
	c.rejoin(t, 0)
	c.nodes[c.primary].Exec(t, "INSERT INTO kept (v) VALUES (0)")
	c.agree(t)
}

// writesWait has no replica there, until the primary steps down, and until it stops; the conformance suite has it until one is back.
func writesWait(t *testing.T, c *threeNodes) {
	primary, r := c.nodes[c.primary], c.replicas()
	back := c.nodes[r[0]]
	back.Kill(t)
	primary.Exec(t, "INSERT INTO kept (v) VALUES (1)") // one is enough
	c.nodes[r[1]].Kill(t)
	// The write that waits is ended, neither acknowledged nor taken back.
	t.Run("until the primary steps down", func(t *testing.T) {
		done := c.waitingWrite(t, 2)
		started := time.Now()
		noError(t, c.Driver.StepDown(t.Context(), primary.Node))
		t.Logf("stepped down in %v", time.Since(started).Round(time.Millisecond))
		refused(t, primary.DB(t, primary.Login()), "dbadmin", "INSERT INTO kept (v) VALUES (-1)")
		primary.Stop(t)
		if err := <-done; err == nil {
			t.Error("a write that no replica has is acknowledged")
		}
		t.Logf("stopped after %v", time.Since(started).Round(time.Millisecond))
	})
	if !onlyMariaDB(c.Bench) {
		return // it is busy for ten seconds: see stopsWhileWritesWait
	}
	primary.Start(t)
	back.Start(t)
	noError(t, c.Driver.Promote(t.Context(), primary.Node))
	c.follow(t, r[0])
	c.streams(t, r[0])
	primary.Exec(t, "INSERT INTO kept (v) VALUES (0)")
	t.Run("until the primary stops", func(t *testing.T) {
		back.Kill(t)
		stopsWhileWritesWait(t, c)
	})
}

// stopsWhileWritesWait stops a primary none of whose replicas runs. Only MySQL waits for ten seconds then and acknowledges the
// write: it is durable here, and whoever wants more steps down first.
func stopsWhileWritesWait(t *testing.T, c *threeNodes) {
	done := c.waitingWrite(t, 3)
	started := time.Now()
	c.nodes[c.primary].Stop(t)
	if err := <-done; err == nil && onlyMariaDB(c.Bench) {
		t.Error("a write that no replica has is acknowledged")
	}
	t.Logf("stopped after %v", time.Since(started).Round(time.Millisecond))
}

// waitingWrite begins to insert the value and returns when that waits for a replica.
func (c *threeNodes) waitingWrite(t *testing.T, v int) (done <-chan error) {
	t.Helper()
	primary, ended := c.nodes[c.primary], make(chan error, 1)
	go func() {
		db, err := open(primary.Node, primary.Login())
		if err == nil {
			defer db.Close()
			_, err = db.ExecContext(context.WithoutCancel(t.Context()), fmt.Sprintf("INSERT INTO kept (v) VALUES (%d)", v))
		}
		ended <- err
	}()
	admin := asAdmin(t, primary)
	await.True(t, "the write waits", func() bool {
		var waiting int
		noError(t, admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE '%semi-sync%' AND INFO LIKE 'INSERT%'").Scan(&waiting))
		return waiting > 0
	})
	select {
	case err := <-ended:
		t.Fatalf("acknowledged with no replica: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if st := c.status(t, c.primary); !st.Writable {
		t.Errorf("primary: %+v", st)
	}
	return ended
}

// eventsMove: a customer's event runs on the primary alone, under the
// customer's name, wherever the primary is.
func eventsMove(t *testing.T, c *threeNodes) {
	b := c.Bench
	c.nodes[0].Exec(t, "SET SESSION sql_mode = 'ANSI_QUOTES'",
		"CREATE EVENT `odd ``name` ON SCHEDULE EVERY 1 SECOND DO INSERT INTO kept (v) VALUES (@@server_id)", "CREATE EVENT off ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO kept (v) VALUES (-1)")
	for _, next := range []int{1, 0} {
		eventRuns(t, c.nodes[c.primary])
		c.nodes[c.primary].Exec(t, "DELETE FROM kept WHERE v = @@server_id")
		noError(t, b.Driver.StepDown(t.Context(), c.nodes[c.primary].Node))
		old := c.primary
		final := c.status(t, old)
		for _, i := range c.replicas() {
			await.True(t, "replica has all", func() bool { return c.status(t, i).Applied >= final.Received })
			noError(t, b.Driver.Disconnect(t.Context(), c.nodes[i].Node))
		}
		c.setPrimary(t, next)
		for range 2 {
			noError(t, b.Driver.Promote(t.Context(), c.nodes[next].Node))
		}
		for i := range c.nodes {
			c.follow(t, i)
			c.streams(t, i)
		}
		eventRuns(t, c.nodes[next])
	}
	if got := adminText(t, c.nodes[0], "SELECT GROUP_CONCAT(DEFINER, STATUS ORDER BY EVENT_NAME) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'defaultdb'"); got != "dbadmin@%ENABLED,dbadmin@%DISABLED" {
		t.Errorf("events: %s", got)
	}
	if got := adminText(t, c.nodes[0], "SELECT SQL_MODE FROM information_schema.EVENTS WHERE EVENT_NAME LIKE 'odd%'"); got != "ANSI_QUOTES" {
		t.Errorf("the event's sql_mode: %s", got)
	}
	if got := adminText(t, c.nodes[0], "SELECT COUNT(*) FROM defaultdb.kept WHERE v = -1"); got != "0" {
		t.Error("a disabled event ran")
	}
	c.nodes[0].Exec(t, "DROP EVENT `odd ``name`", "DROP EVENT off")
	c.agree(t)
}

// eventRuns waits for a row that eventsMove's event has inserted here.
func eventRuns(t *testing.T, s *enginetest.Server) {
	t.Helper()
	admin := asAdmin(t, s)
	await.True(t, "the event runs on the primary", func() bool {
		var rows int
		noError(t, admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM defaultdb.kept WHERE v = @@server_id").Scan(&rows))
		return rows > 0
	})
}

// replicaKept: what belongs to a node works on a replica and is in no log.
func replicaKept(t *testing.T, c *threeNodes) {
	b := c.Bench
	s := c.nodes[1]
	was := c.status(t, 1).Position
	s.Node.RootPassword = "rotated-9sLx2Vn7Qd4"
	noError(t, b.Driver.SetRootPassword(t.Context(), s.Node))
	noError(t, b.Driver.VerifyRootPassword(t.Context(), s.Node))
	noError(t, b.Driver.VerifyRootPassword(t.Context(), c.nodes[0].Node))
	if onlyMariaDB(b) {
		admin := asAdmin(t, s)
		for _, q := range []string{"SET SESSION sql_log_bin = 0", "UPDATE steward.installed SET version = '10.0.1'", "DROP VIEW sys.version"} {
			_, err := admin.ExecContext(t.Context(), q)
			noError(t, err)
		}
	}
	noError(t, b.Driver.AfterPatch(t.Context(), s.Node))
	s.Bootstrap(t)
	if got := c.status(t, 1).Position; got != was {
		t.Errorf("position %s was %s", got, was)
	}
	s.Node.RootPassword = c.nodes[0].Node.RootPassword
	noError(t, b.Driver.SetRootPassword(t.Context(), s.Node))
	c.nodes[0].Exec(t, "INSERT INTO kept (v) VALUES (1)")
	c.agree(t)
}

// grown is a cluster of a node that has always been alone until it got replicas, without the customer
// losing anything.
func grown(t *testing.T, b *enginetest.Bench, change ...func(*engine.Node)) *threeNodes {
	t.Helper()
	s := b.Started(t, change...)
	s.Exec(t, makeKept, "INSERT INTO kept (v) VALUES (1)")
	c := &threeNodes{Bench: b, nodes: []*enginetest.Server{s}}
	for i := range 2 {
		c.nodes = append(c.nodes, b.Server(t, append(change, func(n *engine.Node) { n.Ordinal, n.Cluster = i+1, s.Node.Cluster })...))
	}
	c.shareCAs(t)
	for _, s := range c.nodes {
		s.Node.ClusterSize, s.Node.Replication = 3, cluster.SemiSynch
	}
	c.setPrimary(t, 0)
	restart, err := b.Driver.Reload(t.Context(), s.Node)
	noError(t, err)
	if restart {
		t.Error("growing needs a restart")
	}
	s.Bootstrap(t)
	for _, i := range c.replicas() {
		c.recopy(t, i)
		c.follow(t, i)
		c.streams(t, i)
	}
	noError(t, b.Driver.Promote(t.Context(), s.Node))
	if restart, err := b.Driver.Reload(t.Context(), s.Node); err != nil || restart {
		t.Errorf("reload: restart %v, %v", restart, err)
	}
	s.Exec(t, "INSERT INTO kept (v) VALUES (2)")
	c.agree(t)
	return c
}

// failsOver has a killed primary come back.
func failsOver(t *testing.T, c *threeNodes) {
	dead := c.primary
	c.nodes[dead].Kill(t)
	c.promoteBest(t)
	c.rejoin(t, dead)
	c.agree(t)
}

// machineDown pretends that a replica's last start was in another boot.
func machineDown(t *testing.T, c *threeNodes) {
	was, r := c.primary, c.replicas()[0]
	replica := c.nodes[r]
	otherBoot := func() {
		noError(t, os.WriteFile(filepath.Join(replica.Node.Data, "steward.relaxed"), []byte("another\n"), 0o644))
	}
	replica.Stop(t)
	otherBoot()
	replica.Start(t)
	c.follow(t, r)
	c.streams(t, r)
	replica.Kill(t)
	otherBoot()
	replica.Start(t)
	for range 2 {
		if _, err := c.Driver.Follow(t.Context(), replica.Node); !errors.Is(err, engine.ErrDiverged) {
			t.Errorf("follow after the machine went down: %v, want ErrDiverged", err)
		}
	}
	c.recopy(t, r)
	c.follow(t, r)
	c.streams(t, r)
	c.nodes[was].Kill(t)
	c.promoteBest(t)
	for _, i := range []int{was, c.primary} {
		if _, err := os.Stat(filepath.Join(c.nodes[i].Node.Data, "steward.relaxed")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("node %d, a primary, is noted as flushing asynchronously: %v", i, err)
		}
	}
	c.rejoin(t, was)
}

// encryptedAlike gives each node of a cluster the same key.
func encryptedAlike(t *testing.T) func(n *engine.Node) {
	t.Helper()
	var key []byte
	return func(n *engine.Node) {
		encrypted(t)(n)
		if key == nil {
			key = n.AtRestKey
		}
		n.AtRestKey = key
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
