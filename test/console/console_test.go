package console

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"steward/internal/testdir"
	"steward/test/harness"
)

const password = "correct horse battery"

// world is one server and one browser, which the cases share: both cost seconds.
type world struct {
	*browser
	server *harness.Server
	origin string
	// watcher is a tab that is left open on the database's page, of which nobody asks anything.
	watcher *world
	// all is the test that the cases are of.
	all *testing.T
	// thorough is for more than each thing once.
	thorough bool
}

// TestConsole is a person's first day with the console and, beside it, what a person does there with databases.
func TestConsole(t *testing.T) {
	t.Parallel()
	allParts(t, false)
}

// TestConsoleThorough is TestConsole with all screens in both themes, wide and narrow, all dialogs, and further ways to do what that does one way. It has
// an address to itself that TestConsole wants as well, and so isn't beside it.
func TestConsoleThorough(t *testing.T) {
	allParts(t, true)
}

// part is what is tried in one go. The next one builds on it.
type part struct {
	name string
	run  func(*testing.T, *world)
}

// firstDay is the name of the one that has all but what databases go through.
const firstDay = "the first day"

// days are the parts in their order: each day has a server and a browser of its own, and is beside the other.
var days = map[string][]part{
	firstDay: {
		{"the first log-in", firstLogin},
		{"empty lists say what they are for", empty},
		{"create, copy the line, run it", createAndConnect},
		{"what others do shows at once", live},
		{"the server is killed and comes back", killed},
		{"two tabs see each other", tabs},
		{"within a second", withinSecond},
		{"nothing stored becomes a script", stored},
		{"a backup", backup},
		{"settings", settings},
		{"services, issues and contacts", managed},
		{"users, tokens and log-ins", people},
		{"status pages", statusPages},
		{"slow statements and plans", statements},
		{"a log is read page by page", logPages},
		{"alert rules and channels", alerts},
		{"a service is mended", mended},
		{"bars of a service", bars},
		{"what machines do", load},
		{"usage, clients, machines and credentials", rest},
		{"what operators see", operators},
		{"plots", plots},
		{"marks and the cursor on plots", happenings},
		{"a log that is followed", followed},
		{"nothing moves for who doesn't want it", still},
		{"times and events", zones},
		{"what an alert rule finds", standing},
		{"everybody can use it", accessible},
		{"an alert that has ended", ended},
		{"a second factor", factor},
		{"a screen reader is told all of it", screenReader},
		{"the keyboard is enough", keyboard},
		{"from creating to deleting by keys alone", byKeys},
		{"five hundred databases and a month", many},
		{"requests from other sites are refused", otherSites},
		{"what a page may not do", guarded},
		{"no secret stays behind", secrets},
		{"no secret is in an address", addresses},
		{"secrets ask for the password again", stale},
		{"the password before what destroys, and before a second factor", stepUp},
		{"log-out ends the cookie", logout},
		{"who may only see is offered nothing else", readOnly},
	},
	"databases": {
		{"the first log-in", firstLogin},
		{"restore a backup", restored},
		{"the last proven backup", proven},
		{"a table is lost", lost},
		{"the same by hand", byHand},
		{"all lines to connect by", copied},
		{"what is inside a database", inside},
		{"connection pools", pooled},
		{"an import, a newer version and a last backup", moves},
		{"a primary is killed before one's eyes", failover},
		{"the other family's pages", besides},
		{"restore a moment, and undo it", moments},
		{"gaps in what can be restored", gaps},
		{"no secret is in an address", addresses},
	},
}

// further are the parts of TestConsoleThorough alone.
var further = []string{"from creating to deleting by keys alone", "an import, a newer version and a last backup"}

func allParts(t *testing.T, thorough bool) {
	testdir.NeedsServers(t)
	var mu sync.Mutex
	asked := map[string]bool{}
	if !t.Run("side by side", func(t *testing.T) {
		for day, parts := range days {
			t.Run(day, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, thorough)
				if folder := os.Getenv("STEWARD_PICTURES"); folder != "" && day == firstDay { // make pictures
					parts = append(slices.Clone(parts), part{"the pictures of README", func(t *testing.T, w *world) { pictures(t, w, folder) }})
				}
				w.goThrough(t, parts)
				w.mu.Lock()
				defer w.mu.Unlock()
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(asked, w.asked)
			})
		}
	}) {
		return
	}
	t.Run("only the public API is asked", func(t *testing.T) { publicOnly(t, asked, thorough) })
	if folder := os.Getenv("STEWARD_SCREENSHOTS"); folder != "" {
		if err := album(folder); err != nil {
			t.Error(err)
		}
	}
}

func newWorld(t *testing.T, thorough bool) *world {
	t.Helper()
	s := harness.New(t, harness.WithConfig("imports:\n  networks: [127.0.0.0/8]"), withPrices(t))
	w := &world{browser: newBrowser(t), server: s, origin: "http://" + s.Listen(), all: t, thorough: thorough}
	w.watcher = &world{browser: w.tab(t), server: s, origin: w.origin}
	w.lendClipboard(t)
	return w
}

// goThrough tries a day's parts, up to the first that fails.
func (w *world) goThrough(t *testing.T, parts []part) {
	t.Helper()
	for _, p := range parts {
		if slices.Contains(further, p.name) && !w.thorough {
			continue
		}
		if !t.Run(p.name, func(t *testing.T) {
			p.run(t, w)
			w.quiet(t)
		}) {
			return
		}
	}
}

// load goes to a page by its address: the browser loads the console anew.
func (w *world) load(path string) step { return visit(w.origin + path) }

