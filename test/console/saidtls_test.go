package console

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sayTLS finds on a page of MariaDB's that the URI and the variables say how the server is verified, and a client that does as they say is let in over TLS, with
// another certificate isn't; what Terraform's provider has no argument for is told in its text.
func (w *world) sayTLS(t *testing.T, to target) {
	t.Helper()
	line := func(kind string) string {
		w.do(t, choose("With", kind), until(fmt.Sprintf(`%s.value === %q`, control("With"), kind)))
		return w.shownAs(t, "How to connect")
	}
	told, err := url.Parse(line("uri"))
	if err != nil || told.Query().Get("ssl-mode") != "VERIFY_IDENTITY" || told.Query().Get("ssl-ca") != to.ca {
		t.Fatalf("the URI says %v, %v", told, err)
	}
	password, _ := told.User.Password()
	env := line("env")
	command := regexp.MustCompile(`(?m)^# (mariadb .*)$`).FindStringSubmatch(env)
	if command == nil {
		t.Fatalf("the variables come without a command: %s", env)
	}
	const ask = ` -Ne "SELECT VARIABLE_VALUE <> '' FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher'"`
	commands := map[string]string{
		"uri": fmt.Sprintf("MYSQL_PWD='%s' mariadb --host=%s --port=%s --user=%s --ssl-ca='%s' --ssl-verify-server-cert %s", password, told.Hostname(), told.Port(), told.User.Username(), told.Query().Get("ssl-ca"), strings.TrimPrefix(told.Path, "/")) + ask,
		"env": "set -a\n" + env + "\n" + command[1] + ask,
	}
	for kind, line := range commands {
		if out, err := to.runs(t, "sh", "-c", line); err != nil || out != "1" {
			t.Errorf("%s: %q, %v: %s", kind, out, err, line)
		}
	}
	if err := os.WriteFile(filepath.Join(to.folder, to.ca), w.server.Credentials(w.database(t, "1")).CA, 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, line := range commands {
		if out, err := to.runs(t, "sh", "-c", line); err == nil || !strings.Contains(out, "certificate") {
			t.Errorf("%s with another's certificate: %q, %v", kind, out, err)
		}
	}

	w.do(t, w.visit("/console/databases/create"), choose("Engine", "mysql/10.11"), fill("Label", "beside"), until(fact("Engine")+` === "MariaDB 10.11"`))
	comments := func() []string {
		return regexp.MustCompile(`(?m)^  # .*$`).FindAllString(w.shownAs(t, "Terraform"), -1)
	}
	if found := comments(); len(found) > 0 {
		t.Errorf("nothing is missing, and the text says %q", found)
	}
	w.do(t, tick("Encrypt the data on the disk"), fill("Addresses that may connect", "192.0.2.0/24 # the ${office}"), until(`[...document.querySelectorAll("pre")].some(p => p.innerText.includes("192.0.2.0/24: the ${office}"))`))
	if found := comments(); len(found) != 3 || !strings.Contains(found[0], "no argument for encrypted") || !strings.Contains(found[1], "no argument for notes") {
		t.Errorf("what is missing is told by %q", found)
	}
}
