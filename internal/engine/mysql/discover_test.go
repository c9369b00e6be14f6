package mysql

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/engine"
	"steward/internal/testdir"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"10.11.19-MariaDB-0+deb12u1-log": "10.11.19",
		"9.7.4-2":                        "9.7.4",
		"/usr/sbin/mariadbd  Ver 11.8.6-MariaDB-0+deb13u1 from Debian for debian-linux-gnu on x86_64": "11.8.6",
		"no version": "",
	} {
		if got, err := parseVersion(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestDiscover looks through folders like an operator's.
func TestDiscover(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("engines/good/engine.json", `{"flavour":"mysql","series":"9.7","version":"9.7.4","builder":"x","home":".","bin":{"mysqld":"mysqld"}}`, 0o644)
	write("engines/good/mysqld", "", 0o755)
	write("engines/gone/engine.json", `{"flavour":"mysql","series":"9.7","version":"9.7.5","builder":"x","home":".","bin":{"mysqld":"mysqld"}}`, 0o644)
	write("engines/nameless/engine.json", `{"flavour":"mysql","series":"9.7","version":"9.7.6","builder":"x","home":"."}`, 0o644)
	write("engines/noscripts/engine.json", `{"flavour":"mariadb","series":"11.8","version":"11.8.6","builder":"x","home":".","bin":{"mariadbd":"mariadbd"},"share":"."}`, 0o644)
	write("engines/noscripts/mariadbd", "", 0o755)
	write("engines/other/engine.json", `{"flavour":"postgresql","series":"15","version":"15.1","builder":"x","home":"."}`, 0o644)
	// The distribution's: MariaDB brings a mysqld that is a link to itself.
	testdir.WriteProgram(t, filepath.Join(dir, "sbin/mariadbd"), "#!/bin/sh\necho 'mariadbd  Ver 10.11.19-MariaDB-0+deb12u1'\n")
	if err := os.Symlink("mariadbd", filepath.Join(dir, "sbin/mysqld")); err != nil {
		t.Fatal(err)
	}
	for _, s := range mariaDBScripts {
		if strings.HasPrefix(s, "_") {
			s = "mysql" + s
		}
		write("share/mysql/"+s, "", 0o644)
	}
	d := New(slog.New(slog.DiscardHandler))
	d.system = []string{filepath.Join(dir, "sbin"), filepath.Join(dir, "nowhere")}
	found, notes := d.Discover(t.Context(), []string{filepath.Join(dir, "engines")})
	var ids []string
	for _, f := range found {
		ids = append(ids, f.ID()+" "+f.Series)
	}
	if got, want := strings.Join(ids, ", "), "mysql-9.7.4-x 9.7, mariadb-10.11.19-debian 10.11"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if len(notes) != 3 {
		t.Errorf("%d notes, want 3: %v", len(notes), notes)
	}
}

// TestEncryptionMissing names the file an administrator has to make.
func TestEncryptionMissing(t *testing.T) {
	dir := t.TempDir()
	d := New(slog.New(slog.DiscardHandler))
	inst := engine.Installation{Flavour: engine.FlavourMySQL, Bin: map[string]string{"mysqld": filepath.Join(dir, "mysqld")}, PluginDir: dir}
	for _, step := range []struct{ file, content, missing string }{
		{"mysqld", "", "component_keyring_file"},
		{"component_keyring_file.so", "", "mysqld.my"},
		{"mysqld.my", globalManifest, "component_keyring_file.cnf"},
		{"component_keyring_file.cnf", globalConfig, ""},
	} {
		if err := os.WriteFile(filepath.Join(dir, step.file), []byte(step.content), 0o644); err != nil {
			t.Fatal(err)
		}
		why := d.EncryptionMissing(inst)
		if (why == "") != (step.missing == "") || !strings.Contains(why, step.missing) {
			t.Errorf("with %s: %q, want %q", step.file, why, step.missing)
		}
	}
}
