package enginetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/engine"
)

// backupCases are what every installation must pass as an Archiver.
func backupCases() []Check {
	return []Check{
		{"backup under writes", func(t *testing.T, b *Bench) { backupUnderWrites(t, b.Started(t)) }},
		{"backup: what goes wrong", func(t *testing.T, b *Bench) {
			parts := []part[*Server]{
				{"damage is found", damageIsFound},
				{"a stream that is cut or changed", brokenStreams},
				{"it is cancelled", backupCancelled},
			}
			if !b.whole() && !b.long() {
				parts = parts[2:] // the flavour's own
			}
			inTurn(func(t *testing.T, b *Bench) *Server { return b.Started(t) }, parts)(t, b)
		}},
	}
}

// backupDeadline is for what takes seconds on a machine that isn't busy.
const backupDeadline = 3 * time.Minute

// wantNoPasswords: of what a program is started with, others see the command line,
// and whoever has the same user or what it starts the environment.
func (s *Server) wantNoPasswords(t *testing.T, p engine.Process) {
	t.Helper()
	passwords := []string{s.Node.AdminPassword, s.Node.RootPassword}
	wantNone(t, "command line of "+p.Argv[0], []byte(strings.Join(p.Argv, " ")), passwords)
	wantNone(t, "environment of "+p.Argv[0], []byte(strings.Join(p.Env, " ")), passwords)
}

// careful is the suite's engine.Runner for programs of a node that has its passwords.
func (s *Server) careful(t *testing.T) engine.Runner {
	return func(ctx context.Context, dir string, p engine.Process, stdin []byte) ([]byte, error) {
		s.wantNoPasswords(t, p)
		return run(ctx, dir, p, stdin)
	}
}

// Pipe is the suite's engine.Piper.
func (s *Server) Pipe(t *testing.T) engine.Piper {
	return func(ctx context.Context, dir string, p engine.Process, stdin io.Reader, stdout io.Writer) ([]byte, error) {
		s.wantNoPasswords(t, p)
		var said bytes.Buffer
		cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
		cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Env, dir, stdin, stdout, &said
		cmd.WaitDelay = 10 * time.Second
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if os.Geteuid() == 0 {
			info, err := os.Stat(dir)
			if err != nil {
				return nil, err
			}
			owner := info.Sys().(*syscall.Stat_t)
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
		}
		err := cmd.Run()
		const enough = 4000
		return said.Bytes()[max(0, said.Len()-enough):], err
	}
}

// backup writes the running server's backup to a file.
func (s *Server) backup(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), backupDeadline)
	defer cancel()
	file := s.base + "/backup"
	f, err := os.Create(file)
	must(t, err, "make file for a backup")
	defer f.Close()
	began := time.Now()
	must(t, s.Bench.Driver.Backup(ctx, s.Node, f, s.Pipe(t)), "backup")
	must(t, f.Close(), "close backup")
	info, err := os.Stat(file)
	must(t, err, "look at backup")
	t.Logf("backup of %d MB in %v", info.Size()>>20, time.Since(began).Round(time.Millisecond))
	s.wantCleanTmp(t)
	return file
}

// wantCleanTmp: what a backup leaves there would fill the disk one day.
func (s *Server) wantCleanTmp(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(s.Node.Tmp)
	must(t, err, "list temporary files")
	for _, e := range entries {
		// The servers' own.
		if !strings.HasPrefix(e.Name(), "#") && !strings.HasPrefix(e.Name(), "ib") && !strings.HasPrefix(e.Name(), "mysql_temptable") {
			t.Errorf("%s is left in the node's folder for temporary files", e.Name())
		}
	}
}

// unpack makes of the stream the data of a server that was never started.
func (s *Server) unpack(t *testing.T, r io.Reader) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), backupDeadline)
	defer cancel()
	must(t, os.RemoveAll(s.Node.Data), "remove the old data")
	must(t, os.Mkdir(s.Node.Data, 0o700), "make data folder")
	giveAway(t, s.Node.Data, s.uid)
	return s.Bench.Driver.Unpack(ctx, s.Node, r, s.Node.Data, s.Pipe(t))
}

// restore unpacks a file and leaves the server ready for its first start.
func (s *Server) restore(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err, "open backup")
	defer f.Close()
	began := time.Now()
	must(t, s.unpack(t, f), "unpack")
	t.Logf("unpacked in %v", time.Since(began).Round(time.Millisecond))
	s.wantOwned(t)
	s.WriteFiles(t)
}

