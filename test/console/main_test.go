// Package console drives the console of the built binary in a real browser, with real
// databases behind it, as a person does.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"steward/internal/testdir"
	"steward/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	stopChromium()
	harness.RemoveBinaries()
	os.Exit(code)
}

// step is something that a person does or waits for.
type step func(ctx context.Context) error

// browser is one tab of Chromium, and what it complained about.
type browser struct {
	ctx context.Context
	mu  sync.Mutex
	// asked are the requests that went to the API, by method and path.
	asked map[string]bool
	// from is the page that asked, and refused what pages asked that was answered with 403.
	from       map[network.RequestID]string
	refused    map[string][]string
	complaints []string
	// urls are all that was asked of anybody, and streams how many of them were streams of events.
	urls    []string
	streams int
}

// needless is what Chromium would do besides: have renderers ready for pages that may come, keep pages that were left, and offer what people like.
var needless = []string{
	"Translate", "SpareRendererForSitePerProcess", "BackForwardCache", "RenderDocument", "PaintHolding", "OptimizationHints", "MediaRouter",
	"GlobalMediaControls", "HttpsUpgrades", "LensOverlay",
}

// chromium is the program that all browsers are of, which starts when the first is wanted: a start takes seconds of processor time. What it writes, and
// what its processes share, is in memory where there is room: each picture that it draws would be a file on the disk.
var chromium = sync.OnceValues(func() (context.Context, error) {
	folder, err := testdir.Make("chromium")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("in-process-gpu", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-background-networking", true), chromedp.WindowSize(1280, 900),
		// What moves is drawn again and again: it does where a case has it move.
		chromedp.Flag("force-prefers-reduced-motion", true), chromedp.Flag("disable-features", strings.Join(needless, ",")),
		// What takes longer to compile than it runs: pages are left after a second or two.
		chromedp.Flag("js-flags", "--no-opt --no-maglev --no-sparkplug"), chromedp.UserDataDir(folder), chromedp.Flag("disable-dev-shm-usage", !strings.HasPrefix(folder, "/dev/shm/")))
	// Chromium without windows takes a quarter less of processor time than Chromium that shows none.
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	stopChromium = func() { cancel(); end(); _ = os.RemoveAll(folder) }
	return ctx, chromedp.Do(ctx)
})

// stopChromium ends the program, if it was started.
var stopChromium = func() {}

// newBrowser is one that shares the program with others, but nothing that it keeps.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	ctx, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	return opened(ctx, t, chromedp.WithNewBrowserContext())
}

// tab is another tab of the browser, and stranger one that knows nothing of its cookies.
func (b *browser) tab(t *testing.T) *browser { return b.another(t) }

func (b *browser) stranger(t *testing.T) *browser {
	return b.another(t, chromedp.WithNewBrowserContext())
}

func (b *browser) another(t *testing.T, options ...chromedp.ContextOption) *browser {
	t.Helper()
	made := opened(b.ctx, t, options...)
	if _, err := chromedp.Call(b.ctx, page.BringToFront, cdp.Empty{}); err != nil { // what isn't seen isn't drawn
		t.Fatal(err)
	}
	return made
}

// opened is a new tab, which is gone when the test ends.
func opened(from context.Context, t *testing.T, options ...chromedp.ContextOption) *browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(from, options...)
	t.Cleanup(cancel)
	return listenTo(ctx, t)
}

