package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/engine"
)

// pitrCases are what every installation must pass whose servers keep what is to be
// archived until they are asked. Those that archive by themselves, while they run, are
// tried by the platform's tests.
func pitrCases(o Options) []Check {
	if o.NewUser == nil {
		return nil
	}
	return []Check{
		{"point in time", inTurn(func(t *testing.T, b *Bench) *Server { return b.archived(t) }, []part[*Server]{
			{"exactly what was there", pointInTime},
			{"under writes", pointInTimeUnderWrites},
		})},
		{"point in time: definers and users", pointInTimeKeepsUsers},
		{"point in time: what waits to be archived is bounded", archivingBounded},
		{"three nodes: point in time over a failover", pointInTimeOverFailover},
	}
}

// memoryArchive is a Sink that a recovery can read.
type memoryArchive struct {
	Sink
	position engine.ArchivePosition
}

func (v *memoryArchive) archived() engine.ArchiveSource {
	return engine.ArchiveSource{
		Names: func(_ context.Context, archiveID string) (names []string, err error) {
			for file := range v.Files {
				if len(file) > len(archiveID) && file[:len(archiveID)+1] == archiveID+" " {
					names = append(names, file[len(archiveID)+1:])
				}
			}
			return names, nil
		},
		Fetch: func(_ context.Context, archiveID, name string, out io.Writer) (bool, error) {
			content, ok := v.Files[archiveID+" "+name]
			if !ok {
				return false, nil
			}
			_, err := io.Copy(out, bytes.NewReader(content))
			return true, err
		},
	}
}

// archived starts a server that is archived continuously.
func (b *Bench) archived(t *testing.T, change ...func(*engine.Node)) *Server {
	t.Helper()
	return b.Started(t, append([]func(*engine.Node){archiving}, change...)...)
}

func archiving(n *engine.Node) { n.ArchiveDir = n.Tmp + "/wal" }

// archive archives everything that is there, as if a minute had passed.
func (s *Server) archive(t *testing.T, v *memoryArchive) error {
	t.Helper()
	s.age(t)
	ctx, cancel := context.WithTimeout(t.Context(), backupDeadline)
	defer cancel()
	var err error
	v.position, err = s.Bench.Driver.Upload(ctx, archivedNodes(s), v.position, v)
	return err
}

// archivedNodes are running servers to be archived.
func archivedNodes(servers ...*Server) []engine.ArchivedNode {
	var nodes []engine.ArchivedNode
	for _, s := range servers {
		running := func(context.Context) (engine.Node, bool, error) { return s.Node, true, nil }
		nodes = append(nodes, engine.ArchivedNode{Node: s.Node, Running: running})
	}
	return nodes
}

func (s *Server) archives(t *testing.T, v *memoryArchive) {
	t.Helper()
	must(t, s.archive(t, v), "archive")
}

// age makes the files of the data seem an hour old.
func (s *Server) age(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(s.Node.Data + "/*")
	must(t, err, "list data")
	then := time.Now().Add(-time.Hour)
	for _, f := range files {
		must(t, os.Chtimes(f, then, then), "age a file")
	}
}

