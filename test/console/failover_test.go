package console

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/test/harness"
)

// failover kills a primary while its page is open, and steward while nobody is there to help: the page shows what became of it by itself.
func failover(t *testing.T, w *world) {
	spec := harness.Small("three", "postgresql/15")
	spec["cluster_size"] = 3
	// Databases' own windows are spread over the week: this one's would be open now in some hours of it, and what is to wait would be done.
	opens := time.Now().UTC().Add(48 * time.Hour)
	spec["updates"] = map[string]any{"hour_of_day": opens.Hour(), "day_of_week": (int(opens.Weekday())+6)%7 + 1}
	harness.BeginWith(t, w.server.StoreURL(), "postgresql-15.17-npm") // so that something waits for the window
	d := w.server.Create(spec)
	harness.BeginWith(t, w.server.StoreURL(), "")
	w.do(t, w.visit(fmt.Sprintf("/console/databases/postgresql/%d", d.ID)), run(`window.marked = true`), until(`document.querySelectorAll("[role=region][aria-label=Nodes] tbody tr").length === 3`),
		until(`[...document.querySelectorAll(".facts .status")].some(e => e.innerText === "Active")`))
	w.server.AwaitHealthy(d, 3)
	primary := `[...document.querySelectorAll("[role=region][aria-label=Nodes] tbody tr")].find(r => r.cells[1].innerText === "Primary" && r.cells[2].innerText === "Healthy")?.cells[0].innerText`
	w.do(t, until(primary))
	before, killed := value[string](t, w.browser, primary), w.server.Primary(d)
	begun := time.Now()
	if err := syscall.Kill(killed.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.do(t, until(fmt.Sprintf("(%s ?? %q) !== %q", primary, before, before)), until(`document.querySelector("[role=region][aria-label=Events]").innerText.includes("Failover")`))
	t.Logf("the page showed the failover %s after the kill", time.Since(begun).Round(10*time.Millisecond))
	w.shoot(t, "failover")
	w.do(t, until(`[...document.querySelectorAll("[role=region][aria-label=Nodes] tbody tr")].filter(r => r.cells[2].innerText === "Healthy").length === 3`), until(`window.marked`))
	w.server.AwaitHealthy(d, 3, killed.Pid)
	waits(t, w, d)
	readsLead(t, w, d)
	verbs(t, w, d)
	marked(t, w, fmt.Sprintf("/console/databases/postgresql/%d", d.ID), "failover", "handover")
	w.do(t, w.visit(fmt.Sprintf("/console/databases/postgresql/%d", d.ID)), run(`window.marked = true`), until(`document.querySelectorAll("[role=region][aria-label=Nodes] tbody tr").length === 3`))
	// The same with steward gone and back: the page goes on where it was.
	w.server.Kill()
	w.do(t, see("The server doesn't answer."))
	w.server.Start()
	w.do(t, until(`!document.body.innerText.includes("The server doesn't answer.")`), until(`document.querySelectorAll("[role=region][aria-label=Nodes] tbody tr").length === 3`), until(`window.marked`))
	w.watcher.do(t, w.watcher.visit(fmt.Sprintf("/console/databases/postgresql/%d", d.ID)), see("Show the password"), run(`window.marked = true`))
	changed(t, w, d)
	w.watcher.do(t, see("There is nothing here, or it isn't yours to see."), until(`window.marked`))
}

// verbs does all that the settings have a button for, one after the other.
func verbs(t *testing.T, w *world, d harness.Database) {
	for _, verb := range []struct{ name, then string }{
		{"Switch the primary", "active"}, {"Restart", "active"}, {"Do pending maintenance now", "active"}, {"Reset the password", "active"},
	} {
		w.do(t, w.visit(fmt.Sprintf("/console/databases/postgresql/%d/settings", d.ID)), press(verb.name), until(`document.querySelector("dialog")`), press(verb.name), until(`!document.querySelector("dialog")`))
		w.server.AwaitStatus(d, verb.then)
	}
	w.server.AwaitHealthy(d, 3)
	if text := value[string](t, w.browser, `document.querySelector("main").innerText`); strings.Contains(text, "15.17") {
		t.Error("what was pending still is")
	}
}