func listenTo(ctx context.Context, t *testing.T) *browser {
	t.Helper()
	b := &browser{ctx: ctx, asked: map[string]bool{}, from: map[network.RequestID]string{}, refused: map[string][]string{}}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	// Nobody asks for nodes and styles as developers' tools see them, which chromedp has the browser tell of with each page.
	for _, command := range []cdp.Command[cdp.Empty, cdp.Empty]{audits.Enable, log.Enable, css.Disable, dom.Disable} {
		if _, err := chromedp.Call(ctx, command, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil { // each tab is typed into
		t.Fatal(err)
	}
	return b
}

// note keeps what the browser asks for, and what it finds wrong: violations of the
// policy, and exceptions.
func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.urls = append(b.urls, e.Request.URL)
		if e.Type == network.ResourceTypeEventSource {
			b.streams++
		}
		if _, rest, ok := strings.Cut(e.Request.URL, "/console/v4/"); ok {
			path, _, _ := strings.Cut(rest, "?")
			b.asked[e.Request.Method+" /v4/"+path] = true
			b.from[e.RequestID] = e.DocumentURL
		}
	case *network.EventResponseReceived:
		if at, err := url.Parse(e.Response.URL); err == nil && strings.HasPrefix(at.Path, "/console") && !strings.HasPrefix(at.Path, "/console/assets/") && header(e.Response.Headers, "Cache-Control") != "no-store" {
			b.complaints = append(b.complaints, "may be kept: "+e.Response.URL)
		}
		if _, rest, ok := strings.Cut(e.Response.URL, "/console/v4/"); ok && e.Response.Status == http.StatusForbidden {
			page := b.from[e.RequestID]
			b.refused[page] = append(b.refused[page], "/v4/"+rest)
		}
	case *audits.EventIssueAdded:
		if e.Issue.Details.ContentSecurityPolicyIssueDetails != nil {
			text, _ := json.Marshal(e.Issue.Details.ContentSecurityPolicyIssueDetails)
			b.complaints = append(b.complaints, "content security policy: "+string(text))
		}
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		b.complaints = append(b.complaints, "exception: "+string(text))
	case *log.EventEntryAdded:
		if strings.Contains(e.Entry.Text, "Content Security Policy") || strings.Contains(e.Entry.Text, "TrustedScript") || strings.Contains(e.Entry.Text, "TrustedHTML") {
			b.complaints = append(b.complaints, e.Entry.Text)
		}
	}
}

// header is one of an answer's, whatever the case of its name.
func header(all network.Headers, name string) string {
	for n, value := range all {
		if strings.EqualFold(n, name) {
			return fmt.Sprint(value)
		}
	}
	return ""
}

// quiet fails when the browser has complained.
func (b *browser) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		t.Error(c)
	}
	b.complaints = nil
}

// patience is for one step in the browser, which may wait for a move to another version on a busy machine.
const patience = 2 * time.Minute

// do carries out steps, and shows the page when one fails.
func (b *browser) do(t *testing.T, steps ...step) {
	t.Helper()
	for i, s := range steps {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		err := s(ctx)
		cancel()
		if err != nil {
			look, stop := context.WithTimeout(b.ctx, 10*time.Second) // a browser that has died answers nothing
			text, _ := evaluate[string](look, `location.href + "\n" + document.body.innerText`)
			stop()
			b.shoot(t, "failed-"+strings.ReplaceAll(t.Name(), "/", "-"))
			t.Fatalf("step %d: %v\nthe page:\n%s", i+1, err, text)
		}
	}
}

// shoot keeps a picture of the page where STEWARD_SCREENSHOTS says, if it does.
func (b *browser) shoot(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("STEWARD_SCREENSHOTS")
	if folder == "" {
		return
	}
	shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o600)
	}
	if err != nil {
		t.Log(err)
	}
}

// album makes a page of the pictures in a folder, for whoever looks through them.
func album(folder string) error {
	found, err := filepath.Glob(filepath.Join(folder, "*.png"))
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("<!doctype html><meta charset=utf-8><title>The console</title>")
	for _, path := range found {
		name := filepath.Base(path)
		fmt.Fprintf(&text, "<h2>%[1]s</h2><img src=\"%[1]s\" loading=lazy>\n", strings.ReplaceAll(name, "%", "%25"))
	}
	return os.WriteFile(filepath.Join(folder, "index.html"), []byte(text.String()), 0o600)
}

