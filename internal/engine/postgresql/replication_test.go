package postgresql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

func replicationChecks() []enginetest.Check {
	all := []enginetest.Check{
		{Name: "three nodes: what replicas have, and a primary left behind", Run: onOneCluster(
			clusterPart{"a primary that starts as a replica is promoted", promotedAfterStart},
			clusterPart{"a started replica knows what it has", knowsWhatItHas},
			clusterPart{"a base backup is whole whatever is written meanwhile", baseBackupBesideRewrites},
			clusterPart{"drain of much", drainOfMuch},
			clusterPart{"a replica is on its source's way while it turns there", turnsMeanwhile},
			clusterPart{"follow tells of a primary that wasn't drained", notDrained},
		)},
		{Name: "three nodes: replicas that can't follow, and readers of one that can", Run: onOneCluster(
			clusterPart{"disconnect waits for the source to go", disconnectGivesUp},
			clusterPart{"follow tells of another cluster, whose tablespaces can't be copied", followTellsOfAnother},
			clusterPart{"follow tells of WAL that is gone", walIsGone},
			clusterPart{"follow tells of another way", followTells},
			clusterPart{"readers give way to a promotion", readersGiveWay},
		)},
	}
	if enginetest.Thorough() { // the suite's failovers prove it of four
		all = append(all, enginetest.Check{Name: "a killed primary always comes back as it was", Run: comesBackAsItWas})
	}
	return all
}

// clusterPart is one of several that share a cluster of three.
type clusterPart struct {
	name string
	run  func(t *testing.T, c *enginetest.Cluster)
}

// onOneCluster is a check of parts that share a cluster, which begin with a primary and two replicas that follow it, unless said
// otherwise. After one that failed the others would prove nothing.
func onOneCluster(parts ...clusterPart) func(t *testing.T, b *enginetest.Bench) {
	return func(t *testing.T, b *enginetest.Bench) {
		c := b.ThreeNodes(t, func(n *engine.Node) { n.Plan.DiskMB = 5120 }) // the less WAL is kept
		for _, p := range parts {
			if !t.Run(p.name, func(t *testing.T) { p.run(t, c) }) {
				return
			}
		}
	}
}

// replicas are the nodes other than the primary.
func replicas(c *enginetest.Cluster) []*enginetest.Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(s *enginetest.Server) bool { return s == c.Primary })
}

// rejoin has the replicas, of which some may not run, follow the primary, and waits until they have what it has.
func rejoin(t *testing.T, c *enginetest.Cluster) {
	t.Helper()
	for _, s := range replicas(c) {
		s.Node.Role, s.Node.Source = cluster.Replica, peer(c.Primary)
		s.WriteFiles(t)
		if !s.Running() {
			s.Start(t)
		}
		if _, err := s.Bench.Driver.Follow(t.Context(), s.Node); err != nil {
			t.Fatal(err)
		}
		await.True(t, "the replica streams", func() bool {
			status := s.ReplicationStatus(t)
			return status.Streaming && status.Applied >= c.Primary.ReplicationStatus(t).Received
		})
	}
}

func peer(s *enginetest.Server) engine.Peer {
	return engine.Peer{Ordinal: s.Node.Ordinal, Listen: s.Node.Listen, Run: s.Node.Run}
}

// comesBackAsItWas is why there is no pg_rewind: what is drained leaves the old
// primary with nothing of its own.
func comesBackAsItWas(t *testing.T, b *enginetest.Bench) {
	c := b.ThreeNodes(t)
	c.Primary.Exec(t, "CREATE TABLE kept (v int PRIMARY KEY)")
	for round := range 10 {
		if !c.Failover(t, round, true) {
			t.Errorf("round %d: the killed primary needed a new copy", round)
		}
	}
}

