package console

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/pquerna/otp/totp"

	"steward/internal/statuspage"
	"steward/test/harness"
)

// scripts switches the page's own scripts on or off, as the reader of a status page may.
func scripts(on bool) step {
	return func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
		return err
	}
}

// find is the id of the first item of a list that a test holds for the one it looks for.
func (w *world) find(t *testing.T, path string, is func(map[string]any) bool) int {
	t.Helper()
	id := 0
	w.server.Eventually("an item of "+path, func() error {
		var list struct{ Data []map[string]any }
		if status, body := w.server.Call("GET", path+"?page_size=500", nil, &list); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, body)
		}
		for _, one := range list.Data {
			if is(one) {
				id = int(one["id"].(float64))
				return nil
			}
		}
		return fmt.Errorf("none of %d is it", len(list.Data))
	})
	return id
}

// statusPages publishes a page, and reads it as everybody can: without scripts.
func statusPages(t *testing.T, w *world) {
	const title = `Our <script>window.pwned=1</script> status`
	w.do(t, w.visit("/console/status-pages"), see("There is none. A status page"), press("Publish a status page"), fill("Address", "Front"), press("Save"), beside("Title", ""), beside("Address", ""),
		fill("Title", title), fill("Address", "front"), tick("front"), tick("again"), tick("Show response times"), press("Save"), see("/status/front"), see("1 service, 1 database"), press("Change "+title), fill("Days", "60"), press("Save"), until(`document.querySelector("tbody").innerText.includes("60")`), press("Change "+title), fill("Days", "90"), press("Save"), see("Saved."),
		press("Publish a status page"), fill("Title", "Brief"), fill("Address", "brief"), tick("front"), press("Save"), press("Delete Brief"), fill("Type brief to go on", "brief"), press("Delete"), until(`!document.body.innerText.includes("/status/brief")`))
	w.shoot(t, "status-pages")
	front := w.find(t, "/v4/managed/services", func(s map[string]any) bool { return s["label"] == "front" })
	issue := w.find(t, "/v4/managed/issues", func(i map[string]any) bool {
		for _, s := range i["services"].([]any) {
			if int(s.(float64)) == front {
				return true
			}
		}
		return false
	})
	w.do(t, w.visit(fmt.Sprintf("/console/issues/%d", issue)), fill("Write something", "For everybody. "+hostile[1]), tick("Show it to everybody on status pages"), press("Send"), see(", public"),
		press("Withdraw"), until(`!document.querySelector(".course").innerText.includes(", public")`), run(`[...document.querySelectorAll("button")].findLast(b => b.innerText === "Publish").click()`), see(", public"),
		fill("Write something", "Among us."), press("Send"), see("Among us."))
	w.awaitPage(t, `"uptime":0}]`) // the checks of today, which are written some seconds after
	w.do(t, scripts(false), w.visit("/status/front"), see("For everybody."))
	text := value[string](t, w.browser, `document.documentElement.outerHTML`)
	for _, secret := range []string{"127.0.0.1:1", "Among us.", "connection refused", "<script", "<img"} {
		if strings.Contains(text, secret) {
			t.Errorf("the page has %q", secret)
		}
	}
	if n := value[int](t, w.browser, `document.querySelectorAll(".bars td").length`); n != 180 {
		t.Errorf("%d bars", n)
	}
	if last := value[string](t, w.browser, `document.querySelector(".bars td:last-child").textContent`); !strings.HasSuffix(last, ": 0 %") {
		t.Errorf("today was %s", last)
	}
	w.shoot(t, "status-page")
	w.do(t, w.visit("/console/"), see("it needs JavaScript"), scripts(true))
	for path, kind := range map[string]string{"/status/front": "text/html; charset=utf-8", "/status/front.json": "application/json", "/status/front.atom": "application/atom+xml; charset=utf-8", "/status/front/badge.svg": "image/svg+xml"} {
		if status, _, h := w.ask(t, "GET", path, "", map[string]string{"Host": "status.example.org"}); status != http.StatusOK || h.Get("Content-Type") != kind || h.Values("Set-Cookie") != nil {
			t.Errorf("%s: %d %v", path, status, h)
		}
	}
	if status, _, h := w.ask(t, "GET", "/status/nosuch", w.cookie(t), nil); status != http.StatusNotFound || h.Values("Set-Cookie") != nil {
		t.Errorf("no such page: %d", status)
	}
	out, err := w.server.Command("status-page", "update", "front", "--days", "7", "--url", w.origin, "--token", w.server.Token)
	if err != nil || !strings.Contains(out, "/status/front") {
		t.Errorf("by the command line: %v %s", err, out)
	}
}

