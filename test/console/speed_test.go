package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// traceEvent is what Chromium writes down of its work; times are microseconds.
type traceEvent struct {
	Name  string  `json:"name"`
	Phase string  `json:"ph"`
	Begun float64 `json:"ts"`
	Took  float64 `json:"dur"`
	// Process is the renderer's, of which each day has its own; the trace is of the whole program.
	Process int64 `json:"pid"`
	Thread  int64 `json:"tid"`
	Args    struct {
		Data struct {
			Score float64 `json:"score"`
			// Asked reports whether a person had just done something, which may move things.
			Asked bool            `json:"had_recent_input"`
			Moved json.RawMessage `json:"impacted_nodes"`
			// Message is what the page says by console.timeStamp.
			Message string `json:"message"`
		} `json:"data"`
	} `json:"args"`
}

// traced is what Chromium did while a person did something, in milliseconds.
type traced struct {
	// scripting has what scripts have the browser work out at once, too; drawing is the rest that a change of the page takes.
	scripting, drawing float64
	// shifted is how far what was there already moved, by the browser's own score.
	shifted float64
	moved   []string
}

var (
	scriptEvents = []string{"FunctionCall", "EvaluateScript", "EventDispatch", "TimerFire", "FireAnimationFrame", "RunMicrotasks", "v8.compile"}
	drawEvents   = []string{"UpdateLayoutTree", "Layout", "PrePaint", "Paint", "Layerize", "Commit"}
)

var errNotYet = errors.New("not yet")

// trace carries out steps while Chromium writes down what it does.
func (w *world) trace(t *testing.T, steps ...step) traced {
	t.Helper()
	var mu sync.Mutex
	var all []traceEvent
	done := make(chan struct{})
	err := chromedp.Listen(w.ctx, func(event any) {
		switch e := event.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, text := range e.Value {
				var one traceEvent
				if json.Unmarshal(text, &one) == nil {
					all = append(all, one)
				}
			}
		case *tracing.EventTracingComplete:
			select {
			case <-done:
			default:
				close(done)
			}
		}
	})
	if err == nil {
		_, err = chromedp.Call(w.ctx, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{IncludedCategories: []string{"devtools.timeline", "loading", "disabled-by-default-devtools.timeline"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	stamped := fmt.Sprintf("traced for %s", w.origin)
	w.do(t, run(fmt.Sprintf("console.timeStamp(%q)", stamped)))
	w.do(t, steps...)
	w.do(t, painted, run(fmt.Sprintf("console.timeStamp(%q)", stamped)))
	if _, err := chromedp.Call(w.ctx, tracing.End, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	w.server.Eventually("the trace", func() error {
		select {
		case <-done:
			return nil
		default:
			return errNotYet
		}
	})
	mu.Lock()
	defer mu.Unlock()
	own := map[int64]bool{} // a page that is loaded may have a renderer of its own
	for _, e := range all {
		own[e.Process] = own[e.Process] || e.Args.Data.Message == stamped
	}
	return summed(slices.DeleteFunc(all, func(e traceEvent) bool { return !own[e.Process] }))
}

// painted waits until what is to be drawn is.
func painted(ctx context.Context) error {
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`new Promise(f => requestAnimationFrame(() => requestAnimationFrame(() => f(true))))`, chromedp.EvalAwaitPromise))
	return err
}

func summed(all []traceEvent) (sum traced) {
	sum.scripting, sum.drawing = within(all, scriptEvents), within(all, drawEvents)
	for _, e := range all {
		if e.Name == "LayoutShift" && !e.Args.Data.Asked {
			sum.shifted += e.Args.Data.Score
			sum.moved = append(sum.moved, string(e.Args.Data.Moved))
		}
	}
	return sum
}

// within is how long events of some names took, in milliseconds, what lies inside another not counted again.
func within(all []traceEvent, names []string) (ms float64) {
	until := map[int64]float64{}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b traceEvent) int { return cmp.Compare(a.Begun, b.Begun) })
	for _, e := range sorted {
		if e.Phase != "X" || !slices.Contains(names, e.Name) {
			continue
		}
		if from, to := max(e.Begun, until[e.Thread]), e.Begun+e.Took; to > from {
			ms, until[e.Thread] = ms+(to-from)/1000, to
		}
	}
	return ms
}

