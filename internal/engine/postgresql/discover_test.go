package postgresql

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/testdir"
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
	testdir.WriteProgram(t, filepath.Join(root, "initdb"), "#!/bin/sh\n")
	testdir.WriteProgram(t, filepath.Join(root, "p15"), "#!/bin/sh\necho 'postgres (PostgreSQL) 15.3'\n")
	describe := func(folder, series, version, server string) {
		content := `{"flavour":"postgresql","series":"` + series + `","version":"` + version + `","builder":"test",
			"bin":{"postgres":"../` + server + `","initdb":"../initdb"}}`
		if err := errors.Join(os.Mkdir(filepath.Join(root, folder), 0o755), os.WriteFile(filepath.Join(root, folder, "engine.json"), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
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
