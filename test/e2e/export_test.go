package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"steward/internal/testdir"
	"steward/test/harness"
)

// exporting is a server that keeps backups in a bucket.
type exporting struct {
	*harness.Server
	bucket string
}

func newExporting(t *testing.T, builds ...harness.Option) exporting {
	t.Helper()
	s := exporting{harness.Prepare(t, builds...), t.TempDir()}
	s.Start("--backups", s.bucket)
	return s
}

// encryptedMySQL is one of MySQL, or of MariaDB where none is installed.
func (s exporting) encryptedMySQL() harness.Spec {
	engine := mariadb
	if series := installedMySQL(s.Server); series != "" {
		engine = "mysql/" + series
	}
	spec := harness.Small("mysql-encrypted", engine)
	spec["encrypted"] = true
	return spec
}

// TestExport: from an exported backup, the README in it and the engine's own
// programs alone comes a server with the rows.
func TestExport(t *testing.T) {
	t.Parallel()
	s := newExporting(t, ofPostgreSQL, ofMariaDB)
	for _, spec := range []harness.Spec{harness.Small("postgresql", postgresql), harness.Small("mariadb", mariadb)} {
		t.Run(spec["label"].(string), func(t *testing.T) {
			e := s.export(t, spec)
			e.startsByHand(t)
			if e.d.Engine == "postgresql" { // of MariaDB it is much the same
				e.isTheSame(t)
				e.opensByHand(t)
				e.refusesDamage(t)
			}
		})
	}
}

// TestExportThorough: what a bucket has of MariaDB and MySQL leads to the rows without steward, too.
func TestExportThorough(t *testing.T) {
	t.Parallel()
	s := newExporting(t, ofMariaDB, harness.OfBuilds("mysql-"))
	specs := []harness.Spec{harness.Small("mariadb", mariadb), s.encryptedMySQL()}
	if series := installedMySQL(s.Server); series != "" && all() {
		encrypted := harness.Small("mariadb-encrypted", mariadb)
		encrypted["encrypted"] = true
		specs = append(specs, encrypted, harness.Small("mysql", "mysql/"+series))
	}
	for _, spec := range specs {
		t.Run(spec["label"].(string), func(t *testing.T) {
			e := s.export(t, spec)
			if all() || e.d.Encrypted {
				e.startsByHand(t)
			}
			e.isTheSame(t)
			e.opensByHand(t)
			e.refusesDamage(t)
		})
	}
}

// exported is a backup of three rows that was exported.
type exported struct {
	exporting
	d           harness.Database
	credentials harness.Credentials
	file        string
	// flags have commands find the backup.
	flags []string
}

// export makes a database, backs it up and exports that.
func (s exporting) export(t *testing.T, spec harness.Spec) exported {
	t.Helper()
	d := s.CreateActive(spec)
	e := exported{s, d, s.Credentials(d), filepath.Join(folderOfNobody(t), "backup.tar"), []string{"--data", s.Data, "--config", s.ConfigPath(), "--backups", s.bucket}}
	db := s.MustConnect(d, e.credentials)
	exec1(t, db, "CREATE TABLE kept (n int PRIMARY KEY)")
	exec1(t, db, "INSERT INTO kept VALUES (1), (2), (3)")
	if out, err := s.Command("backup", "create", d.Label, "one"); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, s.LogTail())
	}
	exec1(t, db, "INSERT INTO kept VALUES (4)") // not in the backup
	if out, err := s.Command(append([]string{"backup", "export", d.Label, "one", "-o", e.file}, e.flags...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return e
}

// folderOfNobody belongs to a user who is neither root nor a server's.
func folderOfNobody(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "steward-export-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const nobody = 65534

// isTheSame: it doesn't matter where the archive goes, nor what opens it.
func (e exported) isTheSame(t *testing.T) {
	t.Helper()
	s, d := e.Server, e.d
	want, err := os.ReadFile(e.file)
	if err != nil {
		t.Fatal(err)
	}
	id, dir := fmt.Sprint(d.ID), t.TempDir()
	beside := []string{"--data", filepath.Join(dir, "nothing"), "--backups", "file://" + e.bucket}
	ways := map[string][]string{
		"with the seal key": append([]string{id, "one", "-o", "-", "--seal-key", filepath.Join(s.Data, "seal.key")}, beside...),
	}
	if !d.Encrypted || all() {
		ways["to the standard output"] = append([]string{id, "one", "-o", "-"}, e.flags...)
	}
	if key, err := s.Command(append([]string{"backup", "key", d.Label}, e.flags...)...); err != nil || !strings.HasPrefix(key, "AGE-SECRET-KEY-1") {
		t.Errorf("key: %v\n%s", err, key)
	} else if !d.Encrypted {
		keyFile := filepath.Join(dir, "key")
		if err := os.WriteFile(keyFile, []byte("# a comment\n"+key), 0o600); err != nil {
			t.Fatal(err)
		}
		ways["with its own key"] = append([]string{d.Label, "one", "-o", "-", "--key-file", keyFile}, beside...)
	}
	for name, args := range ways {
		got, err := exec.Command(harness.Binary(t, ""), append([]string{"backup", "export"}, args...)...).Output()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(want), err)
		}
	}
	if out, err := s.Command(append([]string{"backup", "export", d.Label, "one", "-o", e.file}, e.flags...)...); err == nil || !strings.Contains(out, "is there already") {
		t.Errorf("over a file: %v\n%s", err, out)
	}
}

