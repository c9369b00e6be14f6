package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// complains waits until the browser tells of a violation of the policy, and forgets it: in every other case it fails the test.
func (w *world) complains(t *testing.T, about string) {
	t.Helper()
	w.server.Eventually("the browser's complaint about "+about, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.complaints {
			if strings.Contains(c, about) {
				w.complaints = nil
				return nil
			}
		}
		return fmt.Errorf("it tells of %q", w.complaints)
	})
}

// guarded does on a page what a script of an attacker would: the browser refuses it and tells of it, which is what fails every other case. And
// another site has it in a frame, in vain.
func guarded(t *testing.T, w *world) {
	foreign := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			answer.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(answer, `<!doctype html><title>elsewhere</title><iframe src="%[1]s/console/"></iframe><iframe src="%[1]s/oauth/authorize"></iframe>`, w.origin)
		}
	}))
	t.Cleanup(foreign.Close)
	b := &world{browser: w.stranger(t), server: w.server, origin: w.origin}
	b.do(t, b.visit("/console/first"), see("Welcome to steward"))
	for name, c := range map[string]struct{ script, about string }{
		"text becomes elements": {`document.body.innerHTML = "<b>x</b>"`, "TrustedTypes"},
		"a policy of its own":   {`trustedTypes.createPolicy("mine", {createHTML: x => x})`, "TrustedTypesPolicy"},
		"a line of script":      {`document.head.append(Object.assign(document.createElement("script"), {text: "window.pwned = 1"}))`, "TrustedTypes"},
		"another's image":       {fmt.Sprintf(`document.body.append(Object.assign(new Image(), {src: "%s/x"}))`, foreign.URL), "img-src"},
		"a request elsewhere":   {fmt.Sprintf(`fetch("%s/x").catch(() => 0)`, foreign.URL), "connect-src"},
		"a form elsewhere":      {fmt.Sprintf(`(() => { const f = document.createElement("form"); f.action = "%s/x"; document.body.append(f); f.submit(); })()`, foreign.URL), "form-action"},
		"a style of its own":    {`document.body.setAttribute("style", "color: red")`, "style-src"},
		"a base":                {fmt.Sprintf(`document.head.append(Object.assign(document.createElement("base"), {href: "%s"}))`, foreign.URL), "base-uri"},
		"a worker":              {`new Worker(URL.createObjectURL(new Blob(["1"])))`, ""},
	} {
		b.do(t, run(fmt.Sprintf(`(() => { try { %s } catch { } })()`, c.script)))
		b.complains(t, c.about)
		if value[bool](t, b.browser, `"pwned" in window`) {
			t.Errorf("%s is let through", name)
		}
	}
	b.do(t, visit(foreign.URL+"/"), until(`document.readyState === "complete"`))
	b.complains(t, "frame-ancestors")
	tree, err := chromedp.Call(b.ctx, page.GetFrameTree, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	frames := tree.FrameTree.ChildFrames
	for _, f := range frames {
		if strings.HasPrefix(f.Frame.URL, w.origin) {
			t.Errorf("another site has %s in a frame", f.Frame.URL)
		}
	}
	if len(frames) != 2 {
		t.Errorf("%d frames", len(frames))
	}
}