// visit goes to a page by a link, as a person does who is in the console already, which draws the page and reads nothing but what it shows: that
// takes less than half of what loading it does. What was said on the page before is seen no longer: the next one may be to say the same. From
// elsewhere, to the same page again, and from one whose requests a case has changed, the page is loaded.
func (w *world) visit(path string) step {
	return func(ctx context.Context) error {
		if !strings.HasPrefix(path, "/console/") {
			return w.load(path)(ctx)
		}
		there, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`(async frame => {
			if (location.origin !== %q || location.pathname === %[2]q || !frame || !String(fetch).includes("[native code]")) return false;
			document.querySelectorAll(".said span").forEach(said => said.hidden = true);
			const link = frame.appendChild(Object.assign(document.createElement("a"), {href: %[2]q}));
			link.click();
			link.remove();
			await new Promise(drawn => { // and the heading has the focus; what isn't seen isn't drawn
				requestAnimationFrame(() => setTimeout(drawn));
				setTimeout(drawn, 100);
			});
			return location.pathname === %[2]q;
		})(document.querySelector("header nav:has(a)"))`, w.origin, path), chromedp.EvalAwaitPromise))
		if err == nil && there {
			return nil
		}
		return w.load(path)(ctx)
	}
}

func firstLogin(t *testing.T, w *world) {
	out, err := w.server.Command("user", "link", "admin", "--data", w.server.Data, "--url", w.origin)
	if err != nil {
		t.Fatal(err, out)
	}
	link := strings.TrimSpace(out)
	w.do(t, visit(link), fill("Password", "short"), fill("The same password again", "short"), press("Set the password"), see("Length must be 12-128"),
		fill("Password", password), fill("The same password again", password), press("Set the password"))
	w.do(t, see("Log in to steward"), logIn("admin", password), see("The first three steps"))
	if at := value[string](t, w.browser, "location.pathname"); at != "/console/" {
		t.Errorf("logged in at %s", at)
	}
	w.shoot(t, "home-empty")
	w.do(t, visit("about:blank"), visit(link), fill("Password", password+"2"), fill("The same password again", password+"2"), press("Set the password"), see("The link was used already"))
	if w.cookie(t) == "" {
		t.Error("no cookie")
	}
}

// logIn fills in the API's own page.
func logIn(name, password string) step {
	return both(fill("User name", name), fill("Password", password), press("Log in"))
}

// cookie is the session's, as the browser keeps it, out of scripts' reach.
func (w *world) cookie(t *testing.T) string {
	t.Helper()
	all, err := chromedp.Call(w.ctx, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Cookies {
		if c.Name == "steward" {
			if !c.HTTPOnly || c.SameSite != "Lax" || c.Path != "/" {
				t.Errorf("a cookie %+v", c)
			}
			return c.Value
		}
	}
	return ""
}

func createAndConnect(t *testing.T, w *world) {
	w.do(t, w.visit("/console/databases"), see("You have no database yet."), press("Create a database"),
		fill("Label", "x"), press("Create"), beside("Label", "Length must be 3-32"), see("nobody can connect"))
	if n := value[int](t, w.browser, `document.querySelectorAll(".problem, [aria-invalid]").length`); n != 2 {
		t.Errorf("%d things are said to be wrong where the label is", n)
	}
	w.do(t, choose("Engine", "postgresql/15"), fill("Label", "shop"), press("Add my address (127.0.0.1)"), until(control("Addresses that may connect")+`.value === "127.0.0.1/32"`))
	w.shoot(t, "create")
	w.do(t, press("Create"), see("shop"), see("Show the password"))
	w.do(t, press("Show the password"), until(`!document.querySelector(".code pre").innerText.includes("PASSWORD=PASSWORD")`))
	w.do(t, until(`[...document.querySelectorAll(".facts .status")].some(e => e.innerText === "Active")`))
	w.shoot(t, "overview")
	line := value[string](t, w.browser, `document.querySelector(".code pre").innerText`)
	w.connects(t, "shop")
	w.do(t, press("Copy: How to connect"))
	w.copied(t, "How to connect")
	for _, kind := range []string{"uri", "env", "yaml", "go", "rust", "node", "python", "java", "php", "dotnet", "rails"} {
		w.do(t, choose("With", kind), until(fmt.Sprintf(`document.querySelector(".code pre").innerText !== %q`, line)))
	}
}

func live(t *testing.T, w *world) {
	w.do(t, w.visit("/console/databases"), see("shop"))
	id := value[int](t, w.browser, `Number(document.querySelector("tbody a").href.split("/").at(-1))`)
	begun := time.Now()
	if status, body := w.server.Call("PUT", fmt.Sprintf("/v4/databases/postgresql/instances/%d", id), map[string]any{"label": "store"}, nil); status != http.StatusOK {
		t.Fatal(status, body)
	}
	w.do(t, see("store"))
	t.Logf("another's change showed after %s", time.Since(begun).Round(time.Millisecond))
}

func killed(t *testing.T, w *world) {
	w.do(t, run(`window.marked = true`))
	w.server.Kill()
	w.do(t, see("The server doesn't answer."))
	w.server.Start()
	w.do(t, until(`!document.body.innerText.includes("The server doesn't answer.")`))
	if status, body := w.server.Call("PUT", "/v4/databases/postgresql/instances/1", map[string]any{"label": "again"}, nil); status != http.StatusOK {
		t.Fatal(status, body)
	}
	w.do(t, see("again"), until(`window.marked`)) // on the same page
}

// hostile are texts that become scripts where somebody forgets to show them as text.
var hostile = []string{
	`<script>window.pwned=1</script>`, `<img src=x onerror="window.pwned=1">`, `"><svg onload="window.pwned=1">`, `javascript:window.pwned=1`,
	`{{constructor.constructor('window.pwned=1')()}}`, `</title><script>window.pwned=1</script>`, "\u202egnirts", `'-window.pwned=1-'`,
}

func stored(t *testing.T, w *world) {
	id := "1"
	taken := 0
	for i, text := range hostile {
		name := fmt.Sprintf("%d %.20s", i, text)
		for path, body := range map[string]map[string]any{
			"/v4/managed/services":       {"label": name, "service_type": "tcp", "address": "127.0.0.1:1", "timeout": 1, "notes": text, "region": "local", "interval": 86400},
			"/v4/managed/contacts":       {"name": name, "email": "x@example.org", "group": name},
			"/v4/account/oauth-clients":  {"label": name, "redirect_uri": "https://example.org/"},
			"/v4/monitor/alert-channels": {"label": name, "channel_type": "email", "details": map[string]any{"email": map[string]any{"addresses": []string{"x@example.org"}}}},
			"/v4/monitor/services/dbaas/alert-definitions": {
				"label": name, "description": text, "severity": 3, "channel_ids": []int{1}, "scope": "account",
				"rule_criteria":      map[string]any{"rules": []map[string]any{{"metric": "cpu_usage", "aggregate_function": "avg", "operator": "gt", "threshold": 100}}},
				"trigger_conditions": map[string]any{"criteria_condition": "ALL", "evaluation_period_seconds": 300, "polling_interval_seconds": 300, "trigger_occurrences": 30},
			},
			"/v4/profile/tokens":                           {"label": name, "scopes": "events:read_only"},
			"/v4/databases/postgresql/instances/1/backups": {"label": name},
		} {
			switch status, answer := w.server.Call("POST", path, body, nil); status {
			case http.StatusOK:
				taken++
			case http.StatusBadRequest: // some rules let none in
			default:
				t.Fatal(path, status, answer)
			}
		}
	}
	if taken < 5*len(hostile) {
		t.Errorf("the API took %d hostile texts only", taken)
	}
	w.write(t, id)
	asleep, wake := context.WithCancel(t.Context())
	defer wake()
	db := w.open(t, id)
	go func() { // a statement that runs, and that lists of running ones show
		_, _ = db.ExecContext(asleep, "SELECT pg_sleep(600) AS "+quoted(hostile[0]))
	}()
	w.do(t, w.visit("/console/databases/postgresql/"+id+"/queries"), until(row("Running now", hostile[0])), until(row("What statements cost", hostile[0])), until(row("Log", hostile[0])))
	w.asText(t, "queries")
	wake()
	for path, shown := range map[string]string{ // accessible goes to all others
		"/console/services": hostile[1], "/console/contacts": hostile[1], "/console/account/tokens": hostile[1], "/console/account/clients": hostile[1], "/console/alerts/channels": hostile[1],
		"/console/events": "", "/console/account/audit": "",
	} {
		w.do(t, w.visit(path), loaded, see(fmt.Sprintf("%.18s", shown))) // as text
		w.asText(t, path)
	}
	inDrawer(t, w)
}

// asText fails when what is stored has become a part of the page, or its script has run.
func (w *world) asText(t *testing.T, where string) {
	t.Helper()
	if value[bool](t, w.browser, `"pwned" in window || document.querySelectorAll("main script, main img, main iframe, main svg:not(.timeline, .spark), dialog script, dialog img, dialog iframe, dialog svg:not(.timeline)").length > 0`) {
		t.Errorf("%s ran what was stored", where)
	}
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// database is one by its number, and open connects to it.
func (w *world) database(t *testing.T, id string) (d harness.Database) {
	t.Helper()
	if status, body := w.server.Call("GET", "/v4/databases/postgresql/instances/"+id, nil, &d); status != http.StatusOK {
		t.Fatal(status, body)
	}
	return d
}

func (w *world) open(t *testing.T, id string) *sql.DB {
	t.Helper()
	d := w.database(t, id)
	return w.server.MustConnect(d, w.server.Credentials(d))
}

// write has a database's statistics and log name tables after the hostile texts.
func (w *world) write(t *testing.T, id string) {
	t.Helper()
	d := w.database(t, id)
	db := w.server.MustConnect(d, w.server.Credentials(d))
	for _, text := range hostile {
		name := quoted(text)
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS "+name+" (x int)"); err != nil {
			t.Fatal(err)
		}
		_, _ = db.ExecContext(t.Context(), "SELECT 1 FROM "+name)
	}
	c := w.server.Credentials(d)
	nowhere, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s password=%s sslmode=require", d.Hosts.Primary, d.Port, c.Username, c.Password))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range hostile { // which the log tells of
		nowhere.Database = text
		if conn, err := pgx.ConnectConfig(t.Context(), nowhere); err == nil {
			_ = conn.Close(t.Context())
		}
	}
}