// wantOwned: the server can't write what belongs to somebody else.
func (s *Server) wantOwned(t *testing.T) {
	t.Helper()
	must(t, filepath.WalkDir(s.Node.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != s.uid {
			t.Errorf("%s belongs to user %d", path, info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	}), "look through the unpacked data")
}

// Unhurried is a time for Check that nothing honest takes.
func Unhurried(int64) time.Duration { return time.Minute }

// check asks the driver.
func (s *Server) check(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), backupDeadline)
	defer cancel()
	return s.Bench.Driver.Check(ctx, s.Node, Unhurried)
}

// backupUnderWrites also restores. The restored server, which the disk guard makes read-only, is backed up again and
// restored with other passwords.
func backupUnderWrites(t *testing.T, s *Server) {
	// A database's folder must not be taken for a file of the server's own.
	s.empty(t)
	s.Exec(t, "CREATE DATABASE relay", "CREATE DATABASE binlog")
	s.ballast(t, 8)
	l := s.write(t)
	l.reach(t, 200)
	rows := l.snapshot()
	file := s.backup(t)
	l.reach(t, l.count()+50)
	l.end()
	restored := s.forRestore(t)
	restored.restore(t, file)
	restored.Start(t)
	restored.Bootstrap(t)
	restored.holds(t, rows)
	for _, database := range []string{"relay", "binlog"} {
		l := restored.Login()
		l.Database = database
		must(t, restored.TryLogin(t, l), "login to the database "+database)
	}
	must(t, restored.check(t), "check of the restored server")
	must(t, s.check(t), "check of the server that was backed up")
	restored.Exec(t, "INSERT INTO kept VALUES (-1)")
	restored.Kill(t)
	restored.Start(t)
	restored.holds(t, rows)
	if s.Node.Encrypted && !s.Bench.long() {
		return // the distribution's, not encrypted, is backed up again
	}
	restored.setReadOnly(t, true) // a full disk is no reason to go without
	again := restored.forRestore(t, func(n *engine.Node) {
		n.TemplatePassword = n.AdminPassword
		n.AdminPassword, n.RootPassword = "other-admin-2Jd8Rk", "other-root-5Pw9Xz"
	})
	again.restore(t, restored.backup(t))
	again.Start(t)
	again.Bootstrap(t)
	again.holds(t, rows)
	again.holds(t, map[int]bool{-1: true})
	again.Exec(t, "INSERT INTO kept VALUES (-2)")
	// A backup brings its accounts and passwords along, which Bootstrap replaces as it does a template's.
	must(t, again.Bench.Driver.VerifyRootPassword(t.Context(), again.Node), "login with the new password")
	if err := again.TryLogin(t, Login{User: "dbadmin", Password: s.Node.RootPassword, Database: "defaultdb", CA: again.CA}); err == nil {
		t.Error("the old password still works")
	}
}

// ballast makes a backup take a moment.
func (s *Server) ballast(t *testing.T, mb int) {
	t.Helper()
	s.Exec(t, "DROP TABLE IF EXISTS ballast", "CREATE TABLE ballast (v int PRIMARY KEY, filling varchar(1000))")
	for i := range mb {
		var values []string
		for j := range 1024 {
			random := make([]byte, 500)
			rand.Read(random)
			values = append(values, fmt.Sprintf("(%d, '%x')", i*1024+j, random))
		}
		s.Exec(t, "INSERT INTO ballast VALUES "+strings.Join(values, ","))
	}
}

// snapshot are the rows acknowledged so far.
func (l *load) snapshot() map[int]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acked)
}

// receives waits until the replica has all of the rows. One whose
// acknowledgement was cancelled may come on top.
func (s *Server) receives(t *testing.T, rows map[int]bool) {
	t.Helper()
	await.NoError(t, "the rows arrive", func() error {
		if n := s.missing(t, rows); n > 0 {
			return fmt.Errorf("%d of %d rows are missing", n, len(rows))
		}
		return nil
	})
}

func (s *Server) holds(t *testing.T, rows map[int]bool) {
	t.Helper()
	if n := s.missing(t, rows); n > 0 {
		t.Errorf("%d of %d rows are missing", n, len(rows))
	}
}

