package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"steward/test/harness"
)

// target is where a line for a program leads, by what the API says.
type target struct {
	host, database, password string
	port                     int
	// ca is the file of the certificate, in folder.
	ca, folder string
}

// leads is where the lines of a page lead, with the certificate beside them.
func (w *world) leads(t *testing.T, d harness.Database, host string, port int, database string) target {
	t.Helper()
	c := w.server.Credentials(d)
	to := target{host: host, port: port, database: database, password: c.Password, ca: d.Label + "-ca.crt", folder: t.TempDir()}
	if err := os.WriteFile(filepath.Join(to.folder, to.ca), c.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// runs carries out a program beside the certificate.
func (to target) runs(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = to.folder
	command.Env = append(os.Environ(), "PSQLRC="+os.DevNull)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// write puts a file beside the certificate.
func (to target) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(to.folder, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// told is what a driver is told, by the names that all of them are held against.
type told map[string]string

// verified are the words of each line's language for a connection whose certificate and name are checked; those without have no word for it, or what
// tries them connects.
var verified = map[string]map[string]string{
	"postgresql": {"rust": "sslmode=verify-full", "python": "sslmode=verify-full", "java": "sslmode=verify-full", "php": "sslmode=verify-full", "dotnet": "SSL Mode=VerifyFull", "node": "ssl: { ca: ", "uri": "sslmode=verify-full", "env": "PGSSLMODE=verify-full", "go": "sslmode=verify-full", "psql": "sslmode=verify-full"},
	"mysql":      {"rust": "ssl-mode=VERIFY_IDENTITY", "php": "PDO::MYSQL_ATTR_SSL_CA", "dotnet": "SSL Mode=VerifyFull", "node": "ssl: { ca: ", "go": "tls=steward", "mysql": "--ssl-verify-server-cert"},
}

// lines carries out all lines of a database's page as they stand there, in the languages that this machine has. Where it has no driver of one, what the
// line tells a driver is asked of it; the lines of languages that it hasn't must name the same.
func (w *world) lines(t *testing.T, d harness.Database, to target) {
	t.Helper()
	kinds := value[[]string](t, w.browser, `[...`+control("With")+`.options].map(o => o.value)`)
	if len(kinds) != 12 {
		t.Errorf("lines for %q", kinds)
	}
	texts := map[string]string{}
	for _, kind := range kinds {
		w.do(t, choose("With", kind), until(fmt.Sprintf(`%s.value === %q`, control("With"), kind)))
		text := w.shownAs(t, "How to connect")
		texts[kind] = text
		parts := []string{to.host, strconv.Itoa(to.port), "dbadmin", to.password, to.database, verified[d.Engine][kind]}
		if d.Engine == "postgresql" || kind != "uri" && kind != "env" { // which say nothing of certificates to MySQL's clients
			parts = append(parts, to.ca)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) && !strings.Contains(text, url.QueryEscape(part)) {
				t.Errorf("the line for %s hasn't %q: %s", kind, part, text)
			}
		}
	}
	w.do(t, choose("With", kinds[0]))
	connected := map[string]string{} // programs that connect, by their lines
	says := map[string]func() told{
		"yaml": func() told { return fromYAML(t, texts["yaml"]) }, "rails": func() told { return fromYAML(t, texts["rails"]) },
	}
	if d.Engine == "postgresql" {
		connected["psql"] = texts["psql"] + ` -Atc "SELECT 6 * 7"`
		connected["uri"] = `psql '` + texts["uri"] + `' -Atc "SELECT 6 * 7"`
		connected["env"] = "set -a\n" + texts["env"] + "\npsql -Atc 'SELECT 6 * 7'"
	} else {
		connected["mysql"] = texts["mysql"] + ` -Ne "SELECT 6 * 7"`
		connected["env"] = "set -a\n" + texts["env"] + "\nmariadb --user=$MYSQL_USER --ssl-ca=" + to.ca + " $MYSQL_DATABASE -Ne 'SELECT 6 * 7'"
		says["uri"] = func() told { return fromURI(t, texts["uri"]) }
	}
	connected["go"] = to.goProgram(t, d.Engine, texts["go"])
	for kind, program := range map[string]func(*testing.T, string, string) string{"python": to.pythonProgram, "php": to.phpProgram, "java": to.javaProgram} {
		if command := program(t, d.Engine, texts[kind]); command != "" {
			connected[kind] = command
		}
	}
	t.Logf("carried out with a driver: %q", slices.Sorted(maps.Keys(connected)))
	for kind, command := range connected {
		if out, err := to.runs(t, "sh", "-c", command); err != nil || out != "42" {
			t.Errorf("the line for %s answered %q, %v: %s", kind, out, err, texts[kind])
		}
	}
	for kind, tool := range map[string]string{"node": "node", "python": "python3", "java": "javac"} {
		if _, err := exec.LookPath(tool); err == nil && connected[kind] == "" {
			says[kind] = func() told { return to.asked(t, d.Engine, kind, texts[kind]) }
		}
	}
	for kind, ask := range says {
		got := ask()
		for name, want := range map[string]string{"host": to.host, "port": strconv.Itoa(to.port), "user": "dbadmin", "password": to.password, "database": to.database} {
			if got[name] != want {
				t.Errorf("the line for %s tells a driver %s %q, want %q: %s", kind, name, got[name], want, texts[kind])
			}
		}
		if d.Engine == "mysql" && kind == "uri" { // there is no common word for it
			continue
		}
		certificate, err := os.ReadFile(filepath.Join(to.folder, to.ca))
		if ca := got["ca"]; err != nil || ca != to.ca && ca != string(certificate) {
			t.Errorf("the line for %s tells a driver of the certificate %q, %v", kind, ca, err)
		}
		if mode := got["mode"]; mode != "verify-full" && mode != "verify_identity" && mode != "" || mode == "" && kind != "node" && kind != "yaml" {
			t.Errorf("the line for %s tells a driver to check by %q", kind, mode)
		}
	}
}

// goProgram is a program of the line for Go, built with this module's own drivers.
func (to target) goProgram(t *testing.T, engine, line string) string {
	t.Helper()
	imports := `_ "github.com/jackc/pgx/v5/stdlib"`
	if engine == "mysql" {
		imports = "\"crypto/tls\"\n\"crypto/x509\"\n\"os\"\n\"github.com/go-sql-driver/mysql\""
	}
	source := to.write(t, "main.go", "package main\nimport (\n\"database/sql\"\n\"fmt\"\n"+imports+"\n)\nfunc main() {\n"+line+`
		if err != nil { panic(err) }
		var n int
		if err := db.QueryRow("SELECT 6 * 7").Scan(&n); err != nil { panic(err) }
		fmt.Println(n)
	}`)
	program := filepath.Join(to.folder, "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, source).CombinedOutput(); err != nil {
		t.Errorf("the line for Go: %v\n%s\n%s", err, out, line)
	}
	return program
}

// pythonProgram, phpProgram and javaProgram are programs of lines with the drivers that scripts/setup --build installs; "" where there is none: Debian has
// none for MySQL that Python's line is for, and of MariaDB's for Java one that is older than the line.
func (to target) pythonProgram(t *testing.T, engine, line string) string {
	t.Helper()
	const python = "/usr/bin/python3" // Debian's, whatever else is in the PATH
	if engine != "postgresql" || exec.CommandContext(t.Context(), python, "-c", "import psycopg").Run() != nil {
		return ""
	}
	return python + " " + to.write(t, "connects.py", line+"\nprint(connection.execute('SELECT 6 * 7').fetchone()[0])\n")
}

func (to target) phpProgram(t *testing.T, engine, line string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "php", "-m").Output()
	if driver := map[string]string{"postgresql": "pdo_pgsql", "mysql": "pdo_mysql"}[engine]; err != nil || !slices.Contains(strings.Fields(string(out)), driver) {
		return ""
	}
	return "php " + to.write(t, "connects.php", "<?php\n"+line+"\necho $db->query('SELECT 6 * 7')->fetchColumn();\n")
}

func (to target) javaProgram(t *testing.T, engine, line string) string {
	t.Helper()
	const driver = "/usr/share/java/postgresql.jar"
	if _, err := os.Stat(driver); err != nil || engine != "postgresql" {
		return ""
	}
	if _, err := exec.LookPath("javac"); err != nil { // which a JDK has
		return ""
	}
	return "java -XX:TieredStopAtLevel=1 -cp " + driver + " " + to.write(t, "Connects.java", `public class Connects {
  public static void main(String[] args) throws Exception {
`+line+`
    var found = connection.createStatement().executeQuery("SELECT 6 * 7");
    found.next();
    System.out.println(found.getInt(1));
  }
}`)
}

func fromYAML(t *testing.T, text string) told {
	t.Helper()
	var all map[string]any
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err, text)
	}
	if production, ok := all["production"].(map[string]any); ok {
		all = production
	}
	return byName(all)
}