func managed(t *testing.T, w *world) {
	w.do(t, w.visit("/console/services"), press("Watch a service"), fill("Address", "nonsense"), press("Save"), beside("Label", ""), beside("Address", ""),
		fill("Label", "front"), choose("Kind", "tcp"), fill("Address", "127.0.0.1:1"), choose("Region", "local"), fill("Seconds between checks", "10"), press("Save"), see("The service is watched."), press("Stop checking"), press("Check again"), see("Stop checking"),
		fill("Notes", "Behind the balancer"), press("Save"), see("Saved."), see("Behind the balancer"))
	w.do(t, w.visit("/console/services/add"), fill("Label", "brief"), choose("Kind", "tcp"), fill("Address", "127.0.0.1:2"), choose("Region", "local"), press("Save"), see("Stop checking"), press("Delete"), fill("Type brief to go on", "brief"), press("Delete"),
		until(`location.pathname === "/console/services"`), until(`!document.querySelector("table")?.innerText.includes("brief")`))
	w.do(t, w.visit("/console/contacts"), press("Add a contact"), fill("Name", "Ann"), fill("E-mail", "nobody"), press("Save"), beside("E-mail", ""),
		fill("E-mail", "ann@example.org"), press("Save"), see("ann@example.org"), press("Change Ann"), fill("Group", "night"), press("Save"), see("night"),
		press("Delete Ann"), fill("Type Ann to go on", "Ann"), press("Delete"), until(`!document.body.innerText.includes("ann@example.org")`))
	// Nothing listens there: the first checks open an issue.
	w.do(t, w.visit("/console/issues"), until(`document.querySelector("tbody a")`), run(`document.querySelector("tbody a").click()`), see("What happened"),
		fill("Write something", "We look at it."), press("Send"), see("We look at it."))
	for _, text := range hostile {
		if strings.ContainsRune(text, '\u202e') { // which no key types
			continue
		}
		w.do(t, fill("Write something", "Reply "+text), press("Send"), until(fmt.Sprintf(`[...document.querySelectorAll(".course pre")].some(p => p.innerText.startsWith("Reply ") && p.innerText.includes(%q))`, text)), until(control("Write something")+`.value === ""`))
	}
	w.asText(t, "a ticket")
	// Another one answers at first, and breaks: mended looks at it again.
	listener := listenAt(t, shakyAddress)
	w.do(t, w.visit("/console/services/add"), fill("Label", "shaky"), choose("Kind", "tcp"), fill("Address", shakyAddress), choose("Region", "local"), fill("Seconds between checks", "10"), press("Save"), see("Stop checking"), press("Check now"), until(stateIs("OK")))
	_ = listener.Close()
	w.do(t, press("Check now"), until(`document.querySelector("button:not(:disabled)")`))
}

