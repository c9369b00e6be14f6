package console

import (
	"testing"
)

// proven finds when the last backup began that was proven to restore, in the list and on the database's page.
func proven(t *testing.T, w *world) {
	fact := `[...document.querySelectorAll(".facts dt")].find(e => e.innerText === "Last proven backup")?.nextElementSibling`
	w.server.Eventually("a backup to be proven", func() error {
		if w.proven(t) == "" {
			return errNotYet
		}
		return nil
	})
	at := w.proven(t)
	w.do(t, w.visit("/console/databases/postgresql/1"), until(fact+`?.querySelector("time")?.dateTime === "`+at+`Z"`),
		w.visit("/console/databases"), until(row("Databases", "again")+`?.querySelector("time[datetime='`+at+`Z']")`), press("Last proven backup"), until(`document.querySelector("th[aria-sort=ascending]")?.innerText.startsWith("Last proven backup")`))
}

// proven is when the API says that the last proven backup of the first database began.
func (w *world) proven(t *testing.T) string {
	t.Helper()
	var d struct {
		Last string `json:"last_proven_backup"`
	}
	if status, body := w.server.Call("GET", "/v4/databases/postgresql/instances/1", nil, &d); status != 200 {
		t.Fatal(status, body)
	}
	return d.Last
}
