package console

import (
	"strings"
	"testing"
)

// operators makes an account and its first user, who logs in to it elsewhere; bounds, suspends and deletes it; and looks at the
// machine, at what is missing there, and at what people were told.
func operators(t *testing.T, w *world) {
	account := func(has string) step { return until(row("Accounts", "acme") + `?.innerText.includes("` + has + `")`) }
	w.do(t, w.visit("/console/operator"), until(row("Accounts", "default")), press("Add an account"), fill("Name", "-"), fill("E-mail", "nobody"), press("Save"), beside("Name", ""), beside("E-mail", ""),
		fill("Name", "acme"), fill("E-mail", "acme@example.org"), fill("Most databases", "2"), press("Save"), account("0 of 2"))
	w.shoot(t, "operator")
	w.do(t, press("First user of acme"), fill("User name", "ada"), press("First user"), see("Hand this link over."))
	link := value[string](t, w.browser, `document.querySelector("dialog .code pre").innerText`)
	w.do(t, press("Cancel"), account("1"), press("Change acme"), fill("Most databases", ""), press("Save"), until(row("Accounts", "acme")+`?.innerText.includes("of 2") === false`))

	other := &world{browser: w.stranger(t)}
	other.do(t, visit(strings.TrimSpace(link)), fill("Password", password), fill("The same password again", password), press("Set the password"), see("Log in to steward"), logIn("acme/ada", password), see("What happened last"))
	if value[bool](t, other.browser, `[...document.querySelectorAll("nav a")].some(a => a.innerText === "Operator")`) {
		t.Error("another account's user is offered what is the operators'")
	}
	other.do(t, visit(w.origin+"/console/operator"), see("it is for operators of the installation"), visit(w.origin+"/console/databases"), see("You have no database yet."))
	for _, path := range []string{"accounts", "regions", "nodes", "doctor", "notices"} {
		if status := value[int](t, other.browser, `fetch("/console/v4/operator/`+path+`").then(r => r.status)`); status != 403 {
			t.Errorf("%s: %d", path, status)
		}
	}
	w.do(t, press("Suspend acme"), press("Suspend"), account("Suspended"))
	other.do(t, visit(w.origin+"/console/databases"), until(`!document.body.innerText.includes("You have no database yet.")`))
	w.do(t, press("Resume acme"), press("Resume"), account("Active"), press("Delete acme"), fill("Type acme to go on", "acme"), press("Delete"), until(`!(`+row("Accounts", "acme")+`)`))

	w.do(t, w.visit("/console/operator/hosts"), until(row("Database servers of this machine", "again")+`?.innerText.includes("Primary")`), until(row("Regions", "local")+`?.innerText.includes("host")`))
	w.do(t, w.visit("/console/operator/doctor"), see("This machine"), see("Servers that can be run"), until(row("Servers that can be run", "postgresql/15")))
	w.do(t, w.visit("/console/operator/notices"), press("Send a test"), fill("E-mail", "nobody"), press("Send"), until(`document.querySelector("dialog .problem")`), press("Cancel"),
		tick("Only those that couldn't be delivered"), press("Try all that failed again"), see("Tried again at once."))

	if out, err := w.server.Command("operator", "list", "--data", w.server.Data); err != nil || !strings.Contains(out, "admin") {
		t.Errorf("%v %s", err, out)
	}
	if out, err := w.server.Command("operator", "remove", "admin", "--data", w.server.Data); err != nil {
		t.Errorf("%v %s", err, out)
	}
	w.do(t, w.visit("/console/operator/hosts"), see("it is for operators of the installation"))
	if out, err := w.server.Command("operator", "add", "admin", "--data", w.server.Data); err != nil {
		t.Errorf("%v %s", err, out)
	}
	w.do(t, w.visit("/console/operator/hosts"), until(row("Regions", "local")))
}
