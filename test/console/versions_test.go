package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steward/test/harness"
)

// moves brings a logical database over from a server elsewhere, moves the database to a newer version, deletes it after a last
// backup, and makes another of that.
func moves(t *testing.T, w *world) {
	src := harness.PostgreSQLByHand(t, "wal_level=logical")
	if _, err := src.Open(t, "postgres").ExecContext(t.Context(), "CREATE DATABASE wares"); err != nil {
		t.Fatal(err)
	}
	if _, err := src.Open(t, "wares").ExecContext(t.Context(), "CREATE TABLE kept AS SELECT n FROM generate_series(1, 1000) n; ALTER TABLE kept ADD PRIMARY KEY (n)"); err != nil {
		t.Fatal(err)
	}
	d := w.server.CreateActive(harness.Small("older", "postgresql/15"))
	w.server.Snapshot(d, "before", "primary")
	at := fmt.Sprintf("/console/databases/postgresql/%d", d.ID)

	w.do(t, w.visit(at+"/access"), see("Nothing was brought over yet."), press("Bring a database over"), press("Begin"), until(`document.querySelectorAll("dialog .problem").length >= 3`),
		fill("Host", "127.0.0.1"), fill("Port", fmt.Sprint(src.Port)), fill("User", "mover"), fill("Password", src.Password), choose("TLS", "require"), fill("Database there", "nosuch"), press("Check"), until(`document.querySelector("dialog .alert")?.innerText.includes("nosuch")`),
		fill("Database there", "wares"), press("Check"), see("It can be brought over: version 1"), press("Begin"), until(`!document.querySelector("dialog")`),
		until(row("Imports", "127.0.0.1:")+`?.innerText.includes("1 of 1 tables") && `+row("Imports", "127.0.0.1:")+`.innerText.includes("Done")`), until(row("Logical databases", "wares")))
	w.shoot(t, "import")
	if text := value[string](t, w.browser, `JSON.stringify(document.body.innerHTML)`); strings.Contains(text, src.Password) {
		t.Error("the source's password is on the page")
	}
	w.do(t, press("Calls"), see("The same by hand"), until(`!document.querySelector("dialog").innerText.includes("mover")`), press("Close"),
		press("Forget the import of wares"), press("Forget"), see("Nothing was brought over yet."))
	if w.thorough {
		w.do(t, press("Bring a database over"), fill("Host", "127.0.0.1"), fill("Port", fmt.Sprint(src.Port)), fill("User", "mover"), fill("Password", src.Password), choose("TLS", "require"),
			fill("Database there", "wares"), fill("Its name here", "wares2"), choose("How", "replicate"), press("Begin"), until(`!document.querySelector("dialog")`),
			until(row("Imports", "127.0.0.1:")+`?.innerText.includes("Follows its source")`), until(row("Imports", "127.0.0.1:")+`.innerText.includes("behind")`),
			press("Cut the import of wares2 over"), see("Stop what writes there first"), press("Cut over"), until(row("Imports", "127.0.0.1:")+`?.innerText.includes("Done")`), until(row("Logical databases", "wares2")),
			press("Forget the import of wares2"), press("Forget"), see("Nothing was brought over yet."))
	}

	w.do(t, w.visit(at+"/settings"), see("The servers are PostgreSQL 15"), choose("To", "17"), press("Try it on a copy"), see("The move to 17 went well. Writes would pause for about"),
		press("Move to this version"), until(`document.querySelector("dialog .danger").disabled`), fill("Type older to go on", "older"), press("Move to this version"), until(`!document.querySelector("dialog")`), press("Overview"), until(`document.querySelector(".facts progress")?.closest("div").innerText.includes("Move to another version")`))
	w.shoot(t, "under-way")
	// The drawer, over whichever page is open, says the same, and the rest as it happens.
	w.do(t, press("Activity"), until(`document.querySelector("dialog .feed progress")?.closest("li").innerText.includes("Move to another version")`))
	w.shoot(t, "drawer")
	w.do(t, see("Nothing is under way."), until(`[...document.querySelectorAll("dialog .feed li")].some(e => e.innerText.includes("Move to another version") && e.innerText.includes("Done"))`),
		run(`[...document.querySelectorAll("dialog .feed a")].find(e => e.innerText === "older").click()`), until(`!document.querySelector("dialog")`))
	w.do(t, until(stateIs("Active")), until(`!document.querySelector(".facts progress")`), press("Settings"), see("The servers are PostgreSQL 17"))
	w.shoot(t, "version")
	d = w.server.AwaitStatus(d, "active")
	c := w.server.Credentials(d)
	c.Logical = "wares"
	var kept int
	if err := w.server.MustConnect(d, c).QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&kept); err != nil || kept != 1000 {
		t.Errorf("%d rows, %v", kept, err)
	}

	w.do(t, w.visit(at+"/settings"), press("Delete the database"), tick("Take a last backup first and keep it for a while"), see("a new database can be made of it"), fill("Type older to go on", "older"), press("Delete the database"),
		see("Last backups of deleted databases"), press("New database from the last backup of older"), fill("Label of the new database", "newer"), press("New database"), until(`document.querySelector("h1").innerText === "newer"`))
	id := w.find(t, "/v4/databases/instances", func(d map[string]any) bool { return d["label"] == "newer" })
	made := harness.Database{ID: int64(id), Engine: "postgresql", Label: "newer"}
	made = w.server.AwaitStatus(made, "active")
	w.do(t, w.visit("/console/databases"), press("Delete older"), fill("Type older to go on", "older"), press("Delete"), until(`!document.body.innerText.includes("Last backups of deleted databases")`))
	if status, body := w.server.Call("DELETE", made.Path(), nil, nil); status != http.StatusOK {
		t.Error(status, body)
	}
}
