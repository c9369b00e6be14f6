package engine

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder makes files by their paths; a folder's path ends with a slash.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// holds compares a folder's files with those wanted.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		got[rel] = string(content)
		return err
	})
	if err != nil || len(got) != len(want) {
		t.Errorf("%s has %v, want %v: %v", dir, got, want, err)
	}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s is %q, want %q", name, got[name], content)
		}
	}
}

func TestCopyTree(t *testing.T) {
	files := map[string]string{"a": "1", "b/c": strings.Repeat("2", 1<<20), "b/d/e": ""}
	from, to := folder(t, files), t.TempDir()
	if err := CopyTree(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	holds(t, to, files)
	if err := CopyTree(t.Context(), filepath.Join(from, "none"), t.TempDir()); err == nil {
		t.Error("a folder that isn't there is copied")
	}
}

// TestCopiesFollowNoLinks: whoever owns the folders could put links in them.
func TestCopiesFollowNoLinks(t *testing.T) {
	secret := folder(t, map[string]string{"shadow": "secret"})
	for name, target := range map[string]string{"link": secret + "/shadow", "folder": secret} {
		from, to := folder(t, map[string]string{"a": "1"}), t.TempDir()
		if err := os.Symlink(target, filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
		if err := CopyTree(t.Context(), from, t.TempDir()); err == nil {
			t.Errorf("%s: no error", name)
		}
		none := func(string, fs.DirEntry) bool { return false }
		if err := CopyLiveTree(t.Context(), from, to, none); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		holds(t, to, map[string]string{"a": "1"})
		if err := CopyFiles(from, t.TempDir(), []string{name + map[bool]string{true: "/shadow"}[name == "folder"]}); err == nil {
			t.Errorf("%s: copied by its name", name)
		}
	}
	to := t.TempDir()
	if err := os.Symlink(secret, filepath.Join(to, "out")); err != nil {
		t.Fatal(err)
	}
	if err := WriteFiles(to, map[string][]byte{"out/shadow": []byte("mine")}); err == nil {
		t.Error("a file was written outside of the folder")
	}
	holds(t, secret, map[string]string{"shadow": "secret"})
}

func TestCopyLiveTree(t *testing.T) {
	from, to := folder(t, map[string]string{"a": "1", "gone/x": "2", "skipped/y": "3", "skip": "4", "kept/": ""}), t.TempDir()
	skip := func(name string, _ fs.DirEntry) bool {
		if name == "gone" { // between the listing and the copying
			if err := os.RemoveAll(filepath.Join(from, "gone")); err != nil {
				t.Error(err)
			}
		}
		return strings.HasPrefix(name, "skip")
	}
	if err := CopyLiveTree(t.Context(), from, to, skip); err != nil {
		t.Fatal(err)
	}
	if err := CopyFiles(from, to, []string{"skip"}); err != nil {
		t.Fatal(err)
	}
	if err := WriteFiles(to, map[string][]byte{"kept/z": []byte("5"), "a": []byte("6")}); err != nil {
		t.Fatal(err)
	}
	holds(t, to, map[string]string{"a": "6", "skip": "4", "kept/z": "5"})
	if err := CopyFiles(from, to, []string{"gone/x"}); err == nil {
		t.Error("a file that is gone is copied")
	}
}