// tick clicks the box with a label.
func tick(label string) step { return both(until(control(label)), run(control(label)+".click()")) }

// inside makes a logical database, a user and an extension, and logs in as that user.
func inside(t *testing.T, w *world) {
	w.do(t, w.visit("/console/databases/postgresql/1/access"), see("Logical databases"), press("Add a logical database"), press("Add a logical database"), until(`document.querySelector("dialog .problem")`),
		fill("Name", "shop2"), press("Add a logical database"), until(`!document.querySelector("dialog")`), see("shop2"))
	w.do(t, press("Add a user"), fill("User name", "reporter"), choose("shop2", "write"), press("Add a user"), see("It is shown this one time."), see("shop2: read and write"))
	secret := strings.TrimSpace(value[string](t, w.browser, `document.querySelector(".alert.good .code pre").innerText`))
	w.do(t, press("I have it"), until(`!document.querySelector(".alert.good")`))
	var d harness.Database
	if status, body := w.server.Call("GET", "/v4/databases/postgresql/instances/1", nil, &d); status != http.StatusOK {
		t.Fatal(status, body)
	}
	as := func(password string) error {
		line := fmt.Sprintf("host=%s port=%d user=reporter password=%s dbname=shop2 sslmode=require", d.Hosts.Primary, d.Port, password)
		conn, err := pgx.Connect(t.Context(), line)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err
	}
	if err := as(secret); err != nil {
		t.Errorf("the user with the password that was shown: %v", err)
	}
	w.do(t, press("New password for reporter"), press("New password"), see("It is shown this one time."))
	if err := as(secret); err == nil {
		t.Error("the old password is taken")
	}
	w.do(t, press("I have it"), press("Grants of reporter"), choose("shop2", "read"), press("Save"), see("shop2: read"), until(`!document.querySelector("dialog")`))
	w.shoot(t, "access-inside")
	if _, err := w.open(t, "1").ExecContext(t.Context(), "CREATE EXTENSION citext VERSION '1.4'"); err != nil {
		t.Fatal(err)
	}
	w.do(t, w.visit("/console/databases/postgresql/1/access"), until(row("Extensions", "citext")), run(row("Extensions", "citext")+`.querySelector("button").click()`), until("!"+row("Extensions", "citext")+`?.innerText.includes("1.4")`))
	w.do(t, choose("Install an extension", "pg_trgm"), press("Install an extension"), press("Delete pg_trgm"), fill("Type pg_trgm to go on", "pg_trgm"), press("Delete"), until(`!document.querySelector("[aria-label='Delete pg_trgm']")`))
	w.do(t, press("Delete reporter"), fill("Type reporter to go on", "reporter"), press("Delete"), see("There is dbadmin only."),
		press("Delete shop2"), fill("Type shop2 to go on", "shop2"), press("Delete"), until(`!document.querySelector("[aria-label='Delete shop2']")`))
}

const backupsPage = "/console/databases/postgresql/1/backups"