func evaluate[T any](ctx context.Context, expression string) (T, error) {
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// value is what an expression is on the page.
func value[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// longestPause is between two looks at a page that takes its time: each look has the browser lay out what has changed.
const longestPause = 200 * time.Millisecond

// until waits until an expression is true, over whatever pages come meanwhile.
func until(expression string) step {
	return func(ctx context.Context) error {
		pause := 20 * time.Millisecond
		for {
			once, stop := context.WithTimeout(ctx, 2*time.Second) // a page that goes away may take its answer with it, and what is said is seen for six seconds
			ok, err := evaluate[bool](once, "!!("+expression+")")
			stop()
			if ok && err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return errors.Join(fmt.Errorf("never true: %s", expression), err)
			case <-time.After(pause):
				pause = min(2*pause, longestPause)
			}
		}
	}
}

// see waits until the page shows a text.
func see(text string) step { return until(fmt.Sprintf(`document.body.innerText.includes(%q)`, text)) }

func visit(url string) step {
	return func(ctx context.Context) error { return chromedp.Do(ctx, chromedp.Navigate(url)) }
}

func run(expression string) step {
	return func(ctx context.Context) error {
		_, err := evaluate[chromedp.Void](ctx, "void ("+expression+")")
		return err
	}
}

// script carries out a whole program on the page.
func script(text string) step {
	return func(ctx context.Context) error {
		_, err := evaluate[chromedp.Void](ctx, text)
		return err
	}
}

// place is where a person looks: the dialog that is open, the last of several, or the page.
const place = `([...document.querySelectorAll("dialog[open]")].at(-1) ?? document)`

// press clicks the button or link with a text or label, once it is there.
func press(text string) step {
	found := fmt.Sprintf(`[...%s.querySelectorAll("button, a, summary")].find(e => !e.disabled && e.checkVisibility() && (e.innerText.trim() === %[2]q || e.getAttribute("aria-label") === %[2]q))`, place, text)
	return both(until(found), run(found+".click()"))
}

func both(steps ...step) step {
	return func(ctx context.Context) error {
		for _, s := range steps {
			if err := s(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func control(label string) string {
	return fmt.Sprintf(`[...%s.querySelectorAll("label")].find(l => l.checkVisibility() && l.innerText.trim() === %q)?.control`, place, label)
}

// fill types into the control with a label, in place of what is there.
func fill(label, text string) step {
	if text == "" {
		text = kb.Backspace
	}
	return both(until(fmt.Sprintf(`(c => c && (c.focus(), c.select?.(), document.activeElement === c))(%s)`, control(label))), typed(text))
}

// typed has a text come as from an input method, but for its end, which comes key by key: a control that loses the focus once something is entered
// doesn't get that.
func typed(text string) step {
	all := []rune(text)
	if len(all) < 4 || strings.ContainsAny(text, kb.Enter+kb.Backspace) {
		return keys(text)
	}
	end := len(all) - 2
	return func(ctx context.Context) error {
		if _, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: string(all[:end])}); err != nil {
			return err
		}
		return keys(string(all[end:]))(ctx)
	}
}

// choose sets the list with a label, once it offers the value.
func choose(label, value string) step {
	set := fmt.Sprintf(`(() => { const s = %s; s.value = %q; s.dispatchEvent(new Event("change", {bubbles: true})) })()`, control(label), value)
	return both(until(fmt.Sprintf(`[...(%s?.options ?? [])].some(o => o.value === %q)`, control(label), value)), run(set))
}

// beside waits until what was wrong with a control stands with it, and is read out with it.
func beside(label, text string) step {
	return until(fmt.Sprintf(`(c => c?.getAttribute("aria-invalid") === "true" && c.getAttribute("aria-describedby").split(" ").map(id => document.getElementById(id)).some(p => p.matches(".problem") && p.checkVisibility() && p.innerText.includes(%q)))(%s)`, text, control(label)))
}

func keys(text string) step {
	return func(ctx context.Context) error { return chromedp.Do(ctx, chromedp.KeyEvent(text)) }
}

// look sets the width of the window and the theme.
func look(width int64, theme string) step {
	return func(ctx context.Context) error {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900)); err != nil {
			return err
		}
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return err
	}
}
