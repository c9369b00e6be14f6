package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"steward/test/harness"
)

// witnessed keeps what the API answers the page, by path, in window.answers; what is in window.given is answered in its place. The page reads all anew.
const witnessed = `(() => {
	const ask = window.fetch;
	window.answers = {};
	window.fetch = async (to, how) => {
		const path = String(to).replace("/console", "").replace(/\?.*/, "");
		const {"If-None-Match": tag, ...headers} = how?.headers ?? {}; // whole, whatever the page has already
		const given = window.given?.[path];
		const answer = given ? new Response(JSON.stringify(given), {status: 200, headers: {"Content-Type": "application/json"}}) : await ask(to, {...how, headers});
		if (answer.ok && answer.headers.get("Content-Type")?.includes("json")) window.answers[path] = await answer.clone().json();
		return answer;
	};
	document.dispatchEvent(new Event("visibilitychange"));
})()`

// giving has the page read an answer of the API's in place of its own.
func giving(t *testing.T, path string, answer any) step {
	t.Helper()
	text, err := json.Marshal(map[string]any{path: answer})
	if err != nil {
		t.Fatal(err)
	}
	return both(run("window.given = "+string(text)), run(witnessed))
}

// loaded waits until the page has read what it shows.
var loaded = until(`document.querySelector("h1") && !document.querySelector("main .wait")`)

// drawn keeps the vertical lines that are drawn onto plots, by their colors.
const drawn = `(() => {
	const of = CanvasRenderingContext2D.prototype, {moveTo, lineTo, stroke, beginPath} = of;
	const path = new WeakMap();
	window.drawn = new Map();
	of.beginPath = function () { path.set(this, []); return beginPath.call(this); };
	of.moveTo = function (x, y) { path.get(this)?.push([x, y]); return moveTo.call(this, x, y); };
	of.lineTo = function (x, y) { path.get(this)?.push([x, y]); return lineTo.call(this, x, y); };
	of.stroke = function (...shape) {
		const [a, b] = path.get(this) ?? [];
		if (shape.length === 0 && a && b && a[0] === b[0]) {
			const lines = window.drawn.get(this.canvas) ?? new Set();
			window.drawn.set(this.canvas, lines.add(JSON.stringify([this.strokeStyle, this.getLineDash().length > 0, a[0], Math.abs(b[1] - a[1])])));
		}
		return stroke.apply(this, shape);
	};
})()`

// missing are marks that a plot of the page should have by what the API says, and those that it has besides; null until all has been read and drawn.
const missing = `(() => {
	const at = location.pathname.split("/"), path = "/v4/databases/" + at[3] + "/instances/" + at[4];
	const [metrics, changes, backups] = ["/metrics", "/nodes/history", "/backups"].map(p => window.answers[path + p]);
	if (!metrics || !changes || !backups) return null;
	const seconds = text => new Date(text.replace(/Z?$/, "Z")).getTime() / 1000;
	const all = [...changes.data.map(c => [c.kind, seconds(c.time)]), ...backups.data.map(b => ["backup", seconds(b.created)])];
	const inside = all.filter(([, at]) => at >= seconds(metrics.from) && at <= seconds(metrics.to));
	const wrong = [], kinds = new Set(inside.map(([kind]) => kind));
	const pen = document.createElement("canvas").getContext("2d");
	for (const plot of document.querySelectorAll(".plot")) {
		const over = plot.querySelector(".u-over"), canvas = plot.querySelector("canvas");
		if (!over) return null; // it isn't drawn yet: the page has just been laid out
		const color = kind => {
			const probe = plot.appendChild(Object.assign(document.createElement("span"), {className: "mark " + kind}));
			pen.strokeStyle = getComputedStyle(probe).color;
			probe.remove();
			return pen.strokeStyle;
		};
		const values = metrics.metrics[0].values.length;
		const lines = [...window.drawn.get(canvas) ?? []].map(l => JSON.parse(l));
		for (const [kind, at] of inside) {
			const x = (over.offsetLeft + (at - seconds(metrics.from)) / ((values - 1) * metrics.step) * over.clientWidth) * devicePixelRatio;
			if (x > (over.offsetLeft + over.clientWidth) * devicePixelRatio) continue; // after what was measured last
			if (!lines.some(([c, dashed, to, high]) => c === color(kind) && dashed === (kind === "backup") && Math.abs(to - x) <= 2 && Math.abs(high - over.clientHeight * devicePixelRatio) <= 2)) wrong.push(kind + " at " + x);
		}
		for (const kind of ["failover", "handover", "backup"]) {
			if (!kinds.has(kind) && lines.some(([c]) => c === color(kind))) wrong.push(kind + " that wasn't");
		}
	}
	return {Kinds: [...kinds].sort(), Wrong: wrong, Plots: document.querySelectorAll(".plot canvas").length, Inside: inside.length};
})()`

