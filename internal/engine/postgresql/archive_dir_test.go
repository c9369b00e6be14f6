package postgresql

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

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

// TestEmptyArchiveDir: what was uploaded is gone, what wasn't stays, and a gap is reported
// once until the directory was empty.
func TestEmptyArchiveDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := engine.Node{ArchiveDir: filepath.Join(dir, "missing")}
	if err := emptyArchiveDir(t.Context(), n, &enginetest.Sink{}); err != nil {
		t.Errorf("no directory: %v", err)
	}
	n.ArchiveDir = dir
	const first, second, third = "0000000100000000000000F1", "0000000100000000000000F2", "0000000100000000000000F3"
	segment := func(id byte, rest string) string {
		head := make([]byte, 32)
		head[2], head[31] = 2, id
		return string(head) + rest
	}
	short, long := segment(1, "a"), segment(2, strings.Repeat("long", archiveHead))
	for name, content := range map[string]string{second: long, first: short, first + ".00000028.backup": "x", archiveGap: "", ".hidden": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	away := &enginetest.Sink{Refuse: errors.New("the bucket is away")}
	for range 2 {
		if err := emptyArchiveDir(t.Context(), n, away); !errors.Is(err, away.Refuse) {
			t.Errorf("error: %v", err)
		}
	}
	if left := names(t, dir); away.Gaps != 1 || !slices.Equal(left, []string{".hidden", archiveGapReported, first, first + ".00000028.backup", second}) {
		t.Errorf("%d gaps were reported, left: %v", away.Gaps, left)
	}
	back := &enginetest.Sink{}
	if err := emptyArchiveDir(t.Context(), n, back); err != nil {
		t.Fatal(err)
	}
	want := []string{"0000000000000001 " + first, "0000000000000002 " + second}
	if !slices.Equal(back.Puts, want) || back.Gaps != 0 || !slices.Equal(names(t, dir), []string{".hidden"}) {
		t.Errorf("put %q, %d gaps, left: %v", back.Puts, back.Gaps, names(t, dir))
	}
	if string(back.Files[want[0]]) != short || string(back.Files[want[1]]) != long {
		t.Errorf("put %q", back.Files)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, third)); err != nil {
		t.Fatal(err)
	}
	if err := emptyArchiveDir(t.Context(), n, back); err == nil || len(back.Puts) != 2 {
		t.Errorf("a link was followed: %v, %v", back.Puts, err)
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
	const first, second, missing = "000000010000000000000001", "000000010000000000000002", "000000010000000000000009"
	var failures atomic.Int32
	failures.Store(2)
	d := &restoreDirectory{
		path: t.TempDir(),
		fetch: func(_ context.Context, name string, out io.Writer) (bool, error) {
			if failures.Add(-1) >= 0 {
				return false, errors.New("the bucket is away")
			}
			if name == missing {
				return false, nil
			}
			_, err := io.WriteString(out, "content of "+name)
			return true, err
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.serve(ctx) }()
	for _, name := range []string{second, first, missing} {
		if err := os.WriteFile(filepath.Join(d.path, name+restoreWanted), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		answer := name
		if name == missing {
			answer += restoreMissing
		}
		await.True(t, name+" is answered", func() bool { return exists(filepath.Join(d.path, answer)) })
		if content, err := os.ReadFile(filepath.Join(d.path, name)); name != missing && (err != nil || string(content) != "content of "+name) {
			t.Errorf("%s holds %q, %v", name, content, err)
		}
		if exists(filepath.Join(d.path, name+restoreWanted)) {
			t.Errorf("%s is still asked for", name)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if d.furthest != second {
		t.Errorf("the furthest is %q", d.furthest)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