// shakyAddress is one that nothing else of the machine listens at.
const shakyAddress = "127.77.18.1:7718"

func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// stateIs is whether the page's thing has a state, by the word for it.
func stateIs(word string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".facts .status")].some(e => e.innerText === %q)`, word)
}

// mended finds the service that broke, with its issue; it answers again, and the open page shows that by itself.
func mended(t *testing.T, w *world) {
	shaky := w.find(t, "/v4/managed/services", func(s map[string]any) bool { return s["label"] == "shaky" })
	w.do(t, w.visit(fmt.Sprintf("/console/services/%d", shaky)), until(stateIs("Problem")), see("The connection was refused."), run(`window.marked = true`),
		w.visit("/console/"), until(`[...document.querySelectorAll(".needs a")].some(a => a.innerText.includes("shaky"))`), run(`[...document.querySelectorAll(".needs a")].find(a => a.innerText.includes("shaky")).click()`), until(stateIs("Open")), run(`window.marked = true`))
	listenAt(w.all, shakyAddress)
	for range 2 { // as many good checks as it takes
		if status, body := w.server.Call("POST", fmt.Sprintf("/v4/managed/services/%d/check", shaky), nil, nil); status >= 300 {
			t.Fatal(status, body)
		}
	}
	w.do(t, until(stateIs("Closed")), until(`window.marked`), w.visit(fmt.Sprintf("/console/services/%d", shaky)), until(stateIs("OK")))
}

func people(t *testing.T, w *world) {
	w.do(t, w.visit("/console/account"), press("Add a user"), fill("User name", "bob"), fill("E-mail", "bob@example.org"), press("Add a user"), see("bob@example.org"),
		press("Grants of bob"), choose("again", "read_only"), press("Save"), see("Saved."),
		press("Add a user"), fill("User name", "eve"), fill("E-mail", "eve@example.org"), press("Add a user"), press("Change eve"), fill("E-mail", "nobody"), press("Save"), beside("E-mail", ""), fill("E-mail", "eve@example.net"), tick("May do only what is granted"), press("Save"), until(row("Users", "eve@example.net")+`?.innerText.includes("All")`),
		press("Delete eve"), fill("Type eve to go on", "eve"), press("Delete"), until(`!document.body.innerText.includes("eve@example.net")`))
	browsers(t, w)
	w.do(t, w.visit("/console/account/tokens"), press("Make a token"), fill("Label", "robot"), press("Make a token"), see("This is the token."))
	text := value[string](t, w.browser, `document.querySelector(".code pre").innerText`)
	r, err := http.NewRequestWithContext(t.Context(), "GET", w.origin+"/v4/databases/instances", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(text))
	if resp, err := http.DefaultClient.Do(r); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the token: %v, %v", resp, err)
	}
	w.do(t, press("I have it"), until(`!document.querySelector(".code")`), press("Delete robot"), press("Delete"), until(`!document.querySelector("[aria-label='Delete robot']")`), w.visit("/console/account/logins"), see("127.0.0.1"), w.visit("/console/account/apps"), see("this browser"),
		w.visit("/console/account/audit"), until(row("Audit trail", "DELETE /v4/profile/tokens/")+`?.innerText.includes("admin")`), tick("Only what was refused"), fill("User name", "nobody"), see("Nothing was changed."))
}

// browsers logs in elsewhere, with browsers that say they are others, and ends those sessions: one by itself, then all but one's own.
func browsers(t *testing.T, w *world) {
	agents := []string{"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0", `<img src=x onerror="window.pwned=1"> Firefox/1 Macintosh`, strings.Repeat("<script>window.pwned=1</script>", 100)}
	var others []*world
	for _, agent := range agents {
		b := &world{browser: w.stranger(t), server: w.server, origin: w.origin}
		if _, err := chromedp.Call(b.ctx, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: agent}); err != nil {
			t.Fatal(err)
		}
		b.do(t, b.visit("/console/databases"), see("Log in to steward"), logIn("admin", password), see("again"))
		others = append(others, b)
	}
	rows := `[...document.querySelectorAll("[role=region][aria-label='Your browsers'] tbody tr")]`
	w.do(t, w.visit("/console/account/apps"), until(fmt.Sprintf(`%s.length === %d`, rows, len(agents)+1)))
	for _, text := range []string{"Firefox on Windows", "Firefox on macOS", "A browser"} {
		if n := value[int](t, w.browser, fmt.Sprintf(`%s.filter(r => r.innerText.includes(%q) && r.innerText.includes("127.0.0.1") && r.querySelectorAll("time").length === 2 && !r.innerText.includes("this browser")).length`, rows, text)); n != 1 {
			t.Errorf("%d sessions of %s", n, text)
		}
	}
	if mine := value[[]string](t, w.browser, rows+`.filter(r => r.innerText.includes("this browser")).map(r => r.innerText)`); len(mine) != 1 || !strings.Contains(mine[0], "Chrome on Linux") || strings.Contains(mine[0], "End") {
		t.Errorf("this browser is %q", mine)
	}
	w.shoot(t, "browsers")
	w.do(t, press("End the access of Firefox on Windows"), press("End"), until(fmt.Sprintf(`%s.length === %d`, rows, len(agents))))
	others[0].do(t, others[0].visit("/console/databases"), see("Log in to steward"))
	w.do(t, press("End all others"), see("This one stays."), press("End"), until(rows+`.length === 1`), see("this browser"))
	for _, b := range others {
		b.do(t, b.visit("/console/databases"), see("Log in to steward"))
		if value[bool](t, b.browser, `"pwned" in window`) {
			t.Error("what a browser calls itself became a script")
		}
		b.quiet(t)
	}
}

// readOnly is a user who may see one database: what it may not do isn't offered.
func readOnly(t *testing.T, w *world) {
	out, err := w.server.Command("user", "link", "bob", "--data", w.server.Data, "--url", w.origin)
	if err != nil {
		t.Fatal(err, out)
	}
	w.do(t, press("Log out"), see("Log in to steward"), visit("about:blank"), visit(strings.TrimSpace(out)), fill("Password", password), fill("The same password again", password), press("Set the password"),
		see("Log in to steward"), logIn("bob", password), see("What happened last"), w.visit("/console/databases"), see("again"))
	own := []string{"tokens", "apps", "security"} // which are about the caller itself
	// unasked are pages that know by themselves that they aren't for this user.
	unasked := []string{"create", "addservice", "settings", "alerts", "channels", "account", "clients", "audit", "usage", "accounts", "hosts", "doctor", "notices"}
	seen := []string{"home", "databases", "overview", "metrics", "queries", "backups", "access", "happened", "events", "logins", "regions"}
	for name, path := range screens {
		if name == "public" || name == "nothing" || slices.Contains(own, name) {
			continue
		}
		w.mu.Lock()
		clear(w.refused)
		w.mu.Unlock()
		w.do(t, w.visit(path), loaded)
		offered := value[[]string](t, w.browser, `[...document.querySelectorAll("main button:not(.sort, .copy), main form, main a.button")].filter(e => e.checkVisibility() && !e.disabled).map(e => e.innerText.trim())`)
		offered = slices.DeleteFunc(offered, func(text string) bool { return harmless[text] })
		if len(offered) > 0 && name != "settings" && name != "access" || name == "access" && slices.Contains(offered, "Save") {
			t.Errorf("%s offers %q", name, offered)
		}
		w.mu.Lock()
		if refused := w.refused[w.origin+path]; slices.Contains(seen, name) == (len(refused) > 0) && !slices.Contains(unasked, name) {
			t.Errorf("%s asked for what its user may not have: %q", name, refused)
		}
		w.mu.Unlock()
		if why := value[bool](t, w.browser, `document.querySelector("main").innerText.includes("Your user may not") || document.querySelector("main").innerText.includes("You may see this, but not change it.")`); why == slices.Contains(seen, name) && name != "access" {
			t.Errorf("%s says that it isn't the user's to see: %v", name, why)
		}
	}
	w.do(t, w.visit("/console/databases/postgresql/1/settings"), see("You may see this, but not change it."), w.visit("/console/account"), see("Your user may not see this."),
		w.visit("/console/services"), see("Your user may not see this."), w.visit("/console/services/add"), see("Your user may not see this."), w.visit("/console/databases/create"), see("Your user may not create databases."))
}

// harmless are buttons that change nothing, by their texts.
var harmless = map[string]bool{
	"Show the password": true, "Hide the password": true, "Download the CA certificate": true, "Earlier": true, "Later": true, "Closer": true, "Whole time": true, "CSV": true, "Read again": true, "Older lines": true, "Earlier ones": true, "Try again": true, "Show all": true,
}

// stale makes the session's password old: secrets ask for it again.
func stale(t *testing.T, w *world) {
	conn, err := pgx.Connect(t.Context(), w.server.StoreURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "UPDATE console_sessions SET confirmed = confirmed - interval '15 minutes'"); err != nil {
		t.Fatal(err)
	}
	w.do(t, w.visit("/console/databases/postgresql/1"), press("Show the password"), see("Your password, please"), fill("Password", "wrong and long enough"), press("Go on"), see("The password is wrong."),
		press("Cancel"), see("Not done"), press("Show the password"), fill("Password", password), press("Go on"), until(`!document.querySelector(".code pre").innerText.includes("PASSWORD=PASSWORD")`))
}

func backup(t *testing.T, w *world) {
	w.do(t, w.visit("/console/databases/postgresql/1/backups"), press("Back up now"), fill("Label", "before"), press("Back up now"), see("Complete"), see("By hand"), until(`document.querySelector(".timeline")`))
	w.shoot(t, "backups")
}

// restored has a database as it was at a backup: the one that all parts of its day are about.
func restored(t *testing.T, w *world) {
	d := w.server.CreateActive(harness.Small("again", "postgresql/15"))
	w.server.Snapshot(d, "before", "primary")
	w.do(t, w.visit("/console/databases/postgresql/1/backups"), until(`document.querySelector(".timeline")`), until(`document.querySelector("button[aria-label^='Restore the backup']")`), run(`document.querySelector("button[aria-label^='Restore the backup']").click()`),
		see("All data of again becomes"), until(`document.querySelector("dialog .danger").disabled`), fill("Type again to go on", "again"), press("Restore"),
		until(`!document.querySelector("dialog")`), w.load("/console/databases/postgresql/1"), see("Restore"),
		until(`[...document.querySelectorAll(".facts .status")].some(e => e.innerText === "Active")`))
}

func settings(t *testing.T, w *world) {
	w.do(t, w.visit("/console/databases/postgresql/1/settings"), fill("pg.deadlock_timeout", "2000"), see("pg.deadlock_timeout: default → 2000"),
		run(`[...document.querySelectorAll("form")].find(f => f.querySelector(".parameters")).requestSubmit()`), see("Saved."))
	w.do(t, until(`fetch("/console/v4/databases/postgresql/instances/1").then(r => r.json()).then(d => window.seen = d) && window.seen?.engine_config?.pg?.deadlock_timeout === 2000 && window.seen.status === "active"`))
	w.shoot(t, "settings")
	w.do(t, w.visit("/console/databases/postgresql/1/access"), fill("Addresses that may connect", "127.0.0.1/32 # this machine"), see("127.0.0.1/32: this machine"), press("Save"), see("The allow list is saved."), until(control("Addresses that may connect")+`.value === "127.0.0.1/32 # this machine"`),
		fill("Addresses that may connect", "127.0.0.1/32\rnonsense"), press("Save"), beside("Addresses that may connect", "nonsense"), press("Cancel"),
		w.visit("/console/databases/postgresql/1/settings"), press("Delete the database"), until(`document.querySelector("dialog .danger").disabled`), press("Cancel"), until(`!document.querySelector("dialog")`))
	w.do(t, w.visit("/console/databases/postgresql/1/metrics"), until(`document.querySelector(".plot canvas")`))
	w.shoot(t, "metrics")
}

var screens = map[string]string{
	"home": "/console/", "databases": "/console/databases", "create": "/console/databases/create", "events": "/console/events", "overview": "/console/databases/postgresql/1",
	"metrics": "/console/databases/postgresql/1/metrics", "queries": "/console/databases/postgresql/1/queries", "backups": "/console/databases/postgresql/1/backups",
	"services": "/console/services", "service": "/console/services/1", "issues": "/console/issues", "issue": "/console/issues/1", "contacts": "/console/contacts", "alerts": "/console/alerts", "channels": "/console/alerts/channels", "account": "/console/account",
	"tokens": "/console/account/tokens", "apps": "/console/account/apps", "clients": "/console/account/clients", "logins": "/console/account/logins", "audit": "/console/account/audit", "usage": "/console/account/usage", "regions": "/console/account/regions",
	"accounts": "/console/operator", "hosts": "/console/operator/hosts", "doctor": "/console/operator/doctor", "notices": "/console/operator/notices",
	"addservice": "/console/services/add", "nothing": "/console/nosuch", "pages": "/console/status-pages", "security": "/console/account/security", "public": "/status/front", "machines": "/console/machines", "credentials": "/console/machines/credentials",
	"access": "/console/databases/postgresql/1/access", "settings": "/console/databases/postgresql/1/settings", "happened": "/console/databases/postgresql/1/events",
}

// looks are the windows and themes that every screen is looked at in: each width and theme once, or all of them, and then with axe-core's rules.
func (w *world) looks() []window {
	if !w.thorough {
		return []window{{1280, "light", noRules}, {360, "dark", noRules}}
	}
	return []window{{1280, "light", allRules}, {1280, "dark", rulesOfColors}, {360, "dark", allRules}, {360, "light", rulesOfColors}}
}

type window struct {
	width int64
	theme string
	rules string
}

// Rules of axe-core that a window is looked at by, as its options. What depends on neither theme nor width is looked at once.
const (
	allRules      = `{}`
	rulesOfColors = `{runOnly: {type: "rule", values: ["color-contrast", "link-in-text-block"]}}`
	noRules       = `` // it is measured only
)

// axe is a step that gives the page axe-core, unless it has it.
func axe(t *testing.T) step {
	t.Helper()
	text, err := os.ReadFile("../../web/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("scripts/setup --build fetches it: %v", err)
	}
	given := script(string(text))
	return func(ctx context.Context) error {
		if has, err := evaluate[bool](ctx, `"axe" in window`); err != nil || has {
			return err
		}
		return given(ctx)
	}
}

// axeRun has axe-core look at the page, and keeps what is serious.
const axeRun = `axe.run(document, Object.assign({resultTypes: ["violations"]}, %s)).then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical").map(v => ({Impact: v.impact, ID: v.id, Nodes: v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary)})))`