// marked finds on all plots of a database's page what happened to it, where and how it should be; and the cursor of one on all the others.
func marked(t *testing.T, w *world, page string, kinds ...string) {
	t.Helper()
	w.do(t, w.visit(page+"/metrics"), until(`document.querySelectorAll(".plot canvas").length > 1`), run(drawn), run(witnessed), until(missing), see("What happened meanwhile"))
	w.do(t, until(fmt.Sprintf(`window.found = (f => f && %d <= f.Kinds.length && f.Wrong.length === 0 && f.Kinds)(%s)`, len(kinds), missing)))
	found := value[[]string](t, w.browser, `window.found`)
	for _, kind := range kinds {
		if !slices.Contains(found, kind) {
			t.Errorf("there is no %s of %q", kind, found)
		}
	}
	// The time that plots show goes on between two looks.
	const table = `[...document.querySelectorAll("main details")].find(d => d.querySelector("summary").innerText.startsWith("What happened meanwhile"))`
	w.do(t, run(table+`.querySelector("summary").click()`), until(fmt.Sprintf(`(f => f && %s.querySelectorAll("tbody tr").length === f.Inside)(%s)`, table, missing)))
	for n, part := range []float64{.25, .7} { // on one plot, then on another
		w.do(t, run(fmt.Sprintf(`(over => {
			const box = over.getBoundingClientRect();
			const move = (type, part) => over.dispatchEvent(new MouseEvent(type, {bubbles: true, movementX: 9, clientX: box.left + box.width * part, clientY: box.top + 20, view: window}));
			move("mouseenter", .1); move("mousemove", .1); move("mousemove", %f);
		})(document.querySelectorAll(".plot .u-over")[%d])`, part, n)), until(fmt.Sprintf(`[...document.querySelectorAll(".plot .u-over")].every(over => {
			const cursor = over.querySelector(".u-cursor-x"), x = new DOMMatrix(getComputedStyle(cursor).transform).m41;
			return !cursor.classList.contains("u-off") && Math.abs(x - over.clientWidth * %f) <= 2;
		})`, part)))
	}
}

// happenings are those of the shared database: its backups.
func happenings(t *testing.T, w *world) {
	marked(t, w, "/console/databases/postgresql/1", "backup")
}

// followed finds that a log that is followed shows what comes, and one that isn't asks for nothing.
func followed(t *testing.T, w *world) {
	db := w.open(t, "1")
	fails := func(table string) {
		if _, err := db.ExecContext(t.Context(), "SELECT 1 FROM "+table); err == nil {
			t.Error("there is a table", table)
		}
	}
	w.do(t, w.visit("/console/databases/postgresql/1/queries"), choose("At least", "error"), loaded, run(`window.marked = true`), tick("Follow"))
	for _, table := range []string{"followed_one", "followed_two"} {
		fails(table)
		w.do(t, until(row("Log", table)))
	}
	w.do(t, until(`window.marked`), tick("Follow"))
}

