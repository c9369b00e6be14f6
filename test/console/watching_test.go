package console

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/test/harness"
)

// connects carries out the line for psql that the page shows, beside the CA certificate under the name that it says.
func (w *world) connects(t *testing.T, label string) {
	t.Helper()
	line := value[string](t, w.browser, `document.querySelector(".code pre").innerText`)
	certificate := value[string](t, w.browser, `fetch("/console/v4/databases/" + location.pathname.split("/")[3] + "/instances/" + location.pathname.split("/")[4] + "/ssl").then(r => r.json()).then(s => s.ca_certificate)`)
	pem, err := base64.StdEncoding.DecodeString(certificate)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, label+"-ca.crt"), pem, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := ` -Atc "SELECT 6 * 7"`
	if !strings.Contains(line, " psql ") {
		ask = ` -Ne "SELECT 6 * 7"`
	}
	command := exec.CommandContext(ctx, "sh", "-c", line+ask)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "42" {
		t.Errorf("the line of the page answered %q, %v", out, err)
	}
}

// shown waits until the page has the password that it asks for.
var shown = until(`!document.querySelector(".code pre").innerText.includes("PASSWORD=PASSWORD")`)

// row is the one of a table that has a text, by the table's label.
func row(table, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('[role=region][aria-label=%q] tbody tr')].find(r => r.innerText.includes(%q))`, table, text)
}

// pooled makes a pool, connects to it by the line of the page, changes it and takes it away.
func pooled(t *testing.T, w *world) {
	const access = "/console/databases/postgresql/1/access"
	w.do(t, w.visit(access), see("There is none. In a pool"), press("Add a connection pool"), fill("Label", "bad label"), fill("Connections", "0"), press("Save"), beside("Label", ""), beside("Connections", ""),
		fill("Label", "app"), fill("Connections", "5"), press("Save"), until(`!document.querySelector("dialog")`), until(row("Connection pools", "app")), see("Pools are at 127.0.0.1"))
	w.server.AwaitStatus(harness.Database{ID: 1, Engine: "postgresql"}, "active")
	w.shoot(t, "pools")
	w.do(t, w.visit("/console/databases/postgresql/1"), choose("To", "pool/app"), until(`document.querySelector(".code pre").innerText.includes("dbname=app")`), press("Show the password"), shown)
	w.connects(t, "again")
	w.do(t, w.visit(access), press("Change app"), choose("Another client's turn", "session"), fill("User", strings.Repeat("x", 64)), press("Save"), until(control("User")+`.getAttribute("aria-invalid")`), fill("User", "dbadmin"), press("Save"),
		until(row("Connection pools", "When a client leaves")+`?.innerText.includes("dbadmin")`))
	w.server.AwaitStatus(harness.Database{ID: 1, Engine: "postgresql"}, "active")
	w.do(t, press("Change app"), until(control("User")+`.value === "dbadmin"`), fill("User", ""), press("Save"), until(row("Connection pools", "app")+`?.innerText.includes("All")`))
	w.server.AwaitStatus(harness.Database{ID: 1, Engine: "postgresql"}, "active")
	w.do(t, press("Delete app"), fill("Type app to go on", "app"), press("Delete"), see("There is none. In a pool"), until(`document.activeElement === document.querySelector("h1")`))
	w.server.AwaitStatus(harness.Database{ID: 1, Engine: "postgresql"}, "active")
}

// statements sets from when on a statement is slow, finds one that was, and asks for plans.
func statements(t *testing.T, w *world) {
	const queries = "/console/databases/postgresql/1/queries"
	w.do(t, w.visit(queries), see("Statements that take long aren't logged"), fill("Log from so many milliseconds on", "-5"), press("Save"), beside("Log from so many milliseconds on", ""),
		fill("Log from so many milliseconds on", "200"), press("Save"), see("It begins."))
	d := w.server.AwaitStatus(harness.Database{ID: 1, Engine: "postgresql"}, "active")
	db := w.server.MustConnect(d, w.server.Credentials(d))
	for _, sql := range []string{"SELECT pg_sleep(0.4)", "CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY)", "SELECT count(*) FROM orders WHERE id > 7"} {
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	w.server.Eventually("the slow statement to be listed", func() error {
		if status, body := w.server.Call("GET", d.Path()+"/queries/slow", nil, nil); status != http.StatusOK || !strings.Contains(body, "pg_sleep") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	if _, err := db.ExecContext(t.Context(), "SELECT 'a value' FROM nowhere WHERE id = 'another'"); err == nil {
		t.Error("there is a table of that name")
	}
	w.do(t, w.visit(queries), choose("At least", "error"), until(row("Log", `dbadmin@defaultdb: relation "nowhere" does not exist`)), until(`!document.querySelector("main").innerText.includes("a value")`))
	w.do(t, press("Read again"), until(row("Statements that took long", "pg_sleep")))
	if value[string](t, w.browser, control("Log from so many milliseconds on")+".value") != "200" {
		t.Error("the page has another threshold")
	}
	w.shoot(t, "slow")
	w.do(t, press("Plan of a statement"), fill("Statement", "SELECT * FROM nosuch"), press("Show the plan"), until(`document.querySelector("dialog .problem, dialog .alert")`),
		fill("Statement", "SELECT * FROM orders WHERE id > 7"), press("Show the plan"), until(`/on orders( using \w+)? \(cost [\d.,]+, [\d.,]+ rows\)/.test(document.querySelector("dialog .code")?.innerText)`))
	w.shoot(t, "plan")
	w.do(t, press("Close"), w.visit(queries), until(row("What statements cost", "FROM orders")), run(row("What statements cost", "FROM orders")+`.querySelector("button").click()`), press("Show the plan"),
		until(`[...document.querySelectorAll("dialog .code")].at(-1).innerText.includes("(cost ")`), press("Close"), see("The largest tables"))
	w.do(t, press("Begin to count anew"), press("Begin to count anew"), until(`!document.querySelector("dialog")`), until("!"+row("What statements cost", "pg_sleep")))
	ended := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), "SELECT pg_sleep(600)")
		ended <- err
	}()
	w.do(t, w.visit(queries), until(row("Running now", "pg_sleep")), run(row("Running now", "pg_sleep")+`.querySelector("button").click()`), see("Stop this statement?"), press("Stop"))
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("the statement ended with %v", err)
	}
}

// receiver is what a channel leads to.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, in.Header.Get("X-Steward-Signature")+" "+string(body))
	}))
	t.Cleanup(r.Close)
	return r
}

// alerts makes a channel that is told, and a rule that names it and holds at once.
func alerts(t *testing.T, w *world) {
	to := newReceiver(t)
	w.do(t, w.visit("/console/alerts/channels"), see("Contacts"), press("Add a channel"), fill("Label", "ops"), fill("URL", "nonsense"), press("Save"), beside("URL", ""),
		fill("URL", to.URL+"/in?key=hidden"), choose("Region", "local"), press("Save"), see("It is shown this one time."), until(row("Where alerts are told", "ops")))
	first := strings.TrimSpace(value[string](t, w.browser, `document.querySelector(".alert.good .code pre").innerText`))
	if len(first) < 32 || value[bool](t, w.browser, `document.body.innerText.includes("hidden")`) {
		t.Errorf("secret %q; the URL's query is shown, or there is no secret", first)
	}
	w.do(t, press("I have it"), press("Send a test to ops"), press("Send a test"), see("ops took the test."))
	to.mu.Lock()
	if len(to.got) != 1 || !strings.HasPrefix(to.got[0], "v1=") {
		t.Errorf("the channel was told %q", to.got)
	}
	to.mu.Unlock()
	w.do(t, press("New secret for ops"), press("New secret"), see("It is shown this one time."))
	if again := strings.TrimSpace(value[string](t, w.browser, `document.querySelector(".alert.good .code pre").innerText`)); again == first {
		t.Error("the secret is the old one")
	}
	w.shoot(t, "alert-channels")
	w.do(t, press("I have it"), press("Change ops"), fill("Label", "night shift"), press("Save"), until(row("Where alerts are told", "night shift")),
		press("Calls"), see("The same by hand"))
	if value[bool](t, w.browser, `document.querySelector("dialog").innerText.includes("hidden")`) {
		t.Error("the calls show the channel's URL")
	}
	w.do(t, press("Close"), w.visit("/console/alerts"), see("Disk over 80 %"), press("Change Disk over 80 %"), see("This rule is the system's"), fill("Threshold (percent)", "70"), press("Save"), until(row("By what databases are judged", "above 70 %")))
	w.do(t, press("Add a rule"), fill("Label", "busy"), fill("Looks in a row that must find it", "99"), press("Save"), until(`document.querySelector("dialog .problem")`), fill("Looks in a row that must find it", "1"),
		choose("What is measured", "connections"), choose("Over the period, its", "max"), choose("Is", "gte"), choose("Of the nodes", "primary"), fill("Threshold (count)", "0"), choose("Looked at together", "30"), choose("Time between looks", "30"),
		choose("Of", "entity"), tick("again"), tick("night shift"), press("Save"), until(row("By what databases are judged", "busy")))
	if text := value[string](t, w.browser, row("By what databases are judged", "busy")+".innerText"); !strings.Contains(text, "at least 0") || !strings.Contains(text, "night shift") || !strings.Contains(text, "Chosen databases: 1") {
		t.Errorf("the rule is shown as %q", text)
	}
	w.shoot(t, "alerts")
	w.watcher.do(t, w.watcher.visit("/console/databases/postgresql/1"), see("Show the password"), run(`window.marked = true`))
}

// busy finds the issue of the rule busy, closed or not. Servers that were restarted again and again have opened others by then.
func (w *world) busy(closed bool) error {
	var found struct {
		Data []struct {
			Closed *string
			Entity struct{ Label string }
		}
	}
	_, body := w.server.Call("GET", "/v4/managed/issues", nil, &found)
	for _, issue := range found.Data {
		if strings.HasPrefix(issue.Entity.Label, "again: busy") && (issue.Closed != nil) == closed {
			return nil
		}
	}
	return errors.New(body)
}

// standing finds what the rule of alerts opened: it stands on the database's page, which was open all the time, and on the first. Then the rule is
// switched off, and a message that reached nobody is sent again.
func standing(t *testing.T, w *world) {
	w.server.Eventually("the rule to open an issue", func() error { return w.busy(false) })
	w.watcher.do(t, see("What is wrong now"), until(`[...document.querySelectorAll(".needs a")].some(a => a.pathname.startsWith("/console/issues/"))`), until(`window.marked`))
	w.watcher.shoot(t, "standing")
	w.do(t, w.visit("/console/"), until(`[...document.querySelectorAll(".needs a")].some(a => a.innerText.startsWith("Open issue: again: busy"))`),
		w.visit("/console/alerts"), press("Change busy"), tick("Switched on"), press("Save"), until(row("By what databases are judged", "Off")),
		w.visit("/console/operator/notices"), tick("Only those that couldn't be delivered"), until(row("Notices", "No mail server is configured")), run(row("Notices", "No mail server is configured")+`.querySelector("button").click()`), see("Tried again at once."))
}

// ended finds the issue closed, and the page as it was; then rule and channel go.
func ended(t *testing.T, w *world) {
	w.server.Eventually("the issue to close", func() error { return w.busy(true) })
	w.watcher.do(t, until(`!document.body.innerText.includes("again: busy")`), until(`window.marked`))
	w.watcher.quiet(t)
	w.do(t, w.visit("/console/alerts"), press("Delete busy"), fill("Type busy to go on", "busy"), press("Delete"), until("!"+row("By what databases are judged", "busy")),
		w.visit("/console/alerts/channels"), press("Delete night shift"), fill("Type night shift to go on", "night shift"), press("Delete"), until("!"+row("Where alerts are told", "night shift")))
}