func fromURI(t *testing.T, text string) told {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	return told{"host": u.Hostname(), "port": u.Port(), "user": u.User.Username(), "password": password, "database": strings.TrimPrefix(u.Path, "/")}
}

// byName has what drivers are told by the names that we hold it against.
func byName(all map[string]any) told {
	got := told{}
	for name, other := range map[string][]string{
		"host": {"host"}, "port": {"port"}, "user": {"user", "username"}, "password": {"password"}, "database": {"database", "dbname"},
		"ca": {"ca", "sslrootcert", "ssl_ca", "sslca", "serverSslCert"}, "mode": {"mode", "sslmode", "ssl_mode", "sslMode"},
	} {
		for _, o := range other {
			if value, ok := all[o]; ok {
				got[name] = fmt.Sprint(value)
			}
		}
	}
	return got
}

// asked runs a line in its language, with a driver that only tells what it was told.
func (to target) asked(t *testing.T, engine, kind, line string) told {
	t.Helper()
	var out string
	var err error
	switch kind {
	case "node":
		const body = `const tell = o => console.log(JSON.stringify({...o, ca: o.ssl.ca, ...(o.ssl.rejectUnauthorized === false ? {mode: "none"} : {})}));` + "\n"
		to.write(t, "node_modules/pg/package.json", `{"name": "pg", "type": "module", "exports": "./index.js"}`)
		to.write(t, "node_modules/pg/index.js", body+`export default {Pool: class { constructor(o) { tell(o); } }};`)
		to.write(t, "node_modules/mysql2/package.json", `{"name": "mysql2", "type": "module", "exports": {"./promise": "./index.js"}}`)
		to.write(t, "node_modules/mysql2/index.js", body+`export default {createPool: tell};`)
		to.write(t, "line.mjs", line)
		out, err = to.runs(t, "node", "line.mjs")
	case "python":
		to.write(t, "psycopg.py", "import json, shlex\ndef connect(text, **more):\n    print(json.dumps({**dict(p.split('=', 1) for p in shlex.split(text)), **more}))\n")
		to.write(t, "mysql/__init__.py", "")
		to.write(t, "mysql/connector.py", "import json\ndef connect(**all):\n    print(json.dumps({**all, 'mode': 'verify_identity' if all.get('ssl_verify_identity') is True else 'none'}))\n")
		to.write(t, "line.py", line)
		out, err = to.runs(t, "python3", "line.py")
	case "java":
		to.write(t, "Line.java", strings.Replace(driver, "LINE", line, 1))
		if out, err = to.runs(t, "java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "Line.java"); err == nil {
			return fromJDBC(t, engine, out)
		}
	}
	var all map[string]any
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	if err != nil {
		t.Errorf("the line for %s: %v\n%s\n%s", kind, err, out, line)
	}
	return byName(all)
}