// covered compares the timeline with what the API says can be restored: bands, and words for them and what lies between.
const covered = `(() => {
	const windows = window.answers["/v4/databases/postgresql/instances/1/restore-windows"]?.data;
	if (!windows) return false;
	const ms = text => new Date(text.replace(/Z?$/, "Z")).getTime();
	const from = Math.min(...windows.map(w => ms(w.from))), to = Math.max(...windows.map(w => ms(w.to))), part = at => (ms(at) - from) / Math.max(to - from, 1);
	const svg = document.querySelector(".timeline"), whole = svg.getBoundingClientRect();
	const gap = svg.querySelector("rect.gap").getBoundingClientRect();
	const bands = [...svg.querySelectorAll("rect.covered")].map(r => r.getBoundingClientRect());
	const near = (a, b) => Math.abs(a - b) <= whole.width * .004; // a moment is drawn as wide as can be seen
	const drawn = near(gap.left, whole.left) && near(gap.width, whole.width) && getComputedStyle(svg.querySelector(".gap")).fill !== getComputedStyle(svg.querySelector(".covered")).fill && bands.length === windows.length &&
		windows.every(w => bands.some(b => near(b.left, whole.left + part(w.from) * whole.width) && near(b.right, whole.left + part(w.to) * whole.width)));
	const words = [...document.querySelectorAll(".windows li")].map(l => (l.innerText.startsWith("Gap:") ? "gap " : "") + [...l.querySelectorAll("time")].map(t => t.dateTime.replace("Z", "")).join(" "));
	const want = [];
	for (const [n, w] of [...windows].sort((a, b) => ms(a.from) - ms(b.from)).entries()) {
		const before = [...windows].sort((a, b) => ms(a.from) - ms(b.from))[n - 1];
		if (before && before.from !== before.to) want.push("gap " + before.to + " " + w.from);
		want.push(w.from === w.to ? w.from : w.from + " " + w.to);
	}
	return drawn && JSON.stringify(words) === JSON.stringify(want);
})()`

// gaps finds in words and as bands what can be restored, and what can't: of the shared database, and of one with all kinds of gaps.
func gaps(t *testing.T, w *world) {
	const page, path = "/console/databases/postgresql/1/backups", "/v4/databases/postgresql/instances/1/restore-windows"
	w.do(t, w.visit(page), until(`document.querySelector(".timeline")`), run(witnessed), until(covered),
		w.visit(page), until(`document.querySelector(".timeline")`), giving(t, path, map[string]any{"data": []map[string]string{
			{"from": "2026-03-01T00:00:00", "to": "2026-03-03T12:00:00"},
			{"from": "2026-03-04T00:00:00", "to": "2026-03-04T06:30:10"},
			{"from": "2026-03-06T01:02:03", "to": "2026-03-06T01:02:03"},
			{"from": "2026-03-08T00:00:00", "to": "2026-03-11T00:00:00"},
		}}), until(`document.querySelectorAll(".windows li").length === 6`), until(covered))
	if text := value[string](t, w.browser, `document.querySelectorAll(".windows li")[1].innerText`); text != "Gap: 3 Mar 2026, 12:00:00 UTC – 4 Mar 2026, 00:00:00 UTC" {
		t.Errorf("a gap is told as %q", text)
	}
	w.shoot(t, "gaps")
	w.do(t, press("Restore a moment"), until(control("Moment, in your time zone")), run(fmt.Sprintf(`(() => { const s = %s; s.value = new Date("2026-03-03T18:00:00Z").getTime() / 1000; s.dispatchEvent(new Event("input", {bubbles: true})) })()`, control("Along the timeline"))), see("Nothing of this moment is kept"), press("Cancel"))
}

// checked compares a service's page with the checks that the API tells of: a bar for each, the oldest first, and what they come to.
const checked = `(() => {
	const of = window.answers[location.pathname.replace("/console/services", "/v4/managed/services") + "/checks"];
	if (!of) return false;
	const bars = [...document.querySelectorAll(".timeline rect")].map(r => [r.getAttribute("class"), r.getBoundingClientRect().left]);
	const want = of.data.slice(0, 60).reverse().map(c => c.result === "ok" ? "covered" : "missed");
	const drawn = JSON.stringify(bars.map(([c]) => c)) === JSON.stringify(want) && bars.every(([, left], n) => n === 0 || left > bars[n - 1][1]);
	const number = text => Number(text.replace(/[^\d.]/g, "")), near = (a, b) => Math.abs(a - b) <= Math.max(.006, .01 * b);
	const rows = [...document.querySelectorAll("[role=region][aria-label='Uptime and response times'] tbody tr")];
	const sums = [["24 hours", of.last_24_hours], ["7 days", of.last_7_days], ["30 days", of.last_30_days]].every(([name, u], n) => {
		const [span, up, failures, mean, longest] = [...rows[n].cells].map(c => c.innerText);
		return span === name && near(number(up), u.uptime) && failures === u.failures + " / " + u.checks && near(number(mean), 1000 * u.mean_response_time) && near(number(longest), 1000 * u.longest_response_time);
	});
	const table = [...document.querySelectorAll("[role=region][aria-label='Last checks'] tbody tr")].map(r => r.cells[1].textContent);
	return drawn && sums && JSON.stringify(table) === JSON.stringify(of.data.map(c => c.result.replaceAll("_", " ")));
})()`