// forRestore is a server with all secrets of s, whose data is to come from a backup.
func (s *Server) forRestore(t *testing.T, change ...func(*engine.Node)) *Server {
	t.Helper()
	take := func(n *engine.Node) {
		n.AdminPassword, n.RootPassword, n.TemplatePassword = s.Node.AdminPassword, s.Node.RootPassword, s.Node.TemplatePassword
		if !s.Node.Encrypted {
			return
		}
		keyring, err := s.Bench.Driver.KeyringContent(s.Node)
		must(t, err, "keyring content")
		n.Encrypted, n.AtRestKey, n.Keyring, n.Keys = true, s.Node.AtRestKey, keyring, keyFolder(t)
	}
	return s.Bench.Server(t, append([]func(*engine.Node){take}, change...)...)
}

func keyFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "enginetest")
	must(t, err, "make key folder")
	return dir
}

// damageIsFound changes one byte of a row on the disk.
func damageIsFound(t *testing.T, s *Server) {
	const marker = "a text that only this row holds"
	s.ballast(t, 1)
	s.Exec(t, "UPDATE ballast SET filling = '"+marker+"' WHERE v = 500")
	file := s.backup(t)
	restored := s.forRestore(t)
	restored.restore(t, file)
	restored.flip(t, marker)
	err := restored.startAndCheck(t)
	if err == nil {
		t.Fatal("nobody finds the damage")
	}
	t.Logf("found: %v", err)
}

// flip changes the first letter of the text wherever tables hold it; logs are
// left alone, since nobody reads them any more.
func (s *Server) flip(t *testing.T, text string) {
	t.Helper()
	flipped := 0
	var search search
	must(t, filepath.WalkDir(s.Node.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "pg_wal" || d.Name() == "#innodb_redo") {
			return filepath.SkipDir
		}
		if d.IsDir() || strings.HasPrefix(d.Name(), "ib_logfile") || strings.HasPrefix(d.Name(), "undo") {
			return nil
		}
		if held, err := search.file(path, text); err != nil || len(held) == 0 {
			return err
		}
		content, err := os.ReadFile(path)
		at := bytes.Index(content, []byte(text))
		if err != nil || at < 0 {
			return err
		}
		flipped++
		content[at] ^= 1
		return os.WriteFile(path, content, d.Type().Perm())
	}), "damage a file")
	if flipped == 0 {
		t.Fatal("no file holds the row")
	}
}

// startAndCheck takes a server that refuses to start as an answer, too.
func (s *Server) startAndCheck(t *testing.T) error {
	t.Helper()
	s.Launch(t)
	if err := poll(startDeadline, func() error {
		if !s.Running() {
			return nil
		}
		return s.Bench.Driver.Ping(t.Context(), s.Node)
	}); err != nil {
		return err
	}
	if !s.Running() {
		return errors.New("the server ended while starting")
	}
	return s.check(t)
}

// brokenStreams must not come out as data.
func brokenStreams(t *testing.T, s *Server) {
	f, err := os.Open(s.backup(t))
	must(t, err, "open backup")
	defer f.Close()
	info, err := f.Stat()
	must(t, err, "look at backup")
	restored := s.forRestore(t)
	size := info.Size()
	part := func(from, to int64) io.Reader { return io.NewSectionReader(f, from, to-from) }
	lengths, places := []int64{0, size / 2, size - 1}, []int64{size - 15}
	if s.Bench.long() {
		lengths, places = append(lengths, 1, 512, size/3, size-1<<20, size-1024, size-21, size-20), append(places, 100, size/3, size/2, size-5000)
	}
	for _, length := range lengths {
		if err := restored.unpack(t, part(0, length)); err == nil {
			t.Errorf("%d of %d bytes unpack as a whole", length, size)
		}
	}
	for _, at := range places {
		changed := make([]byte, 1)
		_, err := f.ReadAt(changed, at)
		must(t, err, "read backup")
		changed[0] ^= 1
		if err := restored.unpack(t, io.MultiReader(part(0, at), bytes.NewReader(changed), part(at+1, size))); err == nil {
			t.Errorf("a stream changed at byte %d of %d unpacks", at, size)
		}
	}
	broken := errors.New("the line is dead")
	dead := io.MultiReader(part(0, size/2), readerFunc(func([]byte) (int, error) { return 0, broken }))
	if err := restored.unpack(t, dead); !errors.Is(err, broken) {
		t.Errorf("unpack of a stream that can't be read on: %v", err)
	}
	must(t, restored.unpack(t, part(0, size)), "unpack the whole")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// backupCancelled cancels before anything is written, too, and has the writer
// fail. Afterwards all is as it was.
func backupCancelled(t *testing.T, s *Server) {
	b := s.Bench
	s.empty(t)
	s.ballast(t, 8)
	before := len(descendants(s.cmd.Process.Pid))
	delays, limits := []time.Duration{0, 40 * time.Millisecond}, []int{2 << 20}
	if b.long() {
		delays, limits = append(delays, 10*time.Millisecond, 160*time.Millisecond), append(limits, 1, 8<<20)
	}
	for _, delay := range delays {
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		err := b.Driver.Backup(ctx, s.Node, io.Discard, s.Pipe(t))
		cancel()
		t.Logf("cancelled after %v: %v", delay, err)
		s.wantCleanTmp(t)
	}
	for _, limit := range limits {
		ctx, cancel := context.WithCancel(t.Context())
		if err := b.Driver.Backup(ctx, s.Node, after(limit, func() error { cancel(); return nil }), s.Pipe(t)); err == nil {
			t.Error("a cancelled backup is good")
		}
		s.wantCleanTmp(t)
		full := errors.New("the disk is full")
		if err := b.Driver.Backup(t.Context(), s.Node, after(limit, func() error { return full }), s.Pipe(t)); err == nil {
			t.Error("a backup that couldn't be written is good")
		}
		s.wantCleanTmp(t)
	}
	await.NoError(t, "the server's processes end", func() error {
		if now := len(descendants(s.cmd.Process.Pid)); now > before {
			return fmt.Errorf("%d processes, %d before", now, before)
		}
		return nil
	})
	s.Exec(t, "INSERT INTO kept VALUES (1)", "ALTER TABLE kept ADD COLUMN more int")
	s.backup(t)
}

// after calls once so many bytes have been written.
func after(limit int, call func() error) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		limit -= len(p)
		if limit < 0 {
			if err := call(); err != nil {
				return 0, err
			}
		}
		return len(p), nil
	})
}

