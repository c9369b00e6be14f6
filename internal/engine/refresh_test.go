package engine_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"steward/internal/engine"
)

// TestRefreshTree: what changed, came or went since the copy is so in the copy, and the rest isn't copied again.
func TestRefreshTree(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	old := time.Now().Add(-time.Hour)
	write := func(name, content string, at time.Time) {
		t.Helper()
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	steady := func(name string) bool { return filepath.Dir(name) == "base" }
	refresh := func(live bool) {
		t.Helper()
		if err := engine.RefreshTree(t.Context(), from, to, steady, live); err != nil {
			t.Fatal(err)
		}
	}
	write("base/same", "one", old)
	write("base/longer", "one", old)
	write("base/later", "one", old)
	write("base/fresh", "one", time.Now())
	write("base/gone/file", "one", old)
	write("wal/same", "one", old)
	refresh(true)
	write("base/same", "two", old) // which nobody can see: that's how we know that it isn't copied
	write("base/longer", "longer", old)
	write("base/later", "two", old.Add(time.Millisecond))
	fresh, err := os.Stat(filepath.Join(from, "base/fresh"))
	if err != nil {
		t.Fatal(err)
	}
	write("base/fresh", "two", fresh.ModTime())
	write("base/came", "two", old)
	write("wal/same", "two", old)
	if err := os.RemoveAll(filepath.Join(from, "base/gone")); err != nil {
		t.Fatal(err)
	}
	// Whoever linked the copy's files elsewhere keeps them.
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Link(filepath.Join(to, "base/later"), linked); err != nil {
		t.Fatal(err)
	}
	refresh(false)
	got := map[string]string{}
	err = filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(to, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		got[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"base/same": "one", "base/longer": "longer", "base/later": "two", "base/fresh": "two", "base/came": "two", "wal/same": "two"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if content, err := os.ReadFile(linked); err != nil || string(content) != "one" {
		t.Errorf("the linked file has %q: %v", content, err)
	}
}
