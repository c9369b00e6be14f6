package host_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/await"
)

// carrier takes what is uploaded.
type carrier struct {
	took      []string
	overflows int
	refuse    error
}

func (c *carrier) Put(_ context.Context, archiveID, name string, r io.Reader) error {
	if c.refuse != nil {
		return c.refuse
	}
	content, err := io.ReadAll(r)
	c.took = append(c.took, archiveID+" "+name+" "+strings.TrimRight(string(content[32:]), "\x00"))
	return err
}

func (c *carrier) ReportGap(context.Context) error {
	c.overflows++
	return nil
}

// TestUpload: what is taken is gone, what isn't stays, and an overflow is told of
// once until the archive directory was empty.
func TestUpload(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	s.o.Continuous = true
	d := s.started(t)
	want := s.wanted(t, 1)
	settle(t, d, want)
	archiveDir := filepath.Join(s.node(want.ID), "tmp", "wal")
	put := func(name, content string) {
		t.Helper()
		head := make([]byte, 32, 100)
		head[2] = 2
		copy(head[24:], "\x01\x02\x03\x04\x05\x06\x07\x08")
		if err := os.WriteFile(filepath.Join(archiveDir, name), append(head, content...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func() []string {
		t.Helper()
		entries, err := os.ReadDir(archiveDir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	const first, second = "0000000100000000000000F1", "0000000100000000000000F2"
	put(second, strings.Repeat("two", 50))
	put(first, "one")
	put(first+".00000028.backup", "note")
	put(".overflow", "")
	away := &carrier{refuse: errors.New("the bucket is away")}
	for range 2 {
		if err := d.Upload(t.Context(), want, away); !errors.Is(err, away.refuse) {
			t.Errorf("%v", err)
		}
	}
	if got := left(); away.overflows != 1 || !slices.Contains(got, first) || !slices.Contains(got, ".told") {
		t.Errorf("told of %d times, left: %v", away.overflows, got)
	}
	back := &carrier{}
	if err := d.Upload(t.Context(), want, back); err != nil {
		t.Fatal(err)
	}
	if got, want := back.took, []string{"0102030405060708 " + first + " one", "0102030405060708 " + second + " " + strings.Repeat("two", 50)}; !slices.Equal(got, want) {
		t.Errorf("took %v", got)
	}
	if got := left(); len(got) > 0 || back.overflows != 0 {
		t.Errorf("told of %d times, left: %v", back.overflows, got)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(archiveDir, second)); err != nil {
		t.Fatal(err)
	}
	if err := d.Upload(t.Context(), want, back); err == nil || len(back.took) != 2 {
		t.Errorf("a link was followed: %v, %v", back.took, err)
	}
	want.ID = 99
	if err := d.Upload(t.Context(), want, back); err != nil {
		t.Errorf("a cluster that isn't there: %v", err)
	}
}

// TestNoLongerArchived: a server that archives until its next restart keeps no WAL
// for an archive that nobody wants any more.
func TestNoLongerArchived(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	s.o.Continuous = true
	d := s.started(t)
	want := s.wanted(t, 1)
	settle(t, d, want)
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
		"INSERT INTO ballast SELECT repeat('x', 80) FROM generate_series(1, 400000)",
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
