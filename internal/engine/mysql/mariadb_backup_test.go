package mysql

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/engine"
)

func TestLastSequence(t *testing.T) {
	for position, want := range map[string]uint64{"0-1-12": 12, "0-5-1099511627776": 1 << 40, "0-1-3,1-2-40": 40} {
		if got, err := lastSequence(position); err != nil || got != want {
			t.Errorf("%s: %d, %v", position, got, err)
		}
	}
	for _, position := range []string{"", "12", "0-1", "0-1-x", "0-1-2,"} {
		if _, err := lastSequence(position); err == nil {
			t.Errorf("%q passes for a position", position)
		}
	}
}

func TestRelocate(t *testing.T) {
	note := filepath.Join(t.TempDir(), preparedBy)
	const before = "[mysqld]\ninnodb_page_size=16384\nplugin_dir=/old/plugins\nplugin_load=file_key_management\n" +
		"file-key-management-filename=/old/keys\n"
	const after = "[mysqld]\ninnodb_page_size=16384\nplugin_dir=/new/plugins\nplugin_load=file_key_management\n" +
		"file_key_management_filename=/new/keys/keys\n"
	if err := os.WriteFile(note, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	n := engine.Node{Keys: "/new/keys", Installation: engine.Installation{PluginDir: "/new/plugins"}}
	if err := relocate(n, note); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(note)
	if err != nil || string(got) != after {
		t.Errorf("%s %v", got, err)
	}
	if err := relocate(n, filepath.Join(t.TempDir(), preparedBy)); err == nil {
		t.Error("a folder without the note passes for a backup")
	}
}