// tallestScreen is how tall a screen may be on a phone before somebody asks for more: ten of it.
const tallestScreen = 9_000

// sticksOut is what reaches beyond the inner edge of its card or dialog, and can't be scrolled to.
const sticksOut = `[...document.querySelectorAll("main .card, dialog")].flatMap(card => {
	const edge = card.getBoundingClientRect().right - parseFloat(getComputedStyle(card).paddingRight) + 1;
	return [...card.querySelectorAll("*")].filter(e => e.closest(".card, dialog") === card && e.getBoundingClientRect().right > edge && e.checkVisibility() && !e.closest(".scroll, .code pre, .plot, .unseen, svg")).map(e => e.outerHTML.slice(0, 200));
})`

// tooWide is how many pixels a page or its dialog is wider than the window. Plots follow a window's width in a later frame: they have two seconds.
const tooWide = `new Promise(tell => {
	const begun = performance.now();
	const look = () => {
		const dialog = document.querySelector("dialog");
		const over = Math.max(document.documentElement.scrollWidth - innerWidth, (dialog?.scrollWidth ?? 0) - (dialog?.clientWidth ?? 0));
		over > 0 && performance.now() - begun < 2000 ? setTimeout(look, 50) : tell(over);
	};
	look();
})`

// examine has axe-core look at the page in a window, which must be wide enough for it.
func (w *world) examine(t *testing.T, where string, at window) {
	t.Helper()
	type finding struct {
		Impact, ID string
		Nodes      []string
	}
	w.do(t, look(at.width, at.theme))
	if at.rules != noRules {
		for _, f := range value[[]finding](t, w.browser, fmt.Sprintf(axeRun, at.rules)) {
			t.Errorf("%s, %d px, %s: %s %s: %q", where, at.width, at.theme, f.Impact, f.ID, f.Nodes)
		}
	}
	if over := value[int](t, w.browser, tooWide); over > 0 {
		t.Errorf("%s, %d px: %d pixels too wide", where, at.width, over)
	}
	if out := value[[]string](t, w.browser, sticksOut); len(out) > 0 {
		t.Errorf("%s, %d px: beyond the edge of what it is in: %q", where, at.width, out)
	}
	if tall := value[int](t, w.browser, `document.documentElement.scrollHeight`); at.width < 1000 && tall > tallestScreen {
		t.Errorf("%s, %d px wide, is %d tall", where, at.width, tall)
	}
}