// rowsByHand makes a table like that of five hundred databases by the browser's own means, a floor for what makes it of data.
const rowsByHand = `setTimeout(() => {
	const table = document.body.appendChild(Object.assign(document.createElement("table"), {id: "floor"}));
	for (let i = 0; i < 500; i++) {
		const row = table.insertRow();
		const add = (cell, tag, text, more) => Object.assign(cell.appendChild(document.createElement(tag)), {textContent: text}, more);
		add(row.insertCell(), "a", "database-" + i, {href: "/console/databases/postgresql/" + i});
		add(row.insertCell(), "span", "Active", {className: "status good"});
		for (const text of ["PostgreSQL 15", "g6-nanode-1", "1 / 1"]) row.insertCell().textContent = text;
		const disk = add(row.insertCell(), "span", "", {className: "metered"});
		Object.assign(disk.appendChild(document.createElement("meter")), {min: 0, max: 1, low: .8, high: .9, optimum: 0, value: .04}).setAttribute("aria-label", "Disk of database-" + i + " in use");
		disk.append("4 %");
		row.insertCell().textContent = "local";
	}
})`

// mostOfFloor is how many times what the rows take by hand the list may take: reading, ordering and comparing come on top. Times of one run
// compare, whatever the machine does meanwhile.
const mostOfFloor = 12

// plotOfFloor is the same for a plot of 30 days: some five milliseconds by hand on a quiet machine, where 50 are the goal, and as much again for what others do.
const plotOfFloor = 20

// many shows a list of five hundred databases and a month's plots, as the API would answer them, and tells what they take.
func many(t *testing.T, w *world) {
	// From a page that shows no events: what happens meanwhile is no part of what the list takes.
	w.do(t, w.visit("/console/contacts"), see("Who is told of issues"), until(`!document.querySelector("main .wait")`), run(`(() => {
		const ask = window.fetch;
		const whole = (value, how) => new Response(JSON.stringify(value), {status: 200, headers: {"Content-Type": "application/json"}});
		window.fetch = async (to, how) => {
			const path = String(to);
			if (path.includes("/v4/databases/instances")) {
				const list = await (await ask(to)).json(); // whole, whatever the page has already
				const data = Array.from({length: 500}, (_, i) => ({...list.data[0], id: i + 1, label: "database-" + i}));
				return whole({...list, data, results: 500, pages: 1});
			}
			if (path.includes("/metrics?")) {
				const found = await (await ask(to)).json();
				const wave = values => values.map((_, i) => 50 + 40 * Math.sin(i / 9));
				const metrics = found.metrics.slice(0, window.one ? 1 : 100).map(m => ({...m, values: wave(m.values), nodes: m.nodes.map(n => ({...n, values: wave(m.values)}))}));
				return whole({...found, metrics});
			}
			return ask(to, how);
		};
	})()`))
	floor := w.trace(t, script(rowsByHand), until(`document.querySelectorAll("#floor tr").length === 500`))
	w.do(t, run(`document.querySelector("#floor").remove()`))
	list := w.trace(t, press("Databases"), until(`document.querySelectorAll("tbody tr").length === 500`))
	t.Logf("as many rows made by hand: %.1f ms of scripting, the list %.1f times that", floor.scripting, list.scripting/floor.scripting)
	if floor.drawing == 0 {
		t.Error("the drawing of the rows made by hand isn't in their trace")
	}
	if floor.scripting == 0 || list.scripting > mostOfFloor*floor.scripting {
		t.Errorf("the list takes %.1f ms of scripting, %.1f ms by hand", list.scripting, floor.scripting)
	}
	t.Logf("five hundred databases: %.0f ms of scripting, %.0f ms of layout and painting, layout shift %.4f", list.scripting, list.drawing, list.shifted)
	field := `JSON.stringify(` + control("Filter") + `.getBoundingClientRect())`
	stands := value[string](t, w.browser, field)
	typed := w.trace(t, run(control("Filter")+".focus()"), keys("database-49"), until(`document.querySelectorAll("tbody tr").length === 11`))
	t.Logf("a filter typed over them: %.0f ms of scripting for 11 keys, %.0f ms of layout and painting", typed.scripting, typed.drawing)
	if list.scripting == 0 || list.drawing == 0 || list.shifted != 0 || typed.scripting == 0 || typed.shifted != 0 {
		t.Errorf("nothing was traced, or what was there moved: %+v %+v", list, typed)
	}
	if now := value[string](t, w.browser, field); now != stands {
		t.Errorf("the filter was at %s, and is at %s", stands, now)
	}
	w.do(t, run(`window.one = true`), run(`history.pushState(null, "", "/console/databases/postgresql/1/metrics")`), run(`dispatchEvent(new PopStateEvent("popstate"))`), until(`document.querySelector(".plot canvas")`))
	drawn := `document.querySelector(".plot canvas") && document.querySelector("p.hint")?.innerText !== window.before`
	one := w.trace(t, run(`window.before = document.querySelector("p.hint").innerText`), choose("Time", "30 d"), until(drawn))
	points := value[int](t, w.browser, `fetch("/console" + performance.getEntriesByType("resource").map(e => e.name).filter(n => n.includes("/metrics?")).at(-1).split("/console")[1]).then(r => r.json()).then(m => m.metrics[0].values.length)`)
	w.do(t, run(`window.one = false`), choose("Time", "7 d"), until(drawn))
	ten := w.trace(t, run(`window.before = document.querySelector("p.hint").innerText`), choose("Time", "30 d"), until(drawn))
	plots := value[int](t, w.browser, `document.querySelectorAll(".plot canvas").length`)
	t.Logf("a plot of 30 days with %d points: %.0f ms of scripting, %.0f ms of layout and painting; %d plots: %.0f ms", points, one.scripting, one.drawing, plots, ten.scripting)
	if one.scripting > plotOfFloor*floor.scripting {
		t.Errorf("a plot takes %.1f ms of scripting, the rows by hand %.1f ms", one.scripting, floor.scripting)
	}
	if one.scripting == 0 || plots < 2 || points < 100 {
		t.Errorf("%d plots, %d points: %+v", plots, points, one)
	}
	// A first view that nothing is cached for moves nothing about, either.
	first := w.trace(t, w.load("/console/databases"), until(`document.querySelector("tbody tr")`))
	t.Logf("the list from nothing: %.0f ms of scripting, layout shift %.4f", first.scripting, first.shifted)
	if first.shifted != 0 {
		t.Errorf("the list moves by %f while it comes: %s", first.shifted, first.moved)
	}
}

