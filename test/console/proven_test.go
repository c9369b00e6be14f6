package console

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/test/harness"
)

// proven finds when the last backup began that was proven to restore, in the list and on the database's page. Once it is too old, or one after it has
// failed, the first page says so and leads to the backups; the next backup ends that, on the page that is open.
func proven(t *testing.T, w *world) {
	w.server.Eventually("a backup to be proven", func() error {
		if w.lastProven(t) == "" {
			return errNotYet
		}
		return nil
	})
	at := w.lastProven(t)
	w.do(t, w.visit("/console/databases/postgresql/1"), until(`[...document.querySelectorAll(".facts dt")].find(e => e.innerText === "Last proven backup")?.nextElementSibling.querySelector("time")?.dateTime === "`+at+`Z"`),
		w.visit("/console/databases"), until(row("Databases", "again")+`?.querySelector("time[datetime='`+at+`Z']")`), press("Last proven backup"), until(`document.querySelector("th[aria-sort=ascending]")?.innerText.startsWith("Last proven backup")`))

	store, err := pgx.Connect(t.Context(), w.server.StoreURL())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	alter := func(sql string) {
		t.Helper()
		if _, err := store.Exec(t.Context(), sql); err != nil {
			t.Fatal(sql, err)
		}
	}
	need := func(text string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(".needs a")].find(a => a.innerText === "again: " + %q && a.pathname === "/console/databases/postgresql/1/backups")`, text)
	}
	const old, failed = "no backup of the last day can be relied on", "the last backup failed, or doesn't restore"
	w.do(t, w.visit("/console/"), see("What needs you"), until("!"+need(old)), until("!"+need(failed)))
	alter(`UPDATE clusters SET created = created - interval '3 days', last_auto = now() WHERE id = 1`) // no daily one comes between
	alter(`UPDATE backups SET created = created - interval '3 days' WHERE cluster_id = 1`)
	w.do(t, w.visit("/console/"), until(need(old)), run(need(old)+".click()"), until(row("Backups", "before")),
		w.visit("/console/databases/postgresql/1"), see("No backup of the last day can be relied on."))
	alter(`INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, finished, problem)
		SELECT account_id, id, 'snapshot', 'broken', 'primary', 'failed', now(), now(), 'The archive takes nothing.' FROM clusters WHERE id = 1`)
	w.do(t, w.visit("/console/"), until(need(failed)), run(need(failed)+".click()"), until(row("Backups", "broken")+`?.innerText.includes("Failed")`),
		w.visit("/console/databases/postgresql/1"), see("The last backup failed"), w.visit("/console/"), until(need(failed)), run(`window.marked = true`))
	d := harness.Database{ID: 1, Engine: "postgresql"}
	if status, body := w.server.Call("POST", d.Path()+"/backups", map[string]any{"label": "mending"}, nil); status != http.StatusOK {
		t.Fatal(status, body)
	}
	w.do(t, until("!"+need(failed)), until("!"+need(old)), until(`window.marked`))
	if last := w.lastProven(t); last <= at {
		t.Errorf("the last proven backup is of %s, before of %s", last, at)
	}
	alter(`UPDATE clusters SET created = created + interval '3 days', last_auto = NULL WHERE id = 1`)
	alter(`UPDATE backups SET created = created + interval '3 days' WHERE cluster_id = 1 AND label = 'before'`)
	w.server.AwaitStatus(d, "active")
	for _, label := range []string{"broken", "mending"} {
		id := w.find(t, d.Path()+"/backups", func(b map[string]any) bool { return b["label"] == label })
		if status, body := w.server.Call("DELETE", fmt.Sprintf("%s/backups/%d", d.Path(), id), nil, nil); status != http.StatusOK {
			t.Fatal(status, body)
		}
	}
	w.server.AwaitStatus(d, "active")
}

// lastProven is when the API says that the last proven backup of the first database began.
func (w *world) lastProven(t *testing.T) string {
	t.Helper()
	var d struct {
		Last string `json:"last_proven_backup"`
	}
	if status, body := w.server.Call("GET", "/v4/databases/postgresql/instances/1", nil, &d); status != http.StatusOK {
		t.Fatal(status, body)
	}
	return d.Last
}
