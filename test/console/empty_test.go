package console

import (
	"fmt"
	"strings"
	"testing"
)

// empty looks at a new installation's lists: each says that it has nothing, what would be in it, and has what begins it.
func empty(t *testing.T, w *world) {
	for path, c := range map[string]struct{ none, why, begins string }{
		"/console/":                     {"The first three steps", "Connect to it: its page has the line", "Create a database"},
		"/console/databases":            {"You have no database yet.", "", "Create a database"},
		"/console/services":             {"No service is watched yet.", "contacts are told when it doesn't answer", "Watch a service"},
		"/console/issues":               {"There has been no issue.", "One opens by itself when a service that is watched doesn't answer", ""},
		"/console/contacts":             {"Nobody is told yet.", "a mail when an issue opens", "Add a contact"},
		"/console/status-pages":         {"There is none.", "A status page tells everybody", "Publish a status page"},
		"/console/machines/credentials": {"There is none.", "that staff may need to mend a service", "Add a credential"},
		"/console/account/clients":      {"There is none.", "Applications that users may let act for them.", "Add an OAuth client"},
		"/console/account/usage":        {"No database was there in this month.", "", ""},
	} {
		w.do(t, w.visit(path), loaded)
		text := value[string](t, w.browser, `document.querySelector("main").innerText`)
		for _, part := range []string{c.none, c.why} {
			if !strings.Contains(text, part) {
				t.Errorf("%s doesn't say %q: %s", path, part, text)
			}
		}
		if c.begins != "" && !value[bool](t, w.browser, fmt.Sprintf(`[...document.querySelectorAll("main a, main button")].some(e => !e.disabled && e.checkVisibility() && e.innerText.trim() === %q)`, c.begins)) {
			t.Errorf("%s hasn't %q", path, c.begins)
		}
		if value[bool](t, w.browser, `!!document.querySelector("main tbody tr, main [role=alert]")`) {
			t.Errorf("%s has rows, or says that something is wrong: %s", path, text)
		}
	}
}