// startsByHand types what the README says.
func (e exported) startsByHand(t *testing.T) {
	t.Helper()
	dir := folderOfNobody(t)
	unpack := exec.Command("tar", "-xf", e.file, "-C", dir)
	unpack.Stderr = os.Stderr
	asNobody(unpack, dir)
	if err := os.Chmod(e.file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unpack.Run(); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(dir, "README.txt"))
	if err != nil {
		t.Fatal(err)
	}
	countsThree(t, e.Server, e.d, e.credentials, dir, typed(string(readme)))
}

func asNobody(cmd *exec.Cmd, dir string) {
	cmd.Dir = dir
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// typed are the lines of a README that a person types, who gives passwords when
// asked and a query at the prompt, and waits for a server that was started.
func typed(readme string) string {
	var script strings.Builder
	for line := range strings.Lines(readme) {
		line, command := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    ")
		switch {
		case !command:
			continue
		case strings.HasPrefix(line, "psql"):
			line += ` -Atc "` + countRows + `"`
		case strings.HasPrefix(line, "mariadb --socket"), strings.HasPrefix(line, "mysql --socket"):
			line = strings.Replace(line, " -p", "", 1) + ` -Ne "` + countRows + `"`
			line = awaitSocket + line + "\nkill $!"
		}
		script.WriteString(line + "\n")
	}
	return script.String()
}

// programs are the folders of those of the database's server.
func programs(t *testing.T, s *harness.Server, d harness.Database) string {
	t.Helper()
	var nodes []struct {
		Cluster      int64  `json:"cluster"`
		Installation string `json:"installation"`
	}
	ask(t, s, &nodes, "node", "list", "--json", "--data", s.Data, "--config", s.ConfigPath())
	var machine struct {
		Engines []build
	}
	ask(t, s, &machine, "doctor", "--json", "--config", s.ConfigPath())
	for _, n := range nodes {
		for _, e := range machine.Engines {
			if n.Cluster != d.ID || n.Installation != e.Flavour+"-"+e.Version+"-"+e.Builder {
				continue
			}
			if len(e.Loader) > 0 {
				return wrapped(t, e)
			}
			var dirs []string
			for _, path := range e.Bin {
				dirs = append(dirs, filepath.Dir(path))
			}
			return strings.Join(dirs, ":")
		}
	}
	t.Fatalf("no server of database %d among %+v", d.ID, nodes)
	return ""
}

// build is an installation as `doctor --json` shows it.
type build struct {
	Flavour   string            `json:"flavour"`
	Version   string            `json:"version"`
	Builder   string            `json:"builder"`
	Loader    []string          `json:"loader"`
	Bin       map[string]string `json:"bin"`
	Share     string            `json:"share"`
	PluginDir string            `json:"plugin_dir"`
}

// wrapped makes the programs of a build that brings its own loader ones that can
// be typed.
func wrapped(t *testing.T, e build) string {
	t.Helper()
	dir := folderOfNobody(t)
	for name, path := range e.Bin {
		more := ""
		if name == "mysqld" {
			more = fmt.Sprintf(" --lc-messages-dir=%s --character-sets-dir=%s/charsets --plugin-dir=%s", e.Share, e.Share, e.PluginDir)
		}
		script := fmt.Sprintf("#!/bin/sh\nexec %s --argv0 %s %s \"$@\"%s\n", strings.Join(e.Loader, " "), path, path, more)
		testdir.WriteProgram(t, filepath.Join(dir, name), script)
	}
	return dir
}

func ask(t *testing.T, s *harness.Server, out any, args ...string) {
	t.Helper()
	text, err := s.Command(args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// opensByHand types what docs/disaster-recovery.md says of restoring an object of
// the bucket without steward.
func (e exported) opensByHand(t *testing.T) {
	t.Helper()
	s, d, c := e.Server, e.d, e.credentials
	key, err := s.Command(append([]string{"backup", "key", fmt.Sprint(d.ID)}, e.flags...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, key)
	}
	dir := folderOfNobody(t)
	open := exec.Command("bash", "-c", "set -e -o pipefail; age -d -i <(echo $KEY) $OBJECT | zstd -d > stream && chmod 644 stream; "+
		`if [ $KEYRING -gt 0 ]; then tail -c +$((KEYRING+1)) stream | tar -t | grep -x ibdata1; fi`)
	open.Dir = dir
	open.Env = append(os.Environ(), "KEY="+strings.TrimSpace(key), "OBJECT="+object(t, e.bucket, d), fmt.Sprint("KEYRING=", keyringBytes(t, e.bucket, d)))
	if out, err := open.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	switch d.Label {
	case "postgresql":
		typesTheManual(t, s, d, c, dir, "PostgreSQL, as the user", ` -Atc "`+countRows+`" && pg_ctl -D data stop`)
	case "mariadb":
		typesTheManual(t, s, d, c, dir, "MariaDB:", awaitSocket+`mariadb --socket="$PWD/data/mysql.sock" -u dbadmin defaultdb -Ne "`+countRows+`"; kill $!`)
	}
}

const (
	countRows   = `SELECT concat('rows: ', count(*)) FROM kept`
	awaitSocket = "\nfor i in $(seq 300); do [ -S data/mysql.sock ] && break; sleep 0.1; done\n"
)

// typesTheManual types the block that follows a line of the document, and then more.
func typesTheManual(t *testing.T, s *harness.Server, d harness.Database, c harness.Credentials, dir, heading, more string) {
	t.Helper()
	manual, err := os.ReadFile("../../docs/disaster-recovery.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(manual), "\n"+heading)
	_, rest, _ = strings.Cut(rest, "```sh\n")
	block, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatalf("docs/disaster-recovery.md has nothing about %s", heading)
	}
	countsThree(t, s, d, c, dir, block+more)
}

// countsThree runs lines as a person would who isn't root, and demands that they
// find the three rows of the backup.
func countsThree(t *testing.T, s *harness.Server, d harness.Database, c harness.Credentials, dir, lines string) {
	t.Helper()
	script := "set -e\ntrap 'pkill -P $$ || true; wait' EXIT\n" + lines + "\n"
	run := exec.Command("bash", "-c", script)
	run.Env = []string{
		"PATH=" + programs(t, s, d) + ":" + os.Getenv("PATH"), "HOME=" + dir,
		"PGPASSWORD=" + c.Password, "MYSQL_PWD=" + c.Password,
	}
	asNobody(run, dir)
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "rows: 3") {
		log, _ := os.ReadFile(filepath.Join(dir, "data", "server.log"))
		t.Errorf("%v\n%s\n%s\nby\n%s", err, out, log, script)
	}
}

func object(t *testing.T, bucket string, d harness.Database) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(bucket, "clusters", fmt.Sprint(d.ID), "backups", "*", "data.zst.age"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0]
}

// refusesDamage: a backup that isn't what was written is refused, and nothing
// is left of the attempt.
func (e exported) refusesDamage(t *testing.T) {
	t.Helper()
	path := object(t, e.bucket, e.d)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)*3/4] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out, err := e.Command(append([]string{"backup", "export", e.d.Label, "one", "-o", filepath.Join(dir, "x.tar")}, e.flags...)...)
	if err == nil || !strings.Contains(out, "damaged") {
		t.Errorf("a damaged backup: %v\n%s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// installedMySQL is the series of a MySQL of this machine, "" when there is none.
func installedMySQL(s *harness.Server) string {
	var types struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	s.Call("GET", "/v4/databases/engines", nil, &types)
	for _, e := range types.Data {
		if _, series, _ := strings.Cut(e.ID, "/"); e.ID == "mysql/8.4" || e.ID == "mysql/9.7" {
			return series
		}
	}
	return ""
}

// keyringBytes is how much of a backup comes before the data.
func keyringBytes(t *testing.T, bucket string, d harness.Database) int {
	t.Helper()
	var manifest struct {
		Copy struct{ KeyringBytes int } `json:"copy"`
	}
	content, err := os.ReadFile(filepath.Join(filepath.Dir(object(t, bucket, d)), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest.Copy.KeyringBytes
}
