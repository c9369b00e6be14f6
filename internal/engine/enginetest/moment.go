package enginetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"steward/internal/engine"
)

// momentCases are what every installation must pass whose driver is an engine.Feeder;
// the others hand over by themselves.
func momentCases(driver engine.Driver) []Check {
	if _, ok := driver.(engine.Feeder); !ok {
		return nil
	}
	return []Check{
		{"moments", func(t *testing.T, b *Bench) { moments(t, b.archived(t)) }},
		{"moments, encrypted", encryptedMoments},
		{"moments under writes", momentsUnderWrites},
		{"moments: definers and users", momentsKeepUsers},
		{"moments: what waits is bounded", handoverBounded},
		{"three nodes: moments over a failover", momentsOverFailover},
	}
}

// vault is where a cluster's primary hands over to.
type vault struct {
	files    map[string][]byte // by lineage and name
	handed   engine.Handed
	overflow int
	refuse   error
}

// Take is part of engine.Shipment.
func (v *vault) Take(_ context.Context, lineage, name string, r io.Reader) error {
	if v.refuse != nil {
		return v.refuse
	}
	content, err := io.ReadAll(r)
	if v.files == nil {
		v.files = map[string][]byte{}
	}
	v.files[lineage+" "+name] = content
	return err
}

// Overflowed is part of engine.Shipment.
func (v *vault) Overflowed(context.Context) error {
	v.overflow++
	return nil
}

