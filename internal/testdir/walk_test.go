package testdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWalkLeavesOutWhatIsGone: a file and a folder that are removed during the walk are no errors; a folder that never was is one, and so is
// what visit finds wrong.
func TestWalkLeavesOutWhatIsGone(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, sub, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var visited []string
	err := Walk(dir, func(path string, entry fs.DirEntry) error {
		visited = append(visited, entry.Name())
		if err := os.RemoveAll(filepath.Join(dir, "b")); err != nil {
			return err
		}
		if entry.IsDir() {
			return nil
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		_, err := os.ReadFile(path)
		return err
	})
	if want := []string{filepath.Base(dir), "a", "c", "in"}; err != nil || !slices.Equal(visited, want) {
		t.Errorf("visited %q: %v; want %q", visited, err, want)
	}
	if err := Walk(filepath.Join(dir, "b"), func(string, fs.DirEntry) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that isn't there: %v", err)
	}
	if err := Walk(dir, func(string, fs.DirEntry) error { return fs.ErrPermission }); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("what visit finds wrong: %v", err)
	}
}
