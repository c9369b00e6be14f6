package console

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// tallest is how tall the page of queries and logs may be in a window of 360 pixels, where each row is a block, before somebody asks for more.
const tallest = 6_500

// seldom has more statements than a page shows take long, each of more letters than a phone has room for.
func seldom(t *testing.T, db *sql.DB) {
	t.Helper()
	var all sync.WaitGroup
	for n := range 26 {
		all.Go(func() {
			if _, err := db.ExecContext(t.Context(), "SELECT pg_sleep(0.25)"+strings.Repeat(", 1", 300+n)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// brief finds that a phone is shown the beginning of long lists and of long statements, and by keys alone all of them; a wide window has all rows at once.
func brief(t *testing.T, w *world) {
	t.Helper()
	const top = `document.querySelector("[role=region][aria-label='What statements cost']")`
	seen := func(n int) step {
		return until(fmt.Sprintf(`[...%s.querySelectorAll("tbody tr")].filter(r => r.checkVisibility()).length === %d`, top, n))
	}
	const long = `[...` + top + `.querySelectorAll("tbody tr")].find(r => r.innerText.includes("pg_sleep")).querySelector("code")`
	if letters := value[int](t, w.browser, long+`.innerText.length`); letters > 200 {
		t.Errorf("a phone is shown %d letters of a statement", letters)
	}
	w.do(t, seen(5), tabTo(long+".querySelector('button')"), keys(kb.Enter), until(long+`.innerText.length > 600`), until("document.activeElement === "+long+".querySelector('button')"),
		keys(kb.Enter), until(long+`.innerText.length <= 200`),
		tabTo(named("Show all 25: What statements cost")), keys(kb.Enter), seen(25), until("document.activeElement === "+named("Show less: What statements cost")), keys(kb.Enter), seen(5))
	for _, more := range []string{"Earlier ones", "Older lines"} {
		if value[bool](t, w.browser, "!!"+named(more)) {
			t.Errorf("%q stands below the beginning of a list", more)
		}
	}
	w.do(t, look(1280, "light"), seen(25), until("!"+named("Show all 25: What statements cost")), until(named("Older lines")), look(360, "light"), seen(5))
}

// busyOnce has the page hear, the next time that it reads the largest tables, that the database doesn't answer, and has it read all anew.
const busyOnce = `(() => {
	const ask = window.fetch;
	window.fetch = (to, how) => {
		if (!String(to).includes("/tables?")) return ask(to, how);
		window.fetch = ask;
		const errors = [{reason: "The database doesn't answer; try again soon."}];
		return Promise.resolve(new Response(JSON.stringify({errors}), {status: 400, headers: {"Content-Type": "application/json"}}));
	};
	document.dispatchEvent(new Event("visibilitychange"));
})()`

// logPages has a database's log say more than fits a page, and reads it on a phone by keys alone: a page at first, and an older one for whoever asks,
// with no line missing between the two, nor between them and what is written meanwhile.
func logPages(t *testing.T, w *world) {
	db := w.open(t, "1")
	said := 0
	say := func(more int) {
		t.Helper()
		for range more {
			said++
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf("SELECT 1 FROM absent_%04d", said)); err == nil {
				t.Fatal("there is a table of that name")
			}
		}
	}
	seldom(t, db)
	say(120)
	// lines is how many there are of them, where the newest is the last that was said, and each other one that before.
	const lines = `((rows) => rows.every((r, i) => r.innerText.includes("absent_" + String(%d - i).padStart(4, "0"))) && rows.length)([...document.querySelectorAll("[role=region][aria-label=Log] tbody tr")])`
	shown := func(n int) step { return until(fmt.Sprintf(lines+" === %d", said, n)) }
	w.do(t, look(360, "light"), w.visit("/console/databases/postgresql/1/queries"), until(row("Log", "absent_0120")), until(`!document.querySelector("main .wait")`))
	w.do(t, until(row("Statements that took long", "pg_sleep")), until(row("What statements cost", "pg_sleep")))
	// A database that is too busy to answer in time tells of no event once it does again.
	const tables = `document.querySelector("[role=region][aria-label='The largest tables'] tbody tr")`
	w.do(t, until(tables), run(busyOnce), until("!"+tables), see("The database doesn't answer; try again soon."), until(tables))
	all := value[int](t, w.browser, `document.querySelectorAll("[role=region][aria-label=Log] tbody tr").length`)
	tall := value[int](t, w.browser, `document.documentElement.scrollHeight`)
	t.Logf("queries and logs are %d px tall: %v", tall, value[[]string](t, w.browser, `[...document.querySelectorAll("main [role=region]")].map(e => e.getAttribute("aria-label") + " " + e.offsetHeight)`))
	if all != 50 || tall > tallest {
		t.Errorf("with %d lines of the log the page is %d pixels tall", all, tall)
	}
	w.shoot(t, "log-narrow")
	brief(t, w)
	w.do(t, run(`[...document.querySelectorAll("input[name=text]")].at(-1).focus()`), keys("absent_"), keys(kb.Enter), shown(50), tabTo(named("Show all 50: Log")), keys(kb.Enter), tabTo(named("Older lines")), until("!"+named("Older lines")+".disabled"), keys(kb.Enter), shown(100), until("document.activeElement === "+named("Older lines")))
	say(3)
	if status, body := w.server.Call("PUT", "/v4/databases/postgresql/instances/1", map[string]any{"label": "again"}, nil); status != http.StatusOK { // an event has pages read anew
		t.Fatal(status, body)
	}
	older := named("Older lines")
	w.do(t, shown(103), until("document.activeElement === "+older+" && !"+older+".disabled && !document.querySelector('main .wait')"), keys(kb.Enter), shown(123), until("!"+named("Older lines")))
	say(60) // more than a page: what lies between isn't known
	if status, body := w.server.Call("PUT", "/v4/databases/postgresql/instances/1", map[string]any{"label": "again"}, nil); status != http.StatusOK {
		t.Fatal(status, body)
	}
	w.do(t, shown(50), look(1280, "light"))
}