// bars finds those of the service that broke and was mended, and what its checks come to.
func bars(t *testing.T, w *world) {
	id := w.find(t, "/v4/managed/services", func(s map[string]any) bool { return s["label"] == "shaky" })
	w.server.Eventually("a good check and a bad one", func() error { // they are written some seconds after
		_, body := w.server.Call("GET", fmt.Sprintf("/v4/managed/services/%d/checks", id), nil, nil)
		if !strings.Contains(body, `"result":"ok"`) || strings.Count(body, `"result":"`) == strings.Count(body, `"result":"ok"`) {
			return errNotYet
		}
		return nil
	})
	w.do(t, w.visit(fmt.Sprintf("/console/services/%d", id)), loaded, run(witnessed), until(`document.querySelector(".timeline .covered") && document.querySelector(".timeline .missed")`), until(checked))
	w.shoot(t, "bars")
	// With more checks than there are bars, and none like the other way round.
	var all []map[string]any
	for n, result := range slices.Concat([]string{"ok", "ok", "connection_refused"}, slices.Repeat([]string{"ok"}, 56), []string{"timeout", "timeout", "ok"}) {
		all = append(all, map[string]any{"started": fmt.Sprintf("2026-03-01T%02d:%02d:00", 23-n/60, 59-n%60), "result": result, "response_time": .0123})
	}
	sums := func(uptime float64, checks, failures int) map[string]any {
		return map[string]any{"uptime": uptime, "checks": checks, "failures": failures, "mean_response_time": .0123, "longest_response_time": 1.5}
	}
	w.do(t, giving(t, fmt.Sprintf("/v4/managed/services/%d/checks", id), map[string]any{
		"data": all, "page": 1, "pages": 1, "results": len(all), "last_24_hours": sums(95.16, 62, 3), "last_7_days": sums(99.5, 600, 3), "last_30_days": sums(99.99, 30_000, 3),
	}), until(`document.querySelectorAll(".timeline rect").length === 60`), until(checked))
}

// load finds what machines do as lines, with the newest value in words and all as a table.
func load(t *testing.T, w *world) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	points := func(of ...float64) (all []map[string]any) {
		for n, y := range of {
			all = append(all, map[string]any{"x": begin + int64(n)*300_000, "y": y})
		}
		return all
	}
	w.do(t, w.visit("/console/machines"), loaded, giving(t, "/v4/managed/stats", map[string]any{"data": map[string]any{
		"cpu": points(1, 4, 2), "disk": points(1024, 2048), "swap": points(1 << 30), "net_in": points(8000, 16_000, 4000), "net_out": points(1, 2),
	}}), see("Busy cores: 2"), see("Disk: 2 KiB/s"), see("Swap in use: 1 GiB"), see("Network in: 4,000 bit/s"), see("Network out: 2 bit/s"))
	const line = `document.querySelector("section[aria-label='%s'] polyline").getAttribute("points")`
	for name, want := range map[string]string{"Busy cores": "0.0,75.5 500.0,2.0 1000.0,51.0", "Disk": "0.0,51.0 1000.0,2.0", "Network in": "0.0,51.0 500.0,2.0 1000.0,75.5"} {
		if got := value[string](t, w.browser, fmt.Sprintf(line, name)); got != want {
			t.Errorf("%s is drawn as %q, want %q", name, got, want)
		}
	}
	w.do(t, see("It is plotted once there are two readings."), run(`document.querySelector("section[aria-label='Busy cores'] summary").click()`))
	if got := value[[]string](t, w.browser, `[...document.querySelectorAll("section[aria-label='Busy cores'] tbody tr")].map(r => [...r.cells].map(c => c.innerText).join(": "))`); strings.Join(got, "; ") != "1 Mar 2026, 00:10:00 UTC: 2; 1 Mar 2026, 00:05:00 UTC: 4; 1 Mar 2026, 00:00:00 UTC: 1" {
		t.Errorf("the table has %q", got)
	}
}

