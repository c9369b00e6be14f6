package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// inDrawer has the drawer open while each hostile text comes into it as the label of an event, and finds them there as text.
func inDrawer(t *testing.T, w *world) {
	w.do(t, w.visit("/console/machines"), press("Activity"), until(`document.querySelector("dialog .feed") && !document.querySelector("dialog .wait")`), run(`window.marked = true`))
	taken := 0
	for i, text := range hostile {
		name := fmt.Sprintf("drawn %d %.40s", i, text)
		status, body := w.server.Call("POST", "/v4/managed/contacts", map[string]any{"name": name, "email": "x@example.org", "group": "nobody"}, nil)
		if status == http.StatusBadRequest { // some rules let none in
			continue
		}
		if status != http.StatusOK {
			t.Fatal(status, body)
		}
		taken++
		w.do(t, until(fmt.Sprintf(`[...document.querySelectorAll("dialog .feed a")].some(a => a.innerText === %q)`, strings.ReplaceAll(name, "\u202e", "\ufffd"))))
		w.asText(t, "the drawer")
	}
	if taken < 5 {
		t.Errorf("the API took %d of the hostile texts only", taken)
	}
	w.do(t, until(`window.marked`))
}
