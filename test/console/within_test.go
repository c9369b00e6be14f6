package console

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// withinSecond finds that what others do shows on an open page within a second, whichever way they do it: the page isn't loaded again, and asks by itself for
// nothing. How long the page takes to read and draw all anew when it is told to is measured beside each: the rest is what the news took.
func withinSecond(t *testing.T, w *world) {
	command := func(args ...string) func() {
		return func() {
			if out, err := w.server.Command(args...); err != nil {
				t.Fatal(args, err, out)
			}
		}
	}
	asked := func(method, path string, body any) func() {
		return func() {
			if status, answer := w.server.Call(method, path, body, nil); status != http.StatusOK {
				t.Fatal(method, path, status, answer)
			}
		}
	}
	const one = "/v4/databases/postgresql/instances/1"
	shows := func(text string) string {
		return fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text)
	}
	var late []time.Duration
	for _, c := range []struct {
		page   string
		change func()
		shown  string
	}{
		{"/console/contacts", command("contact", "create", "Told at once", "--email", "at-once@example.org"), shows("at-once@example.org")},
		{"/console/contacts", command("contact", "delete", "Told at once"), "!" + shows("at-once@example.org")},
		{"/console/databases", command("db", "update", "1", "--label", "at-once"), shows("at-once")},
		{"/console/databases/postgresql/1", asked("PUT", one, map[string]any{"label": "again"}), `document.querySelector("h1").innerText === "again"`},
		{"/console/databases/postgresql/1/access", asked("POST", one+"/databases", map[string]any{"name": "at_once"}), shows("at_once")},
		{"/console/databases/postgresql/1/events", asked("DELETE", one+"/databases/at_once", nil), shows("Delete a logical database")},
		{"/console/status-pages", asked("POST", "/v4/managed/status-pages", map[string]any{"slug": "at-once", "title": "At once", "databases": []int{1}}), shows("/status/at-once")},
		{"/console/status-pages", command("status-page", "delete", "at-once"), "!" + shows("/status/at-once")},
	} {
		w.do(t, w.visit(c.page), until(`document.querySelector("h1") && !document.querySelector("main .wait")`), until("!("+c.shown+")"), run(`window.marked = true`))
		floor := time.Duration(value[float64](t, w.browser, readAnew) * float64(time.Millisecond))
		w.do(t, run(fmt.Sprintf(`(() => {
			delete window.shown;
			const look = () => %s && (watch.disconnect(), window.shown = Date.now()), watch = new MutationObserver(look);
			watch.observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
		})()`, c.shown)))
		c.change()
		changed := time.Now()
		w.do(t, until(`window.shown`), until(`window.marked`))
		took := max(0, time.UnixMilli(int64(value[float64](t, w.browser, `window.shown`))).Sub(changed))
		t.Logf("%s: shown %s after the change, of which reading and drawing take %s", c.page, took.Round(time.Millisecond), floor.Round(time.Millisecond))
		if took > time.Second+3*floor {
			t.Errorf("%s showed the change after %s; reading and drawing take %s", c.page, took, floor)
		}
		late = append(late, took-floor)
	}
	// A stream that isn't told, and looks for events each few seconds alone, is half of that late in the middle.
	slices.Sort(late)
	if middle := late[len(late)/2]; middle > time.Second/2 {
		t.Errorf("news take %s until a page reads what has changed", middle)
	}
}

// readAnew has the page read all anew, as when something has happened, and is how many milliseconds pass until it is drawn.
const readAnew = `new Promise(done => {
	const ask = window.fetch, begun = performance.now();
	let open = 0;
	window.fetch = async (...asked) => {
		open++;
		try {
			return await ask(...asked);
		} finally {
			if (--open === 0) requestAnimationFrame(() => setTimeout(() => {
				if (open > 0) return;
				window.fetch = ask;
				done(performance.now() - begun);
			}));
		}
	};
	document.dispatchEvent(new Event("visibilitychange"));
})`