// moving is what moves on a page, or would: animations and transitions by their elements, and bars that say that something goes on.
const moving = `(() => {
	const slow = text => text.split(",").some(t => parseFloat(t) > 0);
	return [...document.querySelectorAll("*")].flatMap(e => {
		const style = getComputedStyle(e), found = [];
		if (style.animationName !== "none" || slow(style.animationDuration)) found.push("animation");
		if (slow(style.transitionDuration)) found.push("transition");
		if (style.scrollBehavior === "smooth") found.push("scrolling");
		if (e.matches("progress:indeterminate") && style.appearance !== "none") found.push("progress");
		return found.map(f => f + " of " + e.tagName.toLowerCase() + "." + e.className);
	}).concat(document.getAnimations().length > 0 ? ["something"] : []);
})()`

// still looks at screens as a reader has them who wants nothing to move: nothing does, which would for others.
func still(t *testing.T, w *world) {
	reduce := func(how string) step {
		return func(ctx context.Context) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: how}}})
			return err
		}
	}
	// A database that is being made has a bar, a line that was copied has something said.
	events := map[string]any{"data": []map[string]any{{
		"id": 1, "action": "database_create", "status": "started", "percent_complete": 0, "created": "2026-03-01T00:00:00", "entity": map[string]any{"id": 1, "type": "database", "label": "again", "url": "/v4/databases/postgresql/instances/1"},
		"username": "admin", "message": "", "seen": true,
	}}, "page": 1, "pages": 1, "results": 1}
	for how, least := range map[string]int{"no-preference": 2, "reduce": 0} {
		w.do(t, reduce(how), w.visit("/console/databases/postgresql/1"), see("Show the password"), giving(t, "/v4/account/events", events), until(`document.querySelector("progress:indeterminate")`), press("Copy: How to connect"), until(`document.querySelector(".said.on")`))
		if found := value[[]string](t, w.browser, moving); len(found) < least || least == 0 && len(found) > 0 {
			t.Errorf("with motion %s there moves %q", how, found)
		}
	}
	for _, name := range []string{"home", "databases", "create", "metrics", "backups", "settings", "service", "machines"} {
		w.do(t, w.visit(screens[name]), loaded)
		if found := value[[]string](t, w.browser, moving); len(found) > 0 {
			t.Errorf("%s: there moves %q", name, found)
		}
	}
	w.do(t, reduce("no-preference"))
}

