package console

import (
	"net/http"
	"testing"
)

// tabs has the console open in two tabs of one browser: what is done in one shows in the other, over one stream of events, which the other
// takes on when the first goes.
func tabs(t *testing.T, w *world) {
	second := &world{browser: w.tab(t), server: w.server, origin: w.origin}
	w.do(t, w.visit("/console/databases"), see("again"))
	second.do(t, second.visit("/console/databases/postgresql/1/settings"), until(control("Label")))
	first, other := w.following(), second.following()
	second.do(t, fill("Label", "renamed"), run(control("Label")+".form.requestSubmit()"), see("Saved."))
	w.do(t, see("renamed"))
	if w.following() != first || second.following() != other || other != 0 {
		t.Errorf("%d and %d streams of events", w.following(), second.following())
	}
	w.do(t, visit("about:blank"))
	second.do(t, second.visit("/console/databases"), see("renamed"), until(`window.marked = true`))
	if status, body := w.server.Call("PUT", "/v4/databases/postgresql/instances/1", map[string]any{"label": "again"}, nil); status != http.StatusOK {
		t.Fatal(status, body)
	}
	second.do(t, see("again"), until(`window.marked`))
	if second.following() == 0 {
		t.Error("nobody follows events once the first tab is gone")
	}
	second.quiet(t)
}

// following is how many streams of events the tab has opened.
func (b *browser) following() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.streams
}