// lost takes a snapshot, and loses a table. Until all is archived of that moment, which moments restores, other parts have their turn.
func lost(t *testing.T, w *world) {
	d := w.server.AwaitStatus(w.database(t, "1"), "active")
	if _, err := w.open(t, "1").ExecContext(t.Context(), "CREATE TABLE treasure AS SELECT n FROM generate_series(1, 77) n"); err != nil {
		t.Fatal(err)
	}
	w.do(t, w.visit(backupsPage), press("Back up now"), fill("Label", "treasure"), press("Back up now"), until(row("Backups", "treasure")+`?.innerText.includes("Complete")`))
	w.server.AwaitStatus(d, "active")
	if _, err := w.open(t, "1").ExecContext(t.Context(), "DROP TABLE treasure"); err != nil {
		t.Fatal(err)
	}
}

// moments restores the moment of the snapshot along the timeline, undoes the restore, and deletes an older backup.
func moments(t *testing.T, w *world) {
	d := harness.Database{ID: 1, Engine: "postgresql"}
	rows := func(id string) (n int) {
		if w.open(t, id).QueryRowContext(t.Context(), "SELECT count(*) FROM treasure").Scan(&n) != nil {
			return -1
		}
		return n
	}
	if n := rows("1"); n != -1 {
		t.Errorf("the lost table has %d rows", n)
	}
	w.do(t, w.visit(backupsPage), until(row("Backups", "treasure")))
	taken := value[int](t, w.browser, `new Date(`+row("Backups", "treasure")+`.querySelector("time").dateTime).getTime() / 1000`)
	along := func(at int) step { // as the arrow keys do
		return run(fmt.Sprintf(`(() => { const s = %s; s.value = %d; s.dispatchEvent(new Event("input", {bubbles: true})) })()`, control("Along the timeline"), at))
	}
	w.do(t, w.visit(backupsPage), press("Restore a moment"), until(`document.querySelector("dialog .timeline")`), until(`document.querySelector("dialog button.danger").disabled`),
		along(taken-1), see("Nothing of this moment is kept"), along(taken), until(fmt.Sprintf(`new Date(%s.value).getTime() / 1000 === %d`, control("Moment, in your time zone"), taken)), until(`!document.body.innerText.includes("Nothing of this moment is kept")`))
	w.shoot(t, "restore")
	w.do(t, fill("Type again to go on", "again"), press("Restore"), see("The restore begins."), until(`!document.querySelector("dialog")`))
	w.server.AwaitStatus(d, "active")
	if n := rows("1"); n != 77 {
		t.Errorf("the restored table has %d rows", n)
	}
	if w.thorough {
		forked(t, w, along(taken), rows)
	}
	w.do(t, w.visit(backupsPage), press("Undo the last restore"), fill("Type again to go on", "again"), press("Undo the last restore"), see("The restore begins."))
	w.server.AwaitStatus(d, "active")
	if n := rows("1"); n != -1 {
		t.Errorf("after the undo the table has %d rows", n)
	}
	before := row("Backups", "before")
	w.do(t, w.visit("/console/databases/postgresql/1/events"), see("Undo a restore"), w.visit(backupsPage), until(before), run(`[...`+before+`.querySelectorAll("button")].find(b => b.innerText === "Delete").click()`), fill("Type before to go on", "before"), press("Delete"), until("!"+before))
}

// forked makes a database of the shared one's moment that a step chooses, which has the lost table.
func forked(t *testing.T, w *world, moment step, rows func(id string) int) {
	t.Helper()
	w.do(t, w.visit(backupsPage), press("New database from a moment"), fill("Label of the new database", "x"), moment, press("New database"), beside("Label of the new database", ""), fill("Label of the new database", "forked"), press("New database"), until(`document.querySelector("h1").innerText === "forked"`), until(stateIs("Active")))
	made := harness.Database{ID: int64(value[int](t, w.browser, `Number(location.pathname.split("/").at(-1))`)), Engine: "postgresql"}
	if n := rows(fmt.Sprint(made.ID)); n != 77 {
		t.Errorf("the fork's table has %d rows", n)
	}
	if status, body := w.server.Call("DELETE", made.Path(), nil, nil); status != http.StatusOK {
		t.Error(status, body)
	}
}

