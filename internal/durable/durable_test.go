package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"steward/internal/durable"
)

func TestWriteFileReplaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	for _, content := range []string{"first", "second"} {
		if err := durable.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		holds(t, path, content)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestWriteNewReplacesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	put := func(content string) error {
		return durable.WriteNew(path, func(f *os.File) error {
			_, err := f.WriteString(content)
			return err
		})
	}
	if err := put("first"); err != nil {
		t.Fatal(err)
	}
	if err := put("second"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	holds(t, path, "first")
}

func TestFailureLeavesTheOldFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	if err := durable.WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no room")
	err := durable.Write(path, func(f *os.File) error {
		_, err := f.WriteString("half")
		return errors.Join(err, full)
	})
	if !errors.Is(err, full) {
		t.Errorf("error: %v", err)
	}
	holds(t, path, "old")
}

// holds demands the content, and that nothing else is in the file's folder.
func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}