// cut leaves a replica without a source.
func cut(t *testing.T, s *enginetest.Server) {
	t.Helper()
	s.Node.Source.Run = s.Node.Tmp
	s.WriteFiles(t)
	if _, err := s.Bench.Driver.Reload(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.Bench.Driver.Disconnect(ctx, s.Node); err != nil {
		t.Fatal(err)
	}
}

// drainOfMuch has both replicas miss many segments, some cut short, some of them
// made of records that span several.
func drainOfMuch(t *testing.T, c *enginetest.Cluster) {
	c.Primary.Exec(t, "DROP TABLE IF EXISTS kept", "CREATE TABLE kept (v int PRIMARY KEY)", "CREATE TABLE big (v text)")
	for _, s := range replicas(c) {
		cut(t, s)
	}
	c.Primary.Exec(t, "INSERT INTO big SELECT repeat(md5(g::text), 100) FROM generate_series(1, 5000) g")
	one(t, c.Primary, "SELECT pg_switch_wal()")
	// One record of 9 MB, in segments of 4.
	one(t, c.Primary, "SELECT pg_logical_emit_message(false, 'steward', repeat('x', 9000000))")
	c.Primary.Exec(t, "INSERT INTO big SELECT repeat(md5(g::text), 100) FROM generate_series(1, 2000) g")
	if !c.Failover(t, 0, true) {
		t.Error("the killed primary needed a new copy")
	}
	if got := c.Primary.Text(t, "SELECT count(*) FROM big"); got != "7000" {
		t.Errorf("%s rows, want 7000", got)
	}
	temps, err := filepath.Glob(filepath.Join(c.Primary.Node.Data, "pg_wal", drainPrefix+"*"))
	if err != nil || len(temps) > 0 {
		t.Errorf("draining left %v, %v", temps, err)
	}
}

// readersGiveWay has a reader on the replica stand in the way of what is left to
// apply.
func readersGiveWay(t *testing.T, c *enginetest.Cluster) {
	c.Primary.Exec(t, "CREATE TABLE read (v int PRIMARY KEY)")
	candidate := c.Nodes[2]
	candidateHas(t, candidate, "SELECT count(*) FROM pg_class WHERE relname = 'read'", "1")
	reader := candidate.DB(t, candidate.Login())
	tx, err := reader.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "SELECT * FROM read"); err != nil {
		t.Fatal(err)
	}
	c.Primary.Exec(t, "DROP TABLE read", "CREATE TABLE after_it (v int)")
	candidateHas(t, candidate, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'startup'
		AND (wait_event_type = 'Lock' OR wait_event LIKE 'RecoveryConflict%')`, "1")
	if status := candidate.ReplicationStatus(t); status.Lag == 0 || status.Applied >= status.Received {
		t.Errorf("a replica held up has the replication status %+v", status)
	}
	c.Primary.Kill(t)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Bench.Driver.Disconnect(ctx, candidate.Node); err != nil {
		t.Fatal(err)
	}
	candidate.Node.Role, candidate.Node.Source = cluster.Primary, engine.Peer{}
	candidate.WriteFiles(t)
	if err := c.Bench.Driver.Promote(ctx, candidate.Node); err != nil {
		t.Fatal(err)
	}
	t.Logf("promoted after %v", time.Since(began).Round(time.Millisecond))
	if got := candidate.Text(t, "SELECT count(*) FROM after_it"); got != "0" {
		t.Errorf("count is %s", got)
	}
}

// candidateHas waits until a query in defaultdb answers like that.
func candidateHas(t *testing.T, s *enginetest.Server, sql, want string) {
	t.Helper()
	conn, err := connect(t.Context(), login{
		host: s.Node.Run, port: s.Node.Listen.Port(), user: adminRole,
		password: s.Node.AdminPassword, database: firstDatabase, parameters: ownParameters(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		rows, err := query(ctx, conn, sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if rows[0][0] == want {
			return
		}
		if err := pause(ctx); err != nil {
			t.Fatalf("%s: %v, want %s", sql, rows, want)
		}
	}
}

// followTells has a replica become a primary on its own, and go on from there.
func followTells(t *testing.T, c *enginetest.Cluster) {
	stray := c.Nodes[1]
	source := stray.Node.Source
	cut(t, stray)
	if err := c.Bench.Driver.Promote(t.Context(), stray.Node); err != nil {
		t.Fatal(err)
	}
	stray.Exec(t, "CREATE TABLE own (v int)")
	stray.Stop(t)
	stray.Node.Role, stray.Node.Source = cluster.Replica, source
	stray.WriteFiles(t)
	stray.Start(t)
	wantDiverged(t, stray)
}

// followTellsOfAnother points a replica at a server of another cluster, and back.
func followTellsOfAnother(t *testing.T, c *enginetest.Cluster) {
	other := c.Bench.Started(t, func(n *engine.Node) { n.ClusterSize = 3 })
	replica := c.Nodes[2]
	replica.Node.Source = engine.Peer{Listen: other.Node.Listen, Run: other.Node.Run}
	replica.WriteFiles(t)
	wantDiverged(t, replica)
	tablespaceRefused(t, other)
	rejoin(t, c)
}

func wantDiverged(t *testing.T, s *enginetest.Server) {
	t.Helper()
	for range 2 {
		_, err := s.Bench.Driver.Follow(t.Context(), s.Node)
		if !errors.Is(err, engine.ErrDiverged) {
			t.Errorf("follow: %v, want ErrDiverged", err)
		}
	}
}

// walIsGone has a replica miss more than is kept. A new copy helps.
func walIsGone(t *testing.T, c *enginetest.Cluster) {
	away := c.Nodes[1]
	source := away.Node.Source
	cut(t, away)
	conn, err := asOurs(t.Context(), c.Primary.Node)
	if err != nil {
		t.Fatal(err)
	}
	defer closeSoon(t.Context(), conn)
	for range 70 { // 64 are kept
		if _, err := query(t.Context(), conn, "SELECT pg_logical_emit_message(false, 'steward', 'x') < pg_switch_wal()"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := query(t.Context(), conn, "CHECKPOINT"); err != nil {
		t.Fatal(err)
	}
	away.Node.Source = source
	away.WriteFiles(t)
	wantDiverged(t, away)
	if !c.Nodes[2].ReplicationStatus(t).Streaming {
		t.Error("the other replica has lost its source")
	}
	away.Kill(t)
	c.Recopy(t, away)
}

// turnsMeanwhile has a replica turn to the timeline of a new primary, and apply what that brings, between the two questions that it is asked.
func turnsMeanwhile(t *testing.T, c *enginetest.Cluster) {
	dead, candidate, other := c.Primary, replicas(c)[0], replicas(c)[1]
	conn, asked := beforeSecond(t, other, func() {
		dead.Kill(t)
		if err := c.Bench.Driver.Drain(t.Context(), dead.Node, candidate.Node); err != nil {
			t.Error(err)
		}
		candidate.Node.Role, candidate.Node.Source = cluster.Primary, engine.Peer{}
		candidate.WriteFiles(t)
		if err := c.Bench.Driver.Promote(t.Context(), candidate.Node); err != nil {
			t.Error(err)
		}
		c.Primary = candidate
		candidate.Exec(t, "CREATE TABLE turned (v int)")
		rejoin(t, c)
	})
	was, err := askDescent(t.Context(), conn)
	if err != nil || *asked != 2 {
		t.Fatalf("%d questions, %v", *asked, err)
	}
	source, err := asOurs(t.Context(), candidate.Node)
	if err != nil {
		t.Fatal(err)
	}
	defer closeSoon(t.Context(), source)
	is, err := askDescent(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	if err := was.partsFrom(is); err != nil {
		t.Errorf("%v, of %+v, whose source is %+v", err, was, is)
	}
}

// beforeSecond is a session that does something before it sends its second question, and counts them.
func beforeSecond(t *testing.T, s *enginetest.Server, do func()) (conn *pgconn.PgConn, asked *int) {
	t.Helper()
	conn, err := asOurs(t.Context(), s.Node)
	if err != nil {
		t.Fatal(err)
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	counted := &questions{Conn: hijacked.Conn, beforeSecond: do}
	hijacked.Conn, hijacked.Frontend = counted, pgproto3.NewFrontend(counted, counted)
	if conn, err = pgconn.Construct(hijacked); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSoon(context.WithoutCancel(t.Context()), conn) })
	return conn, &counted.asked
}

// questions is a connection that counts what is sent.
type questions struct {
	net.Conn

	asked        int
	beforeSecond func()
}

func (q *questions) Write(p []byte) (int, error) {
	if q.asked++; q.asked == 2 {
		q.beforeSecond()
	}
	return q.Conn.Write(p)
}

// notDrained leaves the killed primary with changes nobody has.
func notDrained(t *testing.T, c *enginetest.Cluster) {
	dead, candidate, other := c.Primary, replicas(c)[0], replicas(c)[1]
	cut(t, candidate)
	dead.Exec(t, "CREATE TABLE lost (v int)")
	candidateHas(t, other, "SELECT count(*) FROM pg_class WHERE relname = 'lost'", "1")
	dead.Kill(t)
	candidate.Node.Role, candidate.Node.Source = cluster.Primary, engine.Peer{}
	candidate.WriteFiles(t)
	if err := c.Bench.Driver.Promote(t.Context(), candidate.Node); err != nil {
		t.Fatal(err)
	}
	candidate.Exec(t, "CREATE TABLE taken (v int)")
	for _, s := range []*enginetest.Server{dead, other} {
		s.Node.Role, s.Node.Source = cluster.Replica, peer(candidate)
		s.WriteFiles(t)
	}
	dead.Start(t)
	wantDiverged(t, dead)
	// The other replica has what is lost, too.
	wantDiverged(t, other)
}

func tablespaceRefused(t *testing.T, s *enginetest.Server) {
	t.Helper()
	space, dir := filepath.Join(s.Node.Tmp, "space"), t.TempDir()
	for _, q := range []string{
		"COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; mkdir " + space + "'",
		"CREATE TABLESPACE space LOCATION '" + space + "'",
	} {
		if _, err := ask(t.Context(), s.Node, q); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Bench.Driver.BaseBackup(t.Context(), s.Node, dir, nil)
	if err == nil || !strings.Contains(err.Error(), "tablespaces") {
		t.Errorf("base backup: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("a refused base backup left %v, %v", entries, err)
	}
}

// baseBackupBesideRewrites copies a server while files grow, come and go, and pages are
// written to disk: what becomes of the copy has no damaged page, and its indexes
// agree with its tables.
func baseBackupBesideRewrites(t *testing.T, c *enginetest.Cluster) {
	c.Primary.Exec(t, "DROP TABLE IF EXISTS kept", "CREATE TABLE kept (v int PRIMARY KEY, pad text DEFAULT repeat('x', 300))",
		"INSERT INTO kept SELECT generate_series(1, 20000)")
	db := c.Primary.DB(t, c.Primary.Login())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	busy := make(chan error)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			// A table of its own is rewritten: what is missed in the other is seen.
			for _, statement := range []string{
				fmt.Sprintf("UPDATE kept SET pad = md5('%d') WHERE v %% 7 = %d", i, i%7), "CREATE TABLE coming AS SELECT * FROM kept WHERE v % 9 = 0",
				"INSERT INTO kept SELECT max(v) + 1 FROM kept", "VACUUM FULL coming", "DROP TABLE coming",
			} {
				_, failed := db.ExecContext(ctx, statement)
				err = errors.Join(err, failed)
			}
			_, failed := ask(ctx, c.Primary.Node, "CHECKPOINT")
			err = errors.Join(err, failed)
		}
		busy <- err
	}()
	copied := replicas(c)[0]
	copied.Kill(t)
	c.Recopy(t, copied)
	saysWhereToBegin(t, c.Primary)
	stop()
	if err := <-busy; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	await.True(t, "the statement that was cancelled to end", func() bool {
		return c.Primary.Text(t, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'dbadmin' AND state = 'active' AND pid <> pg_backend_pid()") == "0"
	})
	for _, s := range replicas(c) {
		c.Agrees(t, s)
		const content = "SELECT concat(count(*), ' rows like ', sum(hashtext(pad || v))) FROM kept"
		if got, want := s.Text(t, content), c.Primary.Text(t, content); got != want {
			t.Errorf("node %d has %s, the primary %s", s.Node.Ordinal, got, want)
		}
		if err := checkPages(t.Context(), s.Node); err != nil {
			t.Errorf("node %d: %v", s.Node.Ordinal, err)
		}
	}
}

// saysWhereToBegin: a copy without its label would begin with the last checkpoint,
// whatever files were copied before that.
func saysWhereToBegin(t *testing.T, s *enginetest.Server) {
	dir := t.TempDir()
	if err := s.Bench.Driver.BaseBackup(t.Context(), s.Node, dir, nil); err != nil {
		t.Fatal(err)
	}
	label, err := os.ReadFile(filepath.Join(dir, "backup_label"))
	_, file, _ := strings.Cut(string(label), "(file ")
	first, _, found := strings.Cut(file, ")")
	if err != nil || !found {
		t.Fatalf("%v: %s", err, label)
	}
	for _, name := range []string{standbySignal, Driver{}.ControlFile(), "pg_wal/" + first, "pg_wal/archive_status/" + first + ".done", "pg_notify"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"postmaster.pid", "pg_notify/0000", "pg_subtrans/0000"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is copied", name)
		}
	}
}

// knowsWhatItHas compares a replica before and after a crash, with its source gone.
func knowsWhatItHas(t *testing.T, c *enginetest.Cluster) {
	c.Primary.Exec(t, "DROP TABLE IF EXISTS kept", "CREATE TABLE kept (v int PRIMARY KEY)", "INSERT INTO kept SELECT generate_series(1, 50000)")
	end := c.Primary.ReplicationStatus(t).Received
	s := replicas(c)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for s.ReplicationStatus(t).Received < end {
		if err := pause(ctx); err != nil {
			t.Fatalf("the replica has the replication status %+v", s.ReplicationStatus(t))
		}
	}
	c.Primary.Kill(t)
	s.Kill(t)
	s.Start(t)
	// From its first answer on, while it may still be applying.
	if got := s.ReplicationStatus(t); got.Received < end {
		t.Errorf("a started replica has received %+v, before it was %v", got, lsn(end))
	}
	c.Primary.Start(t)
	rejoin(t, c)
}

func promotedAfterStart(t *testing.T, c *enginetest.Cluster) {
	c.Primary.Exec(t, "CREATE TABLE kept (v int PRIMARY KEY)")
	c.Primary.Stop(t)
	candidate := c.Nodes[1]
	candidate.Stop(t)
	candidate.Node.Role, candidate.Node.Source = cluster.Primary, engine.Peer{}
	candidate.WriteFiles(t)
	candidate.Start(t)
	candidate.Bootstrap(t)
	if candidate.ReplicationStatus(t).Writable {
		t.Error("it starts as a primary though it was never promoted")
	}
	if err := c.Bench.Driver.Promote(t.Context(), candidate.Node); err != nil {
		t.Fatal(err)
	}
	candidate.Exec(t, "INSERT INTO kept VALUES (1)")
	if _, err := os.Stat(filepath.Join(candidate.Node.Data, standbySignal)); err == nil {
		t.Error("a restart would make it a replica again")
	}
	candidate.Kill(t)
	candidate.Start(t)
	candidate.Exec(t, "INSERT INTO kept VALUES (2)")
	c.Primary = candidate
	rejoin(t, c)
}

// disconnectGivesUp while the source lives.
func disconnectGivesUp(t *testing.T, c *enginetest.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := c.Bench.Driver.Disconnect(ctx, c.Nodes[1].Node); err == nil {
		t.Error("a replica that receives counts as disconnected")
	}
	if !c.Nodes[1].ReplicationStatus(t).Streaming {
		t.Error("asking to disconnect ended the stream")
	}
}
