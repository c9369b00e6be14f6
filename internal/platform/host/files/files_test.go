package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/platform/host/files"
)

// The server's user owns its data folder and may put anything there.
func TestFilesNeverLeaveTheirFolder(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func(dir string) error{
		"the file is a link":        func(dir string) error { return os.Symlink(victim, filepath.Join(dir, "sub", "victim")) },
		"the new file is a link":    func(dir string) error { return os.Symlink(victim, filepath.Join(dir, "sub", "victim.new")) },
		"its folder leads outside":  func(dir string) error { return replace(filepath.Join(dir, "sub"), outside) },
		"its folder leads upwards":  func(dir string) error { return replace(filepath.Join(dir, "sub"), "../../..") },
		"nothing is in its way yet": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			w := files.Writer{Mode: 0o600, Folders: 0o700}
			err := w.Write(dir, "sub/victim", []byte("theirs"), false)
			if content, errRead := os.ReadFile(victim); errRead != nil || string(content) != "mine" {
				t.Fatalf("the file outside now holds %q, %v", content, errRead)
			}
			content, errRead := os.ReadFile(filepath.Join(dir, "sub", "victim"))
			if err == nil && (errRead != nil || string(content) != "theirs") {
				t.Errorf("no error, but the file holds %q, %v", content, errRead)
			}
		})
	}
}

func replace(path, link string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Symlink(link, path)
}

func TestFilesWrittenOnceAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	w := files.Writer{Mode: 0o600, Folders: 0o700}
	for _, content := range []string{"first", "second"} {
		if err := w.Write(dir, "deep/down/keyring", []byte(content), true); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "deep/down/keyring"))
	if err != nil || string(got) != "first" {
		t.Errorf("got %q, %v", got, err)
	}
}
