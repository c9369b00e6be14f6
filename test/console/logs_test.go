package console

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// tallest is how tall the page of queries and logs may be in a window of 360 pixels, where each row is a block, and tallestLog a page of the log on it.
const (
	tallest    = 12_000
	tallestLog = 8_000
)

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
	say(120)
	// lines is how many there are of them, where the newest is the last that was said, and each other one that before.
	const lines = `((rows) => rows.every((r, i) => r.innerText.includes("absent_" + String(%d - i).padStart(4, "0"))) && rows.length)([...document.querySelectorAll("[role=region][aria-label=Log] tbody tr")])`
	shown := func(n int) step { return until(fmt.Sprintf(lines+" === %d", said, n)) }
	w.do(t, look(360, "light"), w.visit("/console/databases/postgresql/1/queries"), until(row("Log", "absent_0120")), until(`!document.querySelector("main .wait")`))
	all := value[int](t, w.browser, `document.querySelectorAll("[role=region][aria-label=Log] tbody tr").length`)
	tall := value[int](t, w.browser, `document.documentElement.scrollHeight`)
	log := value[int](t, w.browser, `document.querySelector("[role=region][aria-label=Log]").offsetHeight`)
	t.Logf("queries and logs are %d px tall, %d lines of the log %d", tall, all, log)
	if all != 50 || tall > tallest || log > tallestLog {
		t.Errorf("%d lines are %d pixels tall, the page %d", all, log, tall)
	}
	w.shoot(t, "log-narrow")
	w.do(t, run(`[...document.querySelectorAll("input[name=text]")].at(-1).focus()`), keys("absent_"), keys(kb.Enter), shown(50), tabTo(named("Older lines")), until("!"+named("Older lines")+".disabled"), keys(kb.Enter), shown(100), until("document.activeElement === "+named("Older lines")))
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