// accessible looks at every screen in both themes, narrow and wide, and at Chromium's accessibility tree. What is stored is text on all of them.
// Beside it a page stands open on which nothing happens.
func accessible(t *testing.T, w *world) {
	resting := idle(t, w)
	// Scripts' timers are counted, to see which screens ask again and again.
	made, err := chromedp.Call(w.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `window.timers = []; { const set = window.setInterval; window.setInterval = (f, ms) => { window.timers.push(ms); return set(f, ms); }; }`})
	if err != nil {
		t.Fatal(err)
	}
	given := axe(t)
	w.do(t, look(1280, "light"), w.load(screens["nothing"]), loaded)
	for name, path := range screens {
		w.do(t, look(1280, "light"), run(`window.timers = []`), w.visit(path), loaded, given)
		w.asText(t, name)
		if name != "public" { // which is its own kind of page
			w.listens(t, name)
			if timers := value[[]int](t, w.browser, `window.timers`); len(timers) > 0 && !slices.Contains(measuring, name) {
				t.Errorf("%s asks again each %v ms though nothing has happened", name, timers)
			}
		}
		for _, at := range w.looks() {
			w.examine(t, name, at)
			w.shoot(t, fmt.Sprintf("screen-%s-%d-%s", name, at.width, at.theme))
		}
	}
	if _, err := chromedp.Call(w.ctx, page.RemoveScriptToEvaluateOnNewDocument, page.RemoveScriptToEvaluateOnNewDocumentParams(made)); err != nil {
		t.Fatal(err)
	}
	w.do(t, look(1280, "light"))
	// And the pages before somebody has logged in.
	out := &world{browser: w.stranger(t), server: w.server, origin: w.origin, thorough: w.thorough}
	for _, path := range []string{"/console/first", "/console/login"} {
		out.do(t, out.visit(path), until(`document.querySelector("h1") && !document.querySelector("main .wait")`), given)
		for _, at := range out.looks() {
			out.examine(t, path, at)
		}
	}
	out.quiet(t)
	resting()
}