// row inserts a row and returns a time after it and before any other row.
func (s *Server) row(t *testing.T, v int) time.Time {
	t.Helper()
	s.Exec(t, fmt.Sprintf("INSERT INTO kept VALUES (%d)", v))
	at := time.Now().Truncate(time.Second).Add(time.Second)
	await.NoError(t, "a point in time must have passed", func() error {
		if left := time.Until(at); left >= 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
	return at
}

// replay makes a server as of the point in time from the backup and the archive; it
// isn't started yet.
func (s *Server) replay(t *testing.T, file string, v *memoryArchive, until time.Time) (restored *Server, reached time.Time, err error) {
	t.Helper()
	restored = s.forRestore(t)
	driver := s.Bench.Driver
	f, err := os.Open(file)
	must(t, err, "open backup")
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), backupDeadline)
	defer cancel()
	must(t, os.RemoveAll(restored.Node.Data), "remove the old data")
	must(t, os.Mkdir(restored.Node.Data, 0o700), "make data folder")
	restoreDir := restored.Node.Tmp + "/restore"
	must(t, os.Mkdir(restoreDir, 0o700), "make restore directory")
	giveAway(t, restored.Node.Data, restored.uid)
	must(t, driver.UnpackToRecover(ctx, restored.Node, f, restored.Node.Data, restored.Pipe(t)), "unpack")
	restored.Node.Recovery = &engine.Recovery{Until: until, RestoreDir: restoreDir}
	start := func(_ context.Context, n engine.Node) error {
		restored.Node = n
		restored.WriteFiles(t)
		restored.Start(t)
		return nil
	}
	if reached, err = driver.Recover(ctx, restored.Node, v.archived(), start); err != nil {
		return restored, reached, err
	}
	left, err := filepath.Glob(restoreDir + "/*")
	must(t, err, "look at the restore directory")
	if len(left) > 1 { // the server's own index
		t.Logf("left in the restore directory: %v", left)
	}
	restored.Stop(t)
	must(t, driver.StartNewArchive(ctx, restored.Node, restored.Node.Data, restored.Pipe(t)), "start new archive")
	restored.Node.Recovery = nil
	must(t, os.RemoveAll(restoreDir), "remove restore directory")
	restored.wantOwned(t)
	restored.WriteFiles(t)
	return restored, reached, nil
}

// of demands exactly these rows at the point in time.
func (s *Server) of(t *testing.T, file string, v *memoryArchive, until time.Time, rows string) (restored *Server, reached time.Time) {
	t.Helper()
	restored, reached, err := s.replay(t, file, v, until)
	must(t, err, "replay")
	restored.Start(t)
	restored.Bootstrap(t)
	if got := restored.Text(t, "SELECT coalesce(group_concat(v ORDER BY v SEPARATOR ' '), '') FROM kept"); got != rows {
		t.Errorf("at %v there are the rows %s, want %s", until, got, rows)
	}
	return restored, reached
}

func pointInTime(t *testing.T, s *Server) {
	v := &memoryArchive{}
	s.Exec(t, createKept)
	s.row(t, 1)
	file := s.backup(t)
	two := s.row(t, 2)
	three := s.row(t, 3)
	s.archives(t, v)
	s.Exec(t, "CREATE TABLE more (v int PRIMARY KEY, filling longtext)", "INSERT INTO more VALUES (1, repeat('x', 17000000))")
	s.row(t, 4)
	s.archives(t, v)
	s.archives(t, v)
	if len(v.Files) != 2 || v.Gaps > 0 {
		t.Errorf("%d files were archived, %d losses", len(v.Files), v.Gaps)
	}
	restored, reached := s.of(t, file, v, two, "1 2")
	if !reached.Equal(two) {
		t.Errorf("at %v, want %v", reached, two)
	}
	last, reached := s.of(t, file, v, time.Now().Add(time.Hour), "1 2 3 4")
	if reached.Before(three) || reached.After(time.Now()) {
		t.Errorf("at %v, the last change is of about %v", reached, three)
	}
	if got := last.Text(t, "SELECT length(filling) FROM more"); got != "17000000" {
		t.Errorf("%s bytes", got)
	}
	if s.Bench.long() {
		// The recovered server has a history of its own, in which points in time can be restored as well.
		archiving(&restored.Node)
		own := &memoryArchive{Sink: Sink{Files: maps.Clone(v.Files)}}
		again := restored.backup(t)
		ten := restored.row(t, 10)
		restored.row(t, 11)
		restored.archives(t, own)
		restored.of(t, again, own, ten, "1 2 10")
	}
	s.gap(t, file, v, two)
}

// gap takes away what a point in time needs.
func (s *Server) gap(t *testing.T, file string, v *memoryArchive, before time.Time) {
	t.Helper()
	s.row(t, 5)
	s.archives(t, v)
	names := slices.Sorted(maps.Keys(v.Files))
	delete(v.Files, names[len(names)-2])
	if _, _, err := s.replay(t, file, v, time.Now()); !errors.Is(err, engine.ErrGap) {
		t.Errorf("beyond a gap: %v", err)
	}
	if s.Bench.long() {
		s.of(t, file, v, before, "1 2")
	}
}

