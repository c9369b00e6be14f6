package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDescribed(t *testing.T) {
	root := t.TempDir()
	write := func(folder, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, folder, "engine.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good", `{"flavour":"mysql","series":"9.7","version":"9.7.4","builder":"b","home":"/opt/m",
		"bin":{"mysqld":"/opt/m/mysqld","mysql":"bin/mysql"},"share":"share"}`)
	write("other", `{"flavour":"postgresql","series":"15","version":"15.1","builder":"b"}`)
	write("broken", `{"flavour":`)
	write("nameless", `{"flavour":"mysql","version":"1","builder":"b"}`)
	write("alone/deep", `{"flavour":"mariadb","series":"11.8","version":"11.8.1","builder":"b"}`)

	found, notes := Described([]string{root, filepath.Join(root, "alone/deep"), filepath.Join(root, "absent")}, FlavourMySQL, FlavourMariaDB)
	want := []Installation{
		{
			Flavour: FlavourMySQL, Series: "9.7", Version: "9.7.4", Builder: "b", Home: "/opt/m",
			Bin:   map[string]string{"mysqld": "/opt/m/mysqld", "mysql": filepath.Join(root, "good/bin/mysql")},
			Share: filepath.Join(root, "good/share"),
		},
		{Flavour: FlavourMariaDB, Series: "11.8", Version: "11.8.1", Builder: "b"},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if len(notes) != 2 || !strings.Contains(notes[0].Error(), "broken") || !strings.Contains(notes[1].Error(), "series is missing") {
		t.Errorf("notes are %v", notes)
	}
}