// keyboard goes through a page by the tab key alone: it meets everything that can be used,
// and the list's own keys move and open.
func keyboard(t *testing.T, w *world) {
	w.do(t, w.load("/console/databases/postgresql/1"), see("Show the password"), until(`!document.querySelector("main .wait")`), run(`window.met = new Set()`), run(`document.addEventListener("focusin", e => window.met.add(e.target))`))
	for range value[int](t, w.browser, `document.querySelectorAll("a, button, select, input, textarea, [tabindex='0']").length`) + 3 {
		w.do(t, keys("\t"))
	}
	missed := value[[]string](t, w.browser, `[...document.querySelectorAll("a[href], button, select, input, textarea")].filter(e => e.checkVisibility() && !e.disabled && !window.met.has(e)).map(e => e.outerHTML)`)
	if len(missed) > 0 {
		t.Errorf("the tab key doesn't reach %q", missed)
	}
	w.do(t, w.visit("/console/databases"), see("again"), keys("j"), until(`document.activeElement.innerText === "again"`), keys("\r"), see("Show the password"),
		press("Databases"), see("Keys:"), keys("/"), until(`document.activeElement.type === "search"`), keys("nosuch"), see("No database matches."))
}

// ask sends a request as a browser would, from another site or this one.
func (w *world) ask(t *testing.T, method, path, cookie string, headers map[string]string) (status int, body string, header http.Header) {
	t.Helper()
	return request(t, method, w.origin+path, "{}", func(r *http.Request) {
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "steward", Value: cookie})
		}
		for name, value := range headers {
			if name == "Host" {
				r.Host = value
			}
			r.Header.Set(name, value)
		}
	})
}

// request sends a request, changed before, and follows no redirect.
func request(t *testing.T, method, url, content string, change func(*http.Request)) (status int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	change(r)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: patience}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

func otherSites(t *testing.T, w *world) {
	cookie := w.cookie(t)
	evil := map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"}
	for _, c := range []struct {
		method, path string
		headers      map[string]string
		want         int
	}{
		{"GET", "/console/v4/profile", nil, 200},
		{"GET", "/console/v4/profile", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"GET", "/console/v4/profile", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{"POST", "/console/v4/databases/postgresql/instances/1/suspend", evil, 403},
		{"POST", "/console/v4/databases/postgresql/instances/1/suspend", map[string]string{"Origin": "https://evil.example"}, 403},
		{"POST", "/console/logout", evil, 403},
		{"POST", "/console/confirm", evil, 403},
		{"GET", "/console/v4/profile", map[string]string{"Host": "evil.example"}, 421},
		{"GET", "/console/v4/../healthz", nil, 307},
		{"GET", "/console/v4/%2e%2e/oauth/authorize", nil, 404},
		{"GET", "/console/v4/%2e%2e%2fmetrics", nil, 404},
		{"PATCH", "/console/v4/profile", map[string]string{"Sec-Fetch-Site": "same-origin"}, 405},
	} {
		if status, body, _ := w.ask(t, c.method, c.path, cookie, c.headers); status != c.want {
			t.Errorf("%s %s %v: %d, want %d: %s", c.method, c.path, c.headers, status, c.want, body)
		}
	}
	if status, body, _ := w.ask(t, "GET", "/console/v4/profile", "", map[string]string{"Authorization": "Bearer " + w.server.Token}); status != 401 {
		t.Errorf("the console takes tokens: %d %s", status, body)
	}
	if status, _, header := w.ask(t, "GET", "/console/", "", nil); status != 200 || !strings.Contains(header.Get("Content-Security-Policy"), "frame-ancestors 'none'") || header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", status, header)
	}
	// A callback that this browser didn't begin, and a page to go to that is another's.
	if status, _, header := w.ask(t, "GET", "/console/callback?code="+strings.Repeat("a", 64)+"&state="+strings.Repeat("b", 64), cookie, nil); status != 403 || strings.Contains(strings.Join(header.Values("Set-Cookie"), ";"), "steward=") {
		t.Errorf("a stranger's callback: %d %v", status, header)
	}
	w.do(t, w.visit("/console/login?to=//evil.example/console/"), see("Log in to steward"), logIn("admin", "wrong and long enough"), see("User name or password is wrong."), logIn("admin", password), see("What happened last"))
	if at := value[string](t, w.browser, "location.href"); at != w.origin+"/console/" {
		t.Errorf("sent to %s", at)
	}
	if after := w.cookie(t); after == cookie {
		t.Error("the cookie is the one of before the log-in")
	}
	if status, _, _ := w.ask(t, "GET", "/console/v4/profile", cookie, nil); status != 401 {
		t.Errorf("the session that a new one replaced: %d", status)
	}
}

var longHex = regexp.MustCompile(`[0-9a-f]{64}`)