// pointInTimeEncrypted has what was archived be readable without the server's key.
func pointInTimeEncrypted(t *testing.T, s *Server) {
	const secret = "a text that must not be read on the disk"
	v := &memoryArchive{}
	s.empty(t)
	s.Exec(t, "CREATE TABLE told (v text)")
	file := s.backup(t)
	s.Exec(t, "INSERT INTO told VALUES ('"+secret+"')", "CREATE TABLE later (v int)")
	s.customs(t)
	one := s.row(t, 1)
	s.row(t, 2)
	s.archives(t, v)
	found := false
	for _, content := range v.Files {
		found = found || bytes.Contains(content, []byte(secret))
	}
	if !found {
		t.Error("what was archived can't be read without the server's key")
	}
	restored, _ := s.of(t, file, v, one, "1 7")
	if got := restored.Text(t, "SELECT v FROM told"); got != secret {
		t.Errorf("%q", got)
	}
	restored.wantCustoms(t)
}

// pointInTimeUnderWrites: what was committed between a backup and the last log, while
// both were taken, is there once.
func pointInTimeUnderWrites(t *testing.T, s *Server) {
	v := &memoryArchive{}
	s.empty(t)
	l := s.write(t)
	l.reach(t, 200)
	file := s.backup(t)
	for range 3 {
		l.reach(t, l.count()+50)
		s.archives(t, v)
	}
	l.reach(t, l.count()+1) // for the last log to hold something
	rows := l.end()
	s.archives(t, v)
	restored, reached, err := s.replay(t, file, v, time.Now().Add(time.Hour))
	must(t, err, "replay")
	restored.Start(t)
	restored.Bootstrap(t)
	if lost := restored.missing(t, rows); lost > 0 || reached.After(time.Now()) || len(v.Files) < 4 {
		t.Errorf("%d of %d rows are missing, %d files, at %v", lost, len(rows), len(v.Files), reached)
	}
	const query = "SELECT count(*) FROM kept"
	if got, want := restored.Text(t, query), s.Text(t, query); got != want {
		t.Errorf("%s rows, the source has %s", got, want)
	}
	must(t, restored.check(t), "check")
}

// pointInTimeKeepsUsers: what was done after the backup comes out as its doers did it.
func pointInTimeKeepsUsers(t *testing.T, b *Bench) {
	s := b.archived(t)
	v := &memoryArchive{}
	s.Exec(t, createKept)
	file := s.backup(t)
	s.customs(t)
	s.row(t, 1)
	s.archives(t, v)
	restored, _ := s.of(t, file, v, time.Now(), "1 7")
	restored.wantCustoms(t)
}

// customs are what customers do that names who did it.
func (s *Server) customs(t *testing.T) {
	t.Helper()
	s.Exec(t, "CREATE VIEW seen AS SELECT v FROM kept", "CREATE PROCEDURE put() INSERT INTO kept VALUES (7)", "CALL put()")
	s.Exec(t, s.Bench.Options.NewUser(s.Bench.Installation)...)
}

// wantCustoms has a restored server's customs be those of who did them.
func (s *Server) wantCustoms(t *testing.T) {
	t.Helper()
	for _, query := range []string{
		"SELECT definer FROM information_schema.VIEWS WHERE table_name = 'seen'",
		"SELECT definer FROM information_schema.ROUTINES WHERE routine_name = 'put'",
	} {
		if got := s.Text(t, query); got != "dbadmin@%" {
			t.Errorf("%s: %s", query, got)
		}
	}
	must(t, s.TryLogin(t, Login{User: "newcomer", Password: "Newcomer-4Kq8", CA: s.CA}), "log in as a user made after the backup")
}

