package archive_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/engine"
	"steward/internal/platform/host/archive"
)

type sink struct {
	put    []string
	gaps   int
	refuse error
}

func (s *sink) Put(_ context.Context, archiveID, name string, r io.Reader) error {
	if s.refuse != nil {
		return s.refuse
	}
	content, err := io.ReadAll(r)
	s.put = append(s.put, archiveID+" "+name+" "+string(content))
	return err
}

func (s *sink) ReportGap(context.Context) error {
	s.gaps++
	return nil
}

// identify keeps all but notes, and has the archive's id in the file's first letter.
func identify(_ context.Context, name string, head []byte) (string, bool, error) {
	return string(head[:1]), !strings.HasSuffix(name, ".note"), nil
}

func TestUpload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := archive.Upload(t.Context(), filepath.Join(dir, "missing"), identify, &sink{}); err != nil {
		t.Errorf("no directory: %v", err)
	}
	long := "b" + strings.Repeat("long", engine.ArchiveHead)
	for name, content := range map[string]string{"2": long, "1": "a", "1.note": "x", engine.ArchiveGap: "", ".hidden": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	away := &sink{refuse: errors.New("the bucket is away")}
	for range 2 {
		if err := archive.Upload(t.Context(), dir, identify, away); !errors.Is(err, away.refuse) {
			t.Errorf("error: %v", err)
		}
	}
	if left := names(t, dir); away.gaps != 1 || !slices.Equal(left, []string{".hidden", engine.ArchiveGapReported, "1", "1.note", "2"}) {
		t.Errorf("%d gaps were reported, left: %v", away.gaps, left)
	}
	back := &sink{}
	if err := archive.Upload(t.Context(), dir, identify, back); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.put, []string{"a 1 a", "b 2 " + long}) || back.gaps != 0 || !slices.Equal(names(t, dir), []string{".hidden"}) {
		t.Errorf("put %v, %d gaps, left: %v", back.put, back.gaps, names(t, dir))
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "3")); err != nil {
		t.Fatal(err)
	}
	if err := archive.Upload(t.Context(), dir, identify, back); err == nil || len(back.put) != 2 {
		t.Errorf("a link was followed: %v, %v", back.put, err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestRestoreDirectory(t *testing.T) {
	t.Parallel()
	var failures atomic.Int32
	failures.Store(2)
	d := &archive.RestoreDirectory{
		Path: t.TempDir(), User: os.Getuid(), Beyond: func(a, b string) bool { return a > b },
		Fetch: func(_ context.Context, name string, out io.Writer) (bool, error) {
			if failures.Add(-1) >= 0 {
				return false, errors.New("the bucket is away")
			}
			if name == "9" {
				return false, nil
			}
			_, err := io.WriteString(out, "content of "+name)
			return true, err
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	for _, name := range []string{"2", "1", "9"} {
		if err := os.WriteFile(filepath.Join(d.Path, name+engine.RestoreWanted), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		answer := name
		if name == "9" {
			answer += engine.RestoreMissing
		}
		for deadline := time.Now().Add(20 * time.Second); !exists(filepath.Join(d.Path, answer)); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s isn't answered", name)
			}
		}
		if content, err := os.ReadFile(filepath.Join(d.Path, name)); name != "9" && (err != nil || string(content) != "content of "+name) {
			t.Errorf("%s holds %q, %v", name, content, err)
		}
		if exists(filepath.Join(d.Path, name+engine.RestoreWanted)) {
			t.Errorf("%s is still asked for", name)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if d.Furthest != "2" {
		t.Errorf("the furthest is %q", d.Furthest)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