// backupOfReplica puts a replica's backup in the place of the primary's data.
// Replicas are copied anew from that; one that isn't must not follow.
func backupOfReplica(t *testing.T, c *Cluster) {
	b := c.Bench
	c.empty(t)
	l := c.Primary.write(t)
	l.reach(t, 200)
	rows := l.end()
	replica, other := c.replicas()[0], c.replicas()[1]
	replica.receives(t, rows)
	l = c.Primary.write(t)
	l.reach(t, 50)
	file := replica.backup(t)
	must(t, replica.check(t), "check of a replica")
	l.reach(t, l.count()+50)
	replica.receives(t, l.end())
	c.Primary.Kill(t)
	c.Primary.restore(t, file)
	c.Primary.Start(t)
	c.Primary.Bootstrap(t)
	must(t, b.Driver.Promote(t.Context(), c.Primary.Node), "promote the restored server, which is nothing to do")
	if status := c.Primary.ReplicationStatus(t); !status.Writable || status.Streaming {
		t.Errorf("the replication status of the restored server: %+v", status)
	}
	c.Primary.holds(t, rows)
	must(t, c.Primary.check(t), "check")
	c.Primary.Exec(t, "INSERT INTO kept VALUES (-1)")
	other.Kill(t)
	c.Recopy(t, other)
	c.Agrees(t, other)
	more := c.Primary.write(t)
	more.reach(t, 150)
	other.holds(t, rows)
	replica.Kill(t) // while it ran it may have come back to the address by itself
	replica.Start(t)
	replica.strays(t)
	newer := more.end()
	other.receives(t, newer)
	replica.keepsApart(t)
	if !b.long() {
		return // it would be copied as the other was
	}
	replica.Kill(t)
	c.Recopy(t, replica)
	replica.receives(t, newer)
}

// strays has a replica of the old history follow the server of the new one, which
// may tell it only a moment later that it can't.
func (s *Server) strays(t *testing.T) {
	t.Helper()
	_, err := s.Bench.Driver.Follow(t.Context(), s.Node)
	if err != nil && !errors.Is(err, engine.ErrDiverged) {
		t.Fatalf("follow: %v", err)
	}
	t.Logf("a replica with the old cluster's data: %v", err)
}

// keepsApart demands that it has taken nothing of what was written there, and
// doesn't go on listening.
func (s *Server) keepsApart(t *testing.T) {
	t.Helper()
	await.NoError(t, "a replica with the old cluster's data stops following the restored server", func() error {
		if status := s.ReplicationStatus(t); status.Streaming {
			return fmt.Errorf("its replication status: %+v", status)
		}
		return nil
	})
	if foreign := s.Text(t, "SELECT count(*) FROM kept WHERE v < 0"); foreign != "0" {
		t.Errorf("a replica with the old cluster's data has %s rows of the restored server", foreign)
	}
}