func (v *vault) archived() engine.Archived {
	return engine.Archived{
		Names: func(_ context.Context, lineage string) (names []string, err error) {
			for file := range v.files {
				if len(file) > len(lineage) && file[:len(lineage)+1] == lineage+" " {
					names = append(names, file[len(lineage)+1:])
				}
			}
			return names, nil
		},
		Fetch: func(_ context.Context, lineage, name string, out io.Writer) (bool, error) {
			content, ok := v.files[lineage+" "+name]
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
	return b.Started(t, append([]func(*engine.Node){spooling}, change...)...)
}

func spooling(n *engine.Node) { n.Spool = n.Tmp + "/wal" }

// handOver has everything handed over that is there, as if a minute had passed.
func (s *Server) handOver(t *testing.T, v *vault) error {
	t.Helper()
	s.age(t)
	ctx, cancel := context.WithTimeout(t.Context(), backupDeadline)
	defer cancel()
	var err error
	v.handed, err = s.Bench.Driver.(engine.Feeder).HandOver(ctx, s.Node, v.handed, v)
	return err
}

func (s *Server) handsOver(t *testing.T, v *vault) {
	t.Helper()
	must(t, s.handOver(t, v), "hand over")
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

// row inserts a row and returns a moment after it that no other row comes before.
func (s *Server) row(t *testing.T, v int) time.Time {
	t.Helper()
	s.Exec(t, fmt.Sprintf("INSERT INTO kept VALUES (%d)", v))
	moment := time.Now().Truncate(time.Second).Add(time.Second)
	eventually(t, "a moment to come can't be restored", func() error {
		if left := time.Until(moment); left >= 0 {
			return fmt.Errorf("%v are left", left)
		}
		return nil
	})
	return moment
}

// replay makes a server of the moment from the backup and what was handed over; it
// isn't started yet.
func (s *Server) replay(t *testing.T, file string, v *vault, until time.Time) (restored *Server, reached time.Time, short bool, err error) {
	t.Helper()
	restored = s.forRestore(t)
	feeder := s.Bench.Driver.(engine.Feeder)
	f, err := os.Open(file)
	must(t, err, "open backup")
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), backupDeadline)
	defer cancel()
	must(t, os.RemoveAll(restored.Node.Data), "remove the old data")
	must(t, os.Mkdir(restored.Node.Data, 0o700), "make data folder")
	desk := restored.Node.Tmp + "/desk"
	must(t, os.Mkdir(desk, 0o700), "make desk")
	giveAway(t, restored.Node.Data, restored.uid)
	_, _, err = feeder.UnpackToRecover(ctx, restored.Node, f, restored.Node.Data, restored.Pipe(t))
	must(t, err, "unpack")
	restored.Node.Recovery = &engine.Recovery{Until: until, Desk: desk}
	restored.WriteFiles(t)
	restored.Start(t)
	if reached, short, err = feeder.Replay(ctx, restored.Node, v.archived()); err != nil {
		return restored, reached, short, err
	}
	left, err := filepath.Glob(desk + "/*")
	must(t, err, "look at the desk")
	if len(left) > 1 { // the server's own index
		t.Logf("left on the desk: %v", left)
	}
	restored.Stop(t)
	must(t, feeder.Sever(ctx, restored.Node, restored.Node.Data, restored.Pipe(t)), "sever")
	restored.Node.Recovery = nil
	must(t, os.RemoveAll(desk), "remove desk")
	restored.wantOwned(t)
	restored.WriteFiles(t)
	return restored, reached, short, nil
}

// of demands exactly these rows at the moment.
func (s *Server) of(t *testing.T, file string, v *vault, until time.Time, rows string) (restored *Server, reached time.Time, short bool) {
	t.Helper()
	restored, reached, short, err := s.replay(t, file, v, until)
	must(t, err, "replay")
	restored.Start(t)
	restored.Bootstrap(t)
	if got := restored.Text(t, "SELECT coalesce(group_concat(v ORDER BY v SEPARATOR ' '), '') FROM kept"); got != rows {
		t.Errorf("at %v there are the rows %s, want %s", until, got, rows)
	}
	return restored, reached, short
}

func moments(t *testing.T, s *Server) {
	v := &vault{}
	s.Exec(t, createKept)
	s.row(t, 1)
	file := s.backup(t)
	two := s.row(t, 2)
	three := s.row(t, 3)
	s.handsOver(t, v)
	s.Exec(t, "CREATE TABLE more (v int PRIMARY KEY, filling longtext)", "INSERT INTO more VALUES (1, repeat('x', 17000000))")
	s.row(t, 4)
	s.handsOver(t, v)
	s.handsOver(t, v)
	if len(v.files) != 2 || v.overflow > 0 {
		t.Errorf("%d files were handed over, %d losses", len(v.files), v.overflow)
	}
	restored, reached, short := s.of(t, file, v, two, "1 2")
	if short || !reached.Equal(two) {
		t.Errorf("at %v, short %t, want %v", reached, short, two)
	}
	last, reached, short := s.of(t, file, v, time.Now().Add(time.Hour), "1 2 3 4")
	if !short || reached.Before(three) || reached.After(time.Now()) {
		t.Errorf("at %v, short %t", reached, short)
	}
	if got := last.Text(t, "SELECT length(filling) FROM more"); got != "17000000" {
		t.Errorf("%s bytes", got)
	}
	// The recovered server has a history of its own, in which moments can be restored as well.
	spooling(&restored.Node)
	own := &vault{files: maps.Clone(v.files)}
	again := restored.backup(t)
	ten := restored.row(t, 10)
	restored.row(t, 11)
	restored.handsOver(t, own)
	restored.of(t, again, own, ten, "1 2 10")
	s.gap(t, file, v, two)
}

// gap takes away what a moment needs.
func (s *Server) gap(t *testing.T, file string, v *vault, before time.Time) {
	t.Helper()
	s.row(t, 5)
	s.handsOver(t, v)
	names := slices.Sorted(maps.Keys(v.files))
	delete(v.files, names[len(names)-2])
	if _, _, _, err := s.replay(t, file, v, time.Now()); !errors.Is(err, engine.ErrGap) {
		t.Errorf("beyond a gap: %v", err)
	}
	s.of(t, file, v, before, "1 2")
}

func encryptedMoments(t *testing.T, b *Bench) {
	if b.Driver.EncryptionMissing(b.Installation) != "" {
		return // the case of encryption at rest says why
	}
	const secret = "a text that must not be read on the disk"
	s := b.archived(t, func(n *engine.Node) {
		n.Encrypted, n.Keys, n.AtRestKey = true, keyFolder(t), make([]byte, 32)
		rand.Read(n.AtRestKey)
	})
	v := &vault{}
	s.Exec(t, createKept, "CREATE TABLE told (v text)")
	file := s.backup(t)
	s.Exec(t, "INSERT INTO told VALUES ('"+secret+"')", "CREATE TABLE later (v int)")
	one := s.row(t, 1)
	s.row(t, 2)
	s.handsOver(t, v)
	found := false
	for _, content := range v.files {
		found = found || bytes.Contains(content, []byte(secret))
	}
	if !found {
		t.Error("what was handed over can't be read without the server's key")
	}
	restored, _, _ := s.of(t, file, v, one, "1")
	if got := restored.Text(t, "SELECT v FROM told"); got != secret {
		t.Errorf("%q", got)
	}
}

// momentsUnderWrites: what was committed between a backup and the last log, while
// both were taken, is there once.
func momentsUnderWrites(t *testing.T, b *Bench) {
	s := b.archived(t)
	v := &vault{}
	s.Exec(t, createKept)
	l := s.write(t, 0)
	l.reach(t, 200)
	file := s.backup(t)
	for range 3 {
		l.reach(t, l.count()+200)
		s.handsOver(t, v)
	}
	rows := l.end()
	s.handsOver(t, v)
	restored, _, short, err := s.replay(t, file, v, time.Now().Add(time.Hour))
	must(t, err, "replay")
	restored.Start(t)
	restored.Bootstrap(t)
	if lost := restored.missing(t, rows); lost > 0 || !short || len(v.files) < 4 {
		t.Errorf("%d of %d rows are missing, %d files, short %t", lost, len(rows), len(v.files), short)
	}
	const query = "SELECT count(*) FROM kept"
	if got, want := restored.Text(t, query), s.Text(t, query); got != want {
		t.Errorf("%s rows, the source has %s", got, want)
	}
	must(t, restored.check(t), "check")
}

// momentsKeepUsers: what was done after the backup comes out as its doers did it.
func momentsKeepUsers(t *testing.T, b *Bench) {
	s := b.archived(t)
	v := &vault{}
	s.Exec(t, createKept)
	file := s.backup(t)
	s.Exec(t, "CREATE VIEW seen AS SELECT v FROM kept", "CREATE PROCEDURE put() INSERT INTO kept VALUES (7)", "CALL put()")
	s.Exec(t, b.Options.NewUser(b.Installation)...)
	s.row(t, 1)
	s.handsOver(t, v)
	restored, _, _ := s.of(t, file, v, time.Now(), "1 7")
	for _, query := range []string{
		"SELECT definer FROM information_schema.VIEWS WHERE table_name = 'seen'",
		"SELECT definer FROM information_schema.ROUTINES WHERE routine_name = 'put'",
	} {
		if got := restored.Text(t, query); got != "dbadmin@%" {
			t.Errorf("%s: %s", query, got)
		}
	}
	must(t, restored.TryLogin(t, Login{User: "newcomer", Password: "Newcomer-4Kq8", CA: restored.CA}), "log in as a user made after the backup")
}

// handoverBounded: while nobody takes it no more than a tenth of the disk waits,
// and what had to go is told once.
func handoverBounded(t *testing.T, b *Bench) {
	s := b.archived(t, func(n *engine.Node) { n.Plan.DiskMB = 640 })
	v := &vault{}
	s.Exec(t, "CREATE TABLE ballast (v int PRIMARY KEY, filling longtext)")
	s.handsOver(t, v)
	v.refuse = errors.New("the bucket is away")
	for i := range 7 {
		s.Exec(t, fmt.Sprintf("INSERT INTO ballast VALUES (%d, repeat('x', 17000000))", i))
		if err := s.handOver(t, v); !errors.Is(err, v.refuse) {
			t.Fatalf("hand over: %v", err)
		}
	}
	if v.overflow != 1 || !v.handed.Told {
		t.Errorf("told %d times", v.overflow)
	}
	if bytes := s.logBytes(t); bytes > 100<<20 {
		t.Errorf("%d MB wait", bytes>>20)
	}
	v.refuse = nil
	s.handsOver(t, v)
	if v.overflow != 1 || v.handed.Told {
		t.Errorf("told %d times", v.overflow)
	}
	must(t, poll(replicationDeadline, func() error { // a log that a crash needs stays for a moment
		s.handsOver(t, v)
		if bytes := s.logBytes(t); bytes > 1<<20 {
			return fmt.Errorf("%d MB stay", bytes>>20)
		}
		return nil
	}), "let go of what was handed over")
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

// momentsOverFailover: the new primary hands on from where it took over, and what
// only the dead one had is no part of the history, though it was handed over.
func momentsOverFailover(t *testing.T, b *Bench) {
	c := b.ThreeNodes(t, spooling)
	v := &vault{}
	c.Primary.Exec(t, createKept)
	replica := c.replicas()[0]
	must(t, poll(replicationDeadline, func() error {
		if got, want := replica.ReplicationStatus(t).Applied, c.Primary.ReplicationStatus(t).Applied; got < want {
			return fmt.Errorf("it has %d of %d changes", got, want)
		}
		return nil
	}), "the table is replicated")
	file := replica.backup(t)
	one := c.Primary.row(t, 1)
	c.Primary.handsOver(t, v)
	c.Primary.row(t, 2)
	for _, s := range c.replicas() {
		c.Agrees(t, s)
		must(t, b.Driver.(engine.Feeder).LetGo(t.Context(), s.Node, v.handed), "let go")
	}
	candidate, other := c.furthest(t)
	c.Primary.row(t, 3) // that no replica has
	c.Primary.handsOver(t, v)
	dead := c.Primary
	dead.Kill(t)
	for _, s := range c.Nodes {
		s.Node.Term = 1
	}
	c.succeed(t, candidate, other)
	candidate.handsOver(t, v)
	candidate.of(t, file, v, time.Now(), "1 2")
	four := candidate.row(t, 4)
	candidate.row(t, 5)
	candidate.handsOver(t, v)
	if v.overflow > 0 {
		t.Errorf("told of %d losses", v.overflow)
	}
	candidate.of(t, file, v, one, "1")
	candidate.of(t, file, v, four, "1 2 4")
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
	candidate.handsOver(t, v)
	candidate.of(t, file, v, six, "1 2 4 5 6")
	if v.overflow > 0 {
		t.Errorf("told of %d losses", v.overflow)
	}
	again := candidate.backup(t)
	eight := candidate.row(t, 8)
	candidate.row(t, 9)
	candidate.handsOver(t, v)
	candidate.of(t, again, v, eight, "1 2 4 5 6 7 8")
}
