package host_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/measure"
)

// TestArchiveWAL: what a server has left to be archived is uploaded. One that archives
// until its next restart keeps no WAL for an archive that nobody wants any more.
func TestArchiveWAL(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	s.o.Continuous = true
	d := s.started(t)
	want := s.wanted(t, 1)
	settle(t, d, want)
	const segment = "0000000100000000000000F1"
	head := make([]byte, 32)
	head[2], head[31] = 2, 1 // of history 1
	archiveDir := filepath.Join(s.node(want.ID), "tmp", "wal")
	if err := os.WriteFile(filepath.Join(archiveDir, segment), append(head, "one"...), 0o600); err != nil {
		t.Fatal(err)
	}
	to := &enginetest.Sink{}
	if err := d.Upload(t.Context(), want, to); err != nil || string(to.Files["0000000000000001 "+segment]) != string(head)+"one" {
		t.Errorf("uploaded: %v, %v", to.Puts, err)
	}
	if _, err := os.Stat(filepath.Join(archiveDir, segment)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was uploaded is still there: %v", err)
	}
	missing := want
	missing.ID = 99
	if err := d.Upload(t.Context(), missing, to); err != nil {
		t.Errorf("a cluster that isn't there: %v", err)
	}
	d.Close()
	s.o.Continuous = false
	d = s.started(t)
	settle(t, d, want)
	conn, err := newLoad(t, s, want.Cluster).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	for _, statement := range []string{
		"CREATE TABLE ballast (filling text)", // for three segments
		"INSERT INTO ballast SELECT repeat('x', 80) FROM generate_series(1, 150000)",
	} {
		if err := conn.exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	status := filepath.Join(s.node(want.ID), "data", "pg_wal", "archive_status")
	await.True(t, "finished segments to be let go", func() bool {
		waiting, errWaiting := filepath.Glob(filepath.Join(status, "*.ready"))
		done, errDone := filepath.Glob(filepath.Join(status, "*.done"))
		return errors.Join(errWaiting, errDone) == nil && len(waiting) == 0 && len(done) > 1
	})
}

// TestMeasureArchive compares how far an archive is behind with the files that wait for it, and their age, with what the server says that it has finished, and with the clock.
func TestMeasureArchive(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	s.o.Continuous = true
	m := &measuredNode{t: t, s: s, d: s.started(t), want: s.wanted(t, 1)}
	m.want.Hosts = settle(t, m.d, m.want).Hosts
	if err := m.d.Upload(t.Context(), m.want, &enginetest.Sink{}); err != nil {
		t.Fatal(err)
	}
	db := s.customerDB(t, m.want.Cluster)
	archived := func() (n float64) {
		if err := db.QueryRowContext(t.Context(), "SELECT archived_count FROM pg_stat_archiver").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := archived()
	m.exec("CREATE TABLE ballast (filling text)", "INSERT INTO ballast SELECT repeat('x', 80) FROM generate_series(1, 150000)") // for three segments
	dir := filepath.Join(s.node(m.want.ID), "tmp", "wal")
	await.NoError(t, "what waits to be archived is measured", func() error { // the server archives on meanwhile
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		files, oldest := 0.0, time.Now()
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Size() > 0 {
				files++
				if info.ModTime().Before(oldest) {
					oldest = info.ModTime()
				}
			}
		}
		least := time.Since(oldest).Seconds()
		r := m.read()
		waiting, lag, told := r.Values[measure.ArchiveWaiting], r.Values[measure.ArchiveLag], archived()-before
		if most := time.Since(oldest).Seconds(); waiting < 2 || waiting != files || waiting != told || lag < least-0.1 || lag > most {
			return fmt.Errorf("%v files wait, the oldest for %v to %v s; %v are measured and %v s, the server says %v", files, least, most, waiting, lag, told)
		}
		return nil
	})
	await.NoError(t, "nothing waits", func() error {
		if err := m.d.Upload(t.Context(), m.want, &enginetest.Sink{}); err != nil { // of what the server has archived meanwhile, too
			return err
		}
		r := m.read()
		if waiting, lag := r.Values[measure.ArchiveWaiting], r.Values[measure.ArchiveLag]; waiting != 0 || lag != 0 {
			return fmt.Errorf("%v files wait, the oldest for %v s", waiting, lag)
		}
		return nil
	})
}

// TestUploadAsleep: what a server left is uploaded also while it sleeps; that is looked for once, and again when it has been awake.
func TestUploadAsleep(t *testing.T) {
	t.Parallel()
	b := newAutoSuspended(t, engine.FlavourPostgreSQL, 1)
	b.fallAsleep()
	head := make([]byte, 32)
	head[2], head[31] = 2, 1 // of history 1
	to := &enginetest.Sink{}
	upload := func(segment string, uploaded bool) {
		t.Helper()
		dir := filepath.Join(b.s.node(b.want.ID), "tmp", "wal")
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, segment), head, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := b.d.Upload(t.Context(), b.want, to); err != nil || (to.Files["0000000000000001 "+segment] != nil) != uploaded {
			t.Errorf("%s: uploaded: %v, %v", segment, to.Puts, err)
		}
	}
	upload("0000000100000000000000F1", true)
	upload("0000000100000000000000F2", false)
	b.mustConnect()
	upload("0000000100000000000000F3", true)
	if to.Files["0000000000000001 0000000100000000000000F2"] == nil {
		t.Errorf("left behind: %v", to.Puts)
	}
}
