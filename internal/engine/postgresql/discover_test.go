package postgresql

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for line, want := range map[string][2]string{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n":   {"15.18", "debian"},
		"postgres (PostgreSQL) 16.2 (Debian 16.2-1.pgdg120+2)\n":   {"16.2", "pgdg"},
		"postgres (PostgreSQL) 14.11 (Ubuntu 14.11-0ubuntu0.22)\n": {"14.11", "ubuntu"},
		"postgres (PostgreSQL) 18.4\n":                             {"18.4", "system"},
	} {
		version, remark, err := parseVersion(line)
		if got := [2]string{version, builder(remark)}; err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "postgres (PostgreSQL) 19devel", "postgres (PostgreSQL) 19beta1", "psql 15.1", "postgres (PostgreSQL) 15."} {
		if version, _, err := parseVersion(line); err == nil {
			t.Errorf("%q: version %q", line, version)
		}
	}
}

func TestDiscoverNotesWhatItCantUse(t *testing.T) {
	root := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("initdb", "#!/bin/sh\n", 0o755)
	write("p15", "#!/bin/sh\necho 'postgres (PostgreSQL) 15.3'\n", 0o755)
	describe := func(folder, series, version, server string) {
		write(folder+"/engine.json", `{"flavour":"postgresql","series":"`+series+`","version":"`+version+`","builder":"test",
			"bin":{"postgres":"../`+server+`","initdb":"../initdb"}}`, 0o600)
	}
	describe("good", "15", "15.3", "p15")
	describe("lies", "15", "15.4", "p15")
	describe("odd-series", "16", "15.3", "p15")
	describe("old", "12", "12.1", "p15")
	describe("empty", "15", "15.3", "absent")
	describe("nonsense", "x", "15.3", "p15")

	found, notes := Driver{}.Discover(t.Context(), []string{root})
	var ours []string
	for _, inst := range found {
		if inst.Builder == "test" {
			ours = append(ours, inst.ID())
		}
	}
	if strings.Join(ours, " ") != "postgresql-15.3-test" {
		t.Errorf("found %v", ours)
	}
	if len(notes) != 5 {
		t.Errorf("%d notes, want 5: %v", len(notes), notes)
	}
}