// rest looks at usage, regions and machines, and makes and takes away clients and credentials.
func rest(t *testing.T, w *world) {
	w.do(t, w.visit("/console/account/usage"), see("again"), w.visit("/console/account/regions"), see("local"))
	w.do(t, w.visit("/console/account/clients"), press("Add an OAuth client"), fill("Label", "Robot"), fill("Where users are sent back to", "nonsense"), press("Save"), beside("Where users are sent back to", ""),
		fill("Where users are sent back to", "https://robot.example.org/"), press("Save"), see("It is shown this one time."), until(`document.querySelectorAll(".alert.good .code pre")[1].innerText.length > 20`), press("I have it"),
		press("New secret for Robot"), press("New secret"), see("It is shown this one time."), press("I have it"), until(`!document.querySelector(".alert.good")`),
		press("Change Robot"), fill("Where users are sent back to", "https://robot.example.org/back"), press("Save"), see("https://robot.example.org/back"),
		press("Delete Robot"), fill("Type Robot to go on", "Robot"), press("Delete"), until(`!document.body.innerText.includes("robot.example.org")`))
	w.do(t, w.visit("/console/machines"), see("The key that staff log in with"), see("ssh-ed25519"), until(`document.querySelector("button[aria-label^='Change ']")`), run(`document.querySelector("button[aria-label^='Change ']").click()`),
		fill("Port", "99999"), press("Save"), beside("Port", ""), fill("Port", "2222"), press("Save"), see("port 2222"))
	w.do(t, w.visit("/console/machines/credentials"), press("Add a credential"), fill("Label", "front's"), fill("User name", "root"), fill("Password", "not told"), press("Save"), see("front's"),
		press("New user name and password of front's"), fill("Password", "not told either"), press("Save"), until(`!document.querySelector("dialog")`),
		press("Change front's"), fill("Label", "the front's"), press("Save"), press("Delete the front's"), fill("Type the front's to go on", "the front's"), press("Delete"), see("There is none."))
	w.do(t, w.visit(fmt.Sprintf("/console/services/%d", w.find(t, "/v4/managed/services", func(s map[string]any) bool { return s["label"] == "front" }))), press("Check now"), see("It is checked within seconds."))
	w.do(t, w.visit("/console/databases/create"), see("linode_database_"), fill("Label", `a"b${x}`), see(`"a\"b$${x}"`))
}