// secrets looks where a token or password would be left behind.
func secrets(t *testing.T, w *world) {
	cookie := w.cookie(t)
	w.do(t, w.visit("/console/databases/postgresql/1"), press("Show the password"), until(`!document.querySelector(".code pre").innerText.includes("PASSWORD=PASSWORD")`))
	shown := regexp.MustCompile(`PGPASSWORD=(\S+)`).FindStringSubmatch(value[string](t, w.browser, `document.querySelector(".code pre").innerText`))
	w.do(t, press("Hide the password"), until(`document.querySelector(".code pre").innerText.includes("PASSWORD=PASSWORD")`))
	kept := value[string](t, w.browser, `JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie, location.href, document.documentElement.outerHTML])`)
	if longHex.MatchString(kept) || strings.Contains(kept, cookie) || len(shown) != 2 || strings.Contains(kept, shown[1]) {
		t.Errorf("a secret is left in the browser: %.2000s", kept)
	}
	if caches := value[int](t, w.browser, `caches.keys().then(k => k.length)`); caches != 0 {
		t.Errorf("%d caches", caches)
	}
	for _, path := range []string{"/console/v4/profile", "/console/v4/databases/postgresql/instances/1/credentials"} {
		if status, _, header := w.ask(t, "GET", path, cookie, nil); status != 200 || header.Get("Cache-Control") != "no-store" || header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", path, status, header)
		}
	}
	log, err := os.ReadFile(w.server.LogPath)
	if err != nil || strings.Contains(string(log), cookie) || strings.Contains(string(log), password) || len(shown) == 2 && strings.Contains(string(log), shown[1]) {
		t.Errorf("a secret is in the log, %v", err)
	}
}

// reviewedPath lists the operations that no page asks, each with the reason: whoever adds one says here that it needs none.
const reviewedPath = "testdata/uncalled.txt"

var update = flag.Bool("update", false, "write testdata/uncalled.txt anew, with TestConsoleThorough")

// operationOf is the document's for a request, the one with the fewest parameters; "" when there is none.
func operationOf(known map[string]bool, request string) (found string) {
	if known[request] {
		return request
	}
	for operation := range known {
		pattern := regexp.MustCompile(`\\\{[^}]+\\\}`).ReplaceAllString(regexp.QuoteMeta(operation), `[^/]+`)
		if regexp.MustCompile("^"+pattern+"$").MatchString(request) && (found == "" || strings.Count(operation, "{") < strings.Count(found, "{")) {
			found = operation
		}
	}
	return found
}

// bothEngines takes what there is for both engines for one.
func bothEngines(operation string) string {
	return strings.Replace(operation, "/databases/mysql/", "/databases/postgresql/", 1)
}

// publicOnly holds what the pages of all days asked against the API's document.
func publicOnly(t *testing.T, asked map[string]bool, thorough bool) {
	t.Helper()
	document, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	path := ""
	for line := range strings.Lines(string(document)) {
		if strings.HasPrefix(line, "  /v4/") {
			path = strings.TrimSuffix(strings.TrimSpace(line), ":")
		}
		if method := strings.TrimSpace(line); strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "     ") && path != "" {
			known[strings.ToUpper(strings.TrimSuffix(method, ":"))+" "+path] = true
		}
	}
	if len(asked) < 15 || len(known) < 150 {
		t.Fatalf("%d requests seen, %d known", len(asked), len(known))
	}
	called := map[string]bool{}
	for request := range asked {
		operation := operationOf(known, request)
		if operation == "" {
			t.Errorf("the console asked for %s, which isn't in the document", request)
		}
		called[bothEngines(operation)] = true
	}
	uncalled := map[string]bool{}
	for operation := range known {
		if !called[bothEngines(operation)] {
			uncalled[bothEngines(operation)] = true
		}
	}
	reviewed := map[string]string{}
	text, err := os.ReadFile(reviewedPath)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		operation, why, _ := strings.Cut(strings.TrimSpace(line), " # ")
		reviewed[operation] = why
	}
	if !thorough { // TestConsoleThorough asks for more
		maps.DeleteFunc(uncalled, func(operation string, _ bool) bool { _, ok := reviewed[operation]; return !ok })
	}
	if *update {
		var lines strings.Builder
		for _, operation := range slices.Sorted(maps.Keys(uncalled)) {
			fmt.Fprintf(&lines, "%s # %s\n", operation, reviewed[operation])
		}
		if err := os.WriteFile(reviewedPath, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	was, now := slices.Sorted(maps.Keys(reviewed)), slices.Sorted(maps.Keys(uncalled))
	if !slices.Equal(was, now) {
		t.Errorf("the operations that the console doesn't call are others than testdata/uncalled.txt has (-reviewed +now):\n%s", cmp.Diff(was, now))
	}
	for operation, why := range reviewed {
		if why == "" {
			t.Errorf("testdata/uncalled.txt doesn't say why the console doesn't call %s", operation)
		}
	}
}

// refusedLate has a page hear after its log-out that what it reads meanwhile is refused.
const refusedLate = `(() => {
	const ask = window.fetch;
	let told;
	const refused = new Promise(f => told = f);
	window.fetch = async (to, how) => {
		const answer = await ask(to, how);
		if (String(to).endsWith("/logout")) {
			document.dispatchEvent(new Event("visibilitychange")); // has all be read anew
			await refused;
		} else if (answer.status === 401) {
			told();
			await new Promise(f => setTimeout(f));
		}
		return answer;
	};
})()`

func logout(t *testing.T, w *world) {
	w.do(t, w.visit("/console/databases"), run(refusedLate), press("Log out"), see("Log in to steward"), logIn("admin", password), see("What happened last"))
	if at := value[string](t, w.browser, "location.pathname"); at != "/console/" {
		t.Errorf("a log-in after a log-out begins at %s", at)
	}
	cookie := w.cookie(t)
	w.do(t, w.visit("/console/"), press("Log out"), see("Log in to steward"))
	if left := w.cookie(t); left != "" {
		t.Errorf("the browser still has %s", left)
	}
	if status, body, _ := w.ask(t, "GET", "/console/v4/profile", cookie, nil); status != 401 {
		t.Errorf("a stolen cookie after log-out: %d %s", status, body)
	}
	w.do(t, w.visit("/console/databases"), see("Log in to steward"), logIn("admin", password), see("again"))
	if at := value[string](t, w.browser, "location.pathname"); at != "/console/databases" {
		t.Errorf("after the log-in at %s", at)
	}
	if _, err := w.server.Command("user", "link", "nobody", "--data", w.server.Data); err == nil {
		t.Error("a link for nobody")
	}
}
