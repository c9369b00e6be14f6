package console

import (
	"fmt"
	"net/http"
	"testing"

	"steward/test/harness"
)

// besides looks at all pages of a database of the other family: what PostgreSQL alone has isn't offered, and the rest is.
func besides(t *testing.T, w *world) {
	d := w.server.CreateActive(harness.Small("beside", "mysql/10.11"))
	at := fmt.Sprintf("/console/databases/mysql/%d", d.ID)
	for _, tab := range []string{"", "/metrics", "/queries", "/backups", "/access", "/settings", "/events"} {
		w.do(t, w.visit(at+tab), until(`document.querySelector("h1").innerText === "beside" && !document.querySelector("main .wait")`))
		if wrong := value[[]string](t, w.browser, `[...document.querySelectorAll("main [role=alert]")].map(e => e.innerText)`); len(wrong) > 0 {
			t.Errorf("%s says %q", tab, wrong)
		}
		if value[bool](t, w.browser, `["Connection pools", "Extensions"].some(t => document.querySelector("main").innerText.includes(t))`) {
			t.Errorf("%s has what PostgreSQL alone has", tab)
		}
	}
	w.do(t, w.visit(at), press("Show the password"), until(`!document.querySelector(".code pre").innerText.includes("PASSWORD")`))
	to := w.leads(t, d, d.Hosts.Primary, d.Port, "defaultdb")
	w.lines(t, d, to)
	w.do(t, choose("With", "java"), until(`document.querySelector(".code pre").innerText.includes("sslMode=verify-full&serverSslCert=beside-ca.crt")`))
	w.sayTLS(t, to)
	set := `fetch("/console/v4/databases/mysql/instances/" + location.pathname.split("/")[4]).then(r => r.json()).then(d => window.config = d.engine_config?.mysql ?? {}) && window.config`
	w.do(t, w.visit(at+"/queries"), see("Statements that take long aren't logged"), fill("Log from so many milliseconds on", "300"), press("Save"), until(set+`?.slow_query_log === true && window.config.long_query_time === 0.3`))
	w.server.AwaitStatus(d, "active")
	w.do(t, w.visit(at+"/queries"), until(control("Log from so many milliseconds on")+`?.value === "300"`), press("Plan of a statement"), fill("Statement", "SELECT 1 FROM information_schema.tables"), press("Show the plan"),
		until(`document.querySelector("dialog .code")?.innerText.includes("query_block")`), press("Close"))
	if status, body := w.server.Call("DELETE", d.Path(), nil, nil); status != http.StatusOK {
		t.Fatal(status, body)
	}
}