// driver is a program with a driver that tells what it was told.
const driver = `import java.sql.*;
import java.util.*;
public class Line {
  public static void main(String[] args) throws Exception {
    DriverManager.registerDriver(new Driver() {
      public Connection connect(String url, Properties info) throws SQLException {
        System.out.println(url + "\n" + info.getProperty("user") + "\n" + info.getProperty("password"));
        System.exit(0);
        return null;
      }
      public boolean acceptsURL(String url) { return true; }
      public DriverPropertyInfo[] getPropertyInfo(String url, Properties info) { return new DriverPropertyInfo[0]; }
      public int getMajorVersion() { return 1; }
      public int getMinorVersion() { return 0; }
      public boolean jdbcCompliant() { return false; }
      public java.util.logging.Logger getParentLogger() { return null; }
    });
LINE
  }
}`

func fromJDBC(t *testing.T, engine, out string) told {
	t.Helper()
	said := strings.Split(out, "\n")
	kind := map[string]string{"postgresql": "postgresql", "mysql": "mariadb"}[engine]
	u, err := url.Parse(strings.TrimPrefix(said[0], "jdbc:"))
	if err != nil || len(said) != 3 || u.Scheme != kind {
		t.Fatalf("the line for Java says %q, %v", said, err)
	}
	got := told{}
	for name, values := range u.Query() {
		maps.Copy(got, byName(map[string]any{name: values[0]}))
	}
	got["host"], got["port"], got["database"], got["user"], got["password"] = u.Hostname(), u.Port(), strings.TrimPrefix(u.Path, "/"), said[1], said[2]
	return got
}

// copied carries out the lines of a database's page in every language.
func copied(t *testing.T, w *world) {
	d := w.server.AwaitStatus(w.database(t, "1"), "active")
	w.do(t, w.visit("/console/databases/postgresql/1"), press("Show the password"), shown)
	w.lines(t, d, w.leads(t, d, d.Hosts.Primary, d.Port, "defaultdb"))
}

// readsLead finds behind the line for reads a replica, and behind the other the primary.
func readsLead(t *testing.T, w *world, d harness.Database) {
	t.Helper()
	w.do(t, w.visit(fmt.Sprintf("/console/databases/postgresql/%d", d.ID)), press("Show the password"), shown)
	to := w.leads(t, d, "", 0, "")
	for place, replica := range map[string]string{"primary": "f", "reads": "t"} {
		w.do(t, choose("To", place), until(fmt.Sprintf(`%s.value === %q`, control("To"), place)))
		if out, err := to.runs(t, "sh", "-c", w.shownAs(t, "How to connect")+` -Atc "SELECT pg_is_in_recovery()"`); err != nil || out != replica {
			t.Errorf("the line to %s leads to a replica: %q, %v", place, out, err)
		}
	}
}