// idle has a page stand open, in a browser of its own, while nothing happens: between one heartbeat of the stream and another it asks for nothing.
// What it returns waits until that was seen.
func idle(t *testing.T, shared *world) (resting func()) {
	w := &world{browser: shared.stranger(t), server: shared.server, origin: shared.origin}
	var mu sync.Mutex
	var stream network.RequestID
	var last time.Time
	var beats, asked int // heartbeats since something happened, and what the page asked after the first of them
	if err := chromedp.Listen(w.ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if e.Type == network.ResourceTypeEventSource {
				stream, last, beats, asked = e.RequestID, time.Now(), 0, 0 // the page reads all anew when its stream begins
				return
			}
			if beats == 1 {
				asked++
			}
		case *network.EventDataReceived:
			if e.RequestID != stream {
				return
			}
			if time.Since(last) > 5*time.Second { // what the stream begins with comes at once
				beats++
			}
			last = time.Now()
		case *network.EventEventSourceMessageReceived: // the page reads what this may have changed
			last, beats, asked = time.Now(), 0, 0
		}
	}); err != nil {
		t.Fatal(err)
	}
	w.do(t, w.visit("/console/databases/postgresql/1"), see("Log in to steward"), logIn("admin", password), see("Show the password"), until(`!document.querySelector("main .wait")`), press("Activity"), until(`document.querySelector("dialog .feed") && !document.querySelector("dialog .wait")`)) // with the drawer open, too
	return func() {
		w.server.Eventually("two heartbeats to pass in which nothing happens", func() error {
			mu.Lock()
			defer mu.Unlock()
			if beats < 2 {
				return errNotYet
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		if asked != 0 {
			t.Errorf("the open page asked %d times while nothing happened", asked)
		}
		w.quiet(t)
	}
}