// factor sets up a second factor, logs in with it, and by a recovery code, and does without it again.
func factor(t *testing.T, w *world) {
	w.do(t, w.visit("/console/account/security"), fill("E-mail", "nobody"), press("Save"), until(`document.querySelector(".problem")`), fill("E-mail", "first@example.org"), press("Save"), see("Saved."),
		press("Set up a second factor"), until(`document.querySelector("dialog img")?.naturalWidth === 240`), fill("Code", "000000"), press("Confirm"), see("The code is wrong"))
	w.shoot(t, "second-factor")
	secret := strings.TrimSpace(value[string](t, w.browser, `document.querySelector("dialog .code pre").innerText`))
	code := func(at time.Time) string {
		text, err := totp.GenerateCode(secret, at)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	begun := time.Now()
	w.do(t, fill("Code", code(begun)), press("Confirm"), see("These are your recovery codes"))
	codes := strings.Fields(value[string](t, w.browser, `document.querySelector(".alert.good .code pre").innerText`))
	if len(codes) != 10 {
		t.Fatalf("recovery codes %q", codes)
	}
	w.do(t, press("I have it"), see("you are asked for a code of your authenticator"), press("Log out"), see("Log in to steward"), logIn("admin", password), fill("Code of your authenticator, or a recovery code", "123"), press("Log in"), see("The code is wrong"),
		fill("Code of your authenticator, or a recovery code", code(begun.Add(30*time.Second))), press("Log in"), see("What happened last"))
	w.do(t, press("Log out"), see("Log in to steward"), logIn("admin", password), fill("Code of your authenticator, or a recovery code", codes[4]), press("Log in"), see("What happened last"))
	w.do(t, w.visit("/console/account/security"), press("Do without a second factor"), until(`document.querySelector("dialog")`), press("Do without a second factor"), see("Your password alone logs you in."),
		press("Log out"), see("Log in to steward"), logIn("admin", password), see("What happened last"))
}

// lateAnswer has the answer to what was zoomed into come after one has gone back, before the page has heard that it waits for another: the table that was
// opened in between stays.
const lateAnswer = `(async () => {
	const ask = window.fetch, button = text => [...document.querySelectorAll("button")].find(b => b.innerText === text), answers = [];
	window.fetch = async (to, how) => {
		const answer = await ask(to, how);
		if (String(to).includes("/metrics?")) await new Promise(given => answers.push(given));
		return answer;
	};
	const ends = Date.now() + 20_000;
	const until = async is => { while (!is() && Date.now() < ends) await new Promise(f => setTimeout(f, 5)); };
	button("Closer").click();
	await until(() => answers.length > 0);
	button("Whole time").click();
	while (!document.querySelector(".plots details summary") && Date.now() < ends) await null; // drawn at once, of what is known
	answers.forEach(given => given()); // before the page's effects, which wait for a frame
	window.fetch = ask;
	document.querySelector(".plots details summary").click();
	const opened = document.querySelector(".plots details");
	await until(() => document.querySelector(".plots details tbody tr"));
	return opened.isConnected && opened.open;
})()`

// plots zooms into what was measured, by the keyboard's buttons and by dragging, and takes it as CSV.
func plots(t *testing.T, w *world) {
	w.do(t, w.visit("/console/databases/postgresql/1/metrics"), until(`document.querySelector(".plot canvas")`), see("What happened meanwhile"))
	wide := value[string](t, w.browser, `[...document.querySelectorAll("p.hint")].find(p => p.innerText.includes("Drag across")).innerText`)
	w.do(t, press("Closer"), until(fmt.Sprintf(`![...document.querySelectorAll("p.hint")].some(p => p.innerText === %q)`, wide)), press("Earlier"), press("Whole time"), until(`document.querySelector(".plot canvas")`))
	w.do(t, run(`(() => {
		const over = document.querySelector(".plot .u-over"), box = over.getBoundingClientRect();
		const at = (type, part) => (type === "mouseup" ? document : over).dispatchEvent(new MouseEvent(type, {bubbles: true, button: 0, movementX: 9, clientX: box.left + box.width * part, clientY: box.top + 20, view: window}));
		at("mousemove", .3); at("mousedown", .3); at("mousemove", .6); at("mouseup", .6);
	})()`), until(`[...document.querySelectorAll("button")].some(b => b.innerText === "Whole time" && !b.disabled)`), press("Whole time"),
		until(`document.querySelector(".plots details summary")`)) // what lateAnswer goes back to is known
	if !value[bool](t, w.browser, lateAnswer) {
		t.Error("a late answer closes the table of a plot")
	}
	w.do(t, w.visit("/console/databases/postgresql/1/metrics"))
	w.do(t, run(`(() => { const make = URL.createObjectURL; URL.createObjectURL = b => { b.text().then(x => window.taken = x); return make(b); }; })()`),
		until(`document.querySelector(".plots details summary")`), run(`document.querySelector(".plots details summary").click()`), run(`[...document.querySelectorAll(".plots button")].find(b => b.innerText === "CSV").click()`), until(`/^"time","/.test(window.taken ?? "")`))
	w.do(t, until(`document.querySelectorAll(".plots details tbody tr").length > 1`))
	if lines := strings.Split(value[string](t, w.browser, `window.taken`), "\r\n"); len(lines) < 3 || !strings.Contains(lines[1], "Z,") {
		t.Errorf("CSV %q", lines)
	}
}

// zones shows times as a reader elsewhere has them, with UTC beside, and events of one person, which are marked as seen.
func zones(t *testing.T, w *world) {
	zone := func(name string) step {
		return func(ctx context.Context) error {
			_, err := chromedp.Call(ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
			return err
		}
	}
	const both = `/^\d+ \w+ 20\d\d, \d\d:\d\d:\d\d (GMT\+5:45|\+0545|NPT) 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC$/.test(%s?.innerText)`
	w.do(t, zone("Asia/Kathmandu"), w.load("/console/account/logins"), until(fmt.Sprintf(both, `document.querySelector("tbody time")`)),
		w.visit("/console/databases/postgresql/1/metrics"), until(`document.querySelector(".plots details summary")`), run(`document.querySelector(".plots details summary").click()`), until(fmt.Sprintf(both, `document.querySelector(".plots tbody time")`)),
		w.visit("/console/databases/postgresql/1/backups"), press("Restore a moment"), until(control("Moment, in your time zone")))
	if apart := value[int](t, w.browser, `(new Date(`+control("Moment, in your time zone")+`.value + "Z") - new Date(document.querySelector("dialog .hint").innerText.replace(" UTC", "Z").replace(" ", "T"))) / 60000`); apart != 345 {
		t.Errorf("the moment of the field is %d minutes from UTC", apart)
	}
	w.do(t, press("Cancel"), zone(""), w.load("/console/events"), until(`document.querySelector("tbody .new")`), fill("Who", "nobody"), see("Nothing has happened yet."), fill("Who", "adm"), until(`[...document.querySelectorAll("tbody tr")].every(r => r.cells[3].innerText === "admin")`),
		press("Older"), see("Page 2 of"), press("Newer"), see("Page 1 of"), press("Mark all as seen"), until(`document.querySelector("tbody tr") && !document.querySelector("tbody .new")`))
}

// awaitPage waits until the status page has something: what it showed before is kept for 15 seconds. It asks as often as the page's limit for an
// address lets a reader ask, and leaves room for the browser.
func (w *world) awaitPage(t *testing.T, part string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	pace := time.NewTicker(2 * time.Minute / statuspage.PerMinute)
	defer pace.Stop()
	for {
		_, body, _ := w.ask(t, "GET", "/status/front.json", "", nil)
		if strings.Contains(body, part) {
			return
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			t.Fatalf("the status page doesn't get %s: %.300s", part, body)
		}
	}
}

// pictures makes those of README in a folder.
func pictures(t *testing.T, w *world, folder string) {
	conn, err := pgx.Connect(t.Context(), w.server.StoreURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{ // names for people, and a past
		`UPDATE clusters SET label = 'shop' WHERE id = 1`,
		`UPDATE services SET label = 'Web shop' WHERE label = 'front'`,
		`UPDATE status_pages SET title = 'Status of our shop', days = 90`,
		`UPDATE ticket_replies SET text = 'The web shop doesn''t answer. We are replacing a load balancer; it will be back within the hour.' WHERE public`,
		`INSERT INTO check_days (service_id, day, checks, failures, total_ms, longest_ms)
			SELECT id, current_date - d, 1440, CASE WHEN d IN (17, 18) THEN 90 WHEN d = 51 THEN 400 WHEN d % 13 = 5 THEN 1 ELSE 0 END, 1440 * 85, 900
			FROM services, generate_series(1, 89) d WHERE label = 'Web shop' ON CONFLICT DO NOTHING`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(sql, err)
		}
	}
	w.awaitPage(t, "Status of our shop")
	w.do(t, w.visit("/console/"), press("Log out"), see("Log in to steward"), logIn("admin", password), see("What happened last"))
	for name, path := range map[string]string{"overview": "/console/databases/postgresql/1", "backups": "/console/databases/postgresql/1/backups", "status": "/status/front"} {
		w.do(t, look(1100, "light"), w.visit(path), until(`document.querySelector("h1") && !document.querySelector("main .wait")`))
		if name == "overview" {
			w.do(t, until(`[...document.querySelectorAll(".facts .status")].some(e => e.innerText === "Active")`))
		}
		shot, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.do(t, look(1280, "light"))
}