// changed does what the settings have forms for, on a database whose servers wait for their window, and deletes it in the end.
func changed(t *testing.T, w *world, d harness.Database) {
	t.Helper()
	at := fmt.Sprintf("/console/databases/postgresql/%d", d.ID)
	read := func() (now map[string]any) {
		if status, body := w.server.Call("GET", d.Path(), nil, &now); status != http.StatusOK {
			t.Fatal(status, body)
		}
		return now
	}
	save := func(label string) step { // of the form that has a control
		return both(run(control(label)+".form.requestSubmit()"), see("Saved."))
	}
	// The window, each month.
	w.do(t, w.visit(at+"/settings"), choose("How often", "monthly"), choose("Week of the month", "3"), choose("Day", "4"), choose("From (UTC)", "5"), choose("For", "2"), save("How often"))
	updates := read()["updates"].(map[string]any)
	for name, want := range map[string]any{"frequency": "monthly", "week_of_month": 3., "day_of_week": 4., "hour_of_day": 5., "duration": 2.} {
		if updates[name] != want {
			t.Errorf("the window's %s is %v, want %v", name, updates[name], want)
		}
	}
	w.do(t, w.visit(at+"/settings"), until(control("Day")+`?.value === "4" && `+control("Week of the month")+`.value === "3" && `+control("From (UTC)")+`.value === "5" && `+control("For")+`.value === "2"`))
	// One node of a larger plan.
	w.do(t, choose("Nodes", "1"), choose("Plan", "g6-standard-1"), save("Plan"))
	d = w.server.AwaitStatus(d, "active")
	w.do(t, w.visit(at), until(fact("Plan")+` === "g6-standard-1" && `+fact("Nodes")+` === "1"`), until(`document.querySelectorAll("[role=region][aria-label=Nodes] tbody tr").length === 1`))
	if now := read(); now["type"] != "g6-standard-1" || now["cluster_size"] != 1. {
		t.Errorf("the database is %v on %v nodes", now["type"], now["cluster_size"])
	}
	// Suspended: nobody connects, all data stays.
	c := w.server.Credentials(d)
	if _, err := w.server.MustConnect(d, c).ExecContext(t.Context(), "CREATE TABLE stays AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	ask := func(verb string) step {
		return both(w.visit(at+"/settings"), press(verb), until(`document.querySelector("dialog")`), press(verb), until(`!document.querySelector("dialog")`))
	}
	w.do(t, ask("Suspend"))
	w.server.AwaitStatus(d, "suspended")
	if db, err := harness.Connect(t.Context(), d, c, ""); err == nil {
		_ = db.Close()
		t.Error("somebody connects to a suspended database")
	}
	w.do(t, w.visit(at), until(stateIs("Suspended")), ask("Resume"))
	w.server.AwaitStatus(d, "active")
	var n int
	if err := w.server.MustConnect(d, c).QueryRowContext(t.Context(), "SELECT n FROM stays").Scan(&n); err != nil || n != 7 {
		t.Errorf("after the pause there is %d, %v", n, err)
	}
	// Protected: neither the page nor the API deletes it.
	const gone = `[...document.querySelectorAll("button")].find(b => b.innerText === "Delete the database")`
	w.do(t, w.visit(at+"/settings"), tick("Can't be deleted"), save("Plan"), see("The database is protected"), until(gone+".disabled"))
	if status, body := w.server.Call("DELETE", d.Path(), nil, nil); status != http.StatusBadRequest {
		t.Errorf("a protected database is deleted: %d %s", status, body)
	}
	w.do(t, w.visit(at+"/settings"), until(gone+"?.disabled"), tick("Can't be deleted"), save("Plan"), until("!"+gone+".disabled"))
	// Deleted by its name, and nothing but it.
	w.do(t, press("Delete the database"), fill("Type "+d.Label+" to go on", d.Label+"x"), until(`document.querySelector("dialog .danger").disabled`), keys("\r"), fill("Type "+d.Label+" to go on", strings.ToUpper(d.Label)), until(`document.querySelector("dialog .danger").disabled`),
		fill("Type "+d.Label+" to go on", d.Label), press("Delete the database"), until(`location.pathname === "/console/databases"`), see(d.Label+" is being deleted."))
	w.server.Eventually("the database to be gone", func() error {
		if status, body := w.server.Call("GET", d.Path(), nil, nil); status != http.StatusNotFound {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}

// waits finds what waits for a database's window, with its time, and on the first page.
func waits(t *testing.T, w *world, d harness.Database) {
	t.Helper()
	var now struct {
		Updates struct {
			Pending []struct {
				Description string
				PlannedFor  string `json:"planned_for"`
			}
		}
	}
	w.server.Eventually("something that waits", func() error { // keepers find it
		if status, body := w.server.Call("GET", d.Path(), nil, &now); status != http.StatusOK || len(now.Updates.Pending) == 0 || now.Updates.Pending[0].PlannedFor == "" {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	one := now.Updates.Pending[0]
	w.do(t, w.visit(fmt.Sprintf("/console/databases/postgresql/%d/settings", d.ID)), see(one.Description), until(fmt.Sprintf(`[...document.querySelectorAll(".alert.warn li time")].some(e => e.dateTime === %q)`, one.PlannedFor+"Z")),
		w.visit("/console/"), until(fmt.Sprintf(`[...document.querySelectorAll(".needs a")].some(a => a.innerText === %q)`, d.Label+": "+one.Description)))
}