// archivingBounded: while nobody takes it no more than a tenth of the disk waits,
// and what had to go is told once.
func archivingBounded(t *testing.T, b *Bench) {
	s := b.archived(t, func(n *engine.Node) { n.Plan.DiskMB = 640 })
	v := &memoryArchive{Sink: Sink{Forgets: true}}
	s.Exec(t, "CREATE TABLE ballast (v int PRIMARY KEY, filling longtext)")
	s.archives(t, v)
	v.Refuse = errors.New("the bucket is away")
	for i := range 7 {
		s.Exec(t, fmt.Sprintf("INSERT INTO ballast VALUES (%d, repeat('x', 17000000))", i))
		if err := s.archive(t, v); !errors.Is(err, v.Refuse) {
			t.Fatalf("archive: %v", err)
		}
	}
	if v.Gaps != 1 || !v.position.GapReported {
		t.Errorf("told %d times", v.Gaps)
	}
	if bytes := s.logBytes(t); bytes > 100<<20 {
		t.Errorf("%d MB wait", bytes>>20)
	}
	v.Refuse = nil
	s.archives(t, v)
	if v.Gaps != 1 || v.position.GapReported {
		t.Errorf("told %d times", v.Gaps)
	}
	await.NoError(t, "purge what was archived", func() error { // a log that a crash needs stays for a moment
		s.archives(t, v)
		if bytes := s.logBytes(t); bytes > 1<<20 {
			return fmt.Errorf("%d MB stay", bytes>>20)
		}
		return nil
	})
}

func (s *Server) logBytes(t *testing.T) (total int64) {
	t.Helper()
	files, err := filepath.Glob(s.Node.Data + "/binlog.*")
	must(t, err, "list logs")
	for _, f := range files {
		info, err := os.Stat(f)
		must(t, err, "look at a log")
		total += info.Size()
	}
	return total
}

// pointInTimeOverFailover: the new primary archives from where it took over, and what
// only the dead one had is no part of the history, though it was archived.
func pointInTimeOverFailover(t *testing.T, b *Bench) {
	c := b.ThreeNodes(t, archiving)
	v := &memoryArchive{}
	c.Primary.Exec(t, createKept)
	replica := c.replicas()[0]
	await.NoError(t, "the table is replicated", func() error {
		if got, want := replica.ReplicationStatus(t).Applied, c.Primary.ReplicationStatus(t).Applied; got < want {
			return fmt.Errorf("it has %d of %d changes", got, want)
		}
		return nil
	})
	file := replica.backup(t)
	one := c.Primary.row(t, 1)
	c.Primary.archives(t, v)
	c.Primary.row(t, 2)
	for _, s := range c.replicas() {
		c.Agrees(t, s)
	}
	position, err := b.Driver.Upload(t.Context(), archivedNodes(c.Nodes...), v.position, v)
	must(t, err, "archive, and purge from replicas")
	v.position = position
	candidate, other := c.furthest(t)
	c.Primary.row(t, 3) // that no replica has
	c.Primary.archives(t, v)
	dead := c.Primary
	dead.Kill(t)
	for _, s := range c.Nodes {
		s.Node.Term = 1
	}
	c.succeed(t, candidate, other)
	candidate.archives(t, v)
	if b.long() {
		candidate.of(t, file, v, time.Now(), "1 2")
	}
	four := candidate.row(t, 4)
	candidate.row(t, 5)
	candidate.archives(t, v)
	if v.Gaps > 0 {
		t.Errorf("told of %d losses", v.Gaps)
	}
	candidate.of(t, file, v, four, "1 2 4")
	if !b.long() {
		return
	}
	candidate.of(t, file, v, one, "1")
	// A node that is a copy of another has no logs from before.
	c.Recopy(t, dead)
	candidate, other = dead, candidate
	_, _ = c.furthest(t)
	c.Primary.Kill(t)
	for _, s := range c.Nodes {
		s.Node.Term = 2
	}
	for _, s := range c.Nodes {
		if s != candidate && s != c.Primary {
			other = s
		}
	}
	c.succeed(t, candidate, other)
	six := candidate.row(t, 6)
	candidate.row(t, 7)
	candidate.archives(t, v)
	candidate.of(t, file, v, six, "1 2 4 5 6")
	if v.Gaps > 0 {
		t.Errorf("told of %d losses", v.Gaps)
	}
	again := candidate.backup(t)
	eight := candidate.row(t, 8)
	candidate.row(t, 9)
	candidate.archives(t, v)
	candidate.of(t, again, v, eight, "1 2 4 5 6 7 8")
}
