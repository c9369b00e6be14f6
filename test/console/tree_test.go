package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	permit "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// heard is a node of the tree that Chromium gives a screen reader.
type heard struct {
	role, name string
	level      int
	focusable  bool
	// live is how a change of it is told, by itself or what it is in.
	live string
}

// tree is what a screen reader finds on the page, in its order.
func (w *world) tree(t *testing.T) (all []heard) {
	t.Helper()
	found, err := chromedp.Call(w.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	byID := map[accessibility.NodeID]*accessibility.Node{}
	for _, n := range found.Nodes {
		byID[n.NodeID] = n
	}
	var walk func(n *accessibility.Node, live string)
	walk = func(n *accessibility.Node, live string) {
		h := hear(n)
		if h.live == "" {
			h.live = live
		}
		if !n.Ignored {
			all = append(all, h)
		}
		for _, id := range n.ChildIDs {
			if child, ok := byID[id]; ok {
				walk(child, h.live)
			}
		}
	}
	if len(found.Nodes) > 0 {
		walk(found.Nodes[0], "")
	}
	return all
}

func hear(n *accessibility.Node) heard {
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &s) // what isn't a text has none
		}
		return s
	}
	h := heard{role: text(n.Role), name: strings.TrimSpace(text(n.Name))}
	for _, p := range n.Properties {
		switch p.Name {
		case accessibility.PropertyNameLevel:
			_ = json.Unmarshal(p.Value.Value, &h.level)
		case accessibility.PropertyNameFocusable:
			_ = json.Unmarshal(p.Value.Value, &h.focusable)
		case accessibility.PropertyNameLive:
			h.live = text(p.Value)
		}
	}
	return h
}

// unnamed are roles of containers that can have the focus by a script, and need no name.
var unnamed = []string{"RootWebArea", "main", "heading"}

// listens holds what a screen reader is told of a page, or of the dialog on it: each control has a name and a role, headings begin
// with the page's and leave out no level, and there is a place where changes are told.
func (w *world) listens(t *testing.T, where string) {
	t.Helper()
	all := w.tree(t)
	level, first, live := 0, 0, false
	dialog := slices.ContainsFunc(all, func(n heard) bool { return n.role == "dialog" && n.name != "" })
	if dialog {
		level, first = 1, 1 // the rest of the page is out of reach meanwhile, with its heading
	}
	for _, n := range all {
		if n.focusable && !slices.Contains(unnamed, n.role) && (n.name == "" || n.role == "generic" || n.role == "none" || n.role == "") {
			t.Errorf("%s: a control with role %q has the name %q", where, n.role, n.name)
		}
		if n.role == "heading" {
			if n.level > level+1 || n.name == "" {
				t.Errorf("%s: heading %q of level %d after one of level %d", where, n.name, n.level, level)
			}
			if n.level == 1 {
				first++
			}
			level = n.level
		}
		live = live || n.role == "status" && n.live == "polite"
	}
	if first != 1 || !live || len(all) < 8 {
		t.Errorf("%s: %d headings of the first level, changes told: %v, %d nodes", where, first, live, len(all))
	}
}

// measuring are screens that show what is measured, which no event tells of: they ask again by themselves.
var measuring = []string{"metrics", "queries", "service", "machines", "hosts"}

// screenReader looks at the dialogs that buttons open, as accessible does at screens: Escape closes them, and the focus is on the button again.
func screenReader(t *testing.T, w *world) {
	given := axe(t)
	for path, buttons := range map[string][]string{
		"/console/account":                         {"Add a user", "Grants of bob", "Delete bob", "Calls"},
		"/console/services":                        {"Activity"},
		"/console/account/tokens":                  {"Make a token"},
		"/console/account/clients":                 {"Add an OAuth client"},
		"/console/contacts":                        {"Add a contact"},
		"/console/operator":                        {"Add an account", "Change default", "Suspend default"},
		"/console/operator/notices":                {"Send a test"},
		"/console/status-pages":                    {"Publish a status page"},
		"/console/machines/credentials":            {"Add a credential"},
		"/console/alerts":                          {"Add a rule", "Change Disk over 80 %"},
		"/console/alerts/channels":                 {"Add a channel"},
		"/console/databases/postgresql/1/access":   {"Add a logical database", "Add a user", "Add a connection pool", "Bring a database over"},
		"/console/databases/postgresql/1/queries":  {"Plan of a statement", "Begin to count anew"},
		"/console/databases/postgresql/1/backups":  {"Back up now", "Restore a moment"},
		"/console/databases/postgresql/1/settings": {"Restart", "Reset the password", "Delete the database", "Move to this version"},
	} {
		w.do(t, w.visit(path), loaded, given)
		for i, button := range buttons {
			if i > 0 && !w.thorough { // a dialog of each screen
				break
			}
			w.do(t, until(named(button)), run(named(button)+".focus()"), keys(kb.Enter), until(`document.querySelector("dialog[open]")?.contains(document.activeElement)`), until(`!document.querySelector("dialog .wait")`))
			w.listens(t, path+", "+button)
			w.examine(t, path+", "+button, []window{{360, "dark", allRules}, {1280, "light", allRules}}[i%2])
			w.shoot(t, "dialog-"+strings.ReplaceAll(strings.ToLower(button), " ", "-"))
			w.do(t, keys(kb.Escape), until(`!document.querySelector("dialog")`), until("document.activeElement === "+named(button)), look(1280, "light"))
		}
	}
}

// named is a button or link by its text or label.
func named(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("button, a")].find(e => e.checkVisibility() && (e.innerText.trim() === %[1]q || e.getAttribute("aria-label") === %[1]q))`, text)
}

// tabTo presses the tab key until what an expression finds has the focus, and is seen to have it.
func tabTo(expression string) step {
	return func(ctx context.Context) error {
		if err := until(expression)(ctx); err != nil {
			return err
		}
		for range 300 {
			if err := keys(kb.Tab)(ctx); err != nil {
				return err
			}
			there, err := evaluate[bool](ctx, "document.activeElement === "+expression)
			if err != nil {
				return err
			}
			if !there {
				continue
			}
			seen, err := evaluate[bool](ctx, `document.activeElement.matches(":focus-visible") && getComputedStyle(document.activeElement).outlineStyle !== "none" && parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2`)
			if err == nil && !seen {
				err = fmt.Errorf("the focus isn't seen on %s", expression)
			}
			return err
		}
		return fmt.Errorf("the tab key doesn't lead to %s", expression)
	}
}

// lendClipboard lets the page write to the clipboard, as a person's click does, and the test read what is there.
func (w *world) lendClipboard(t *testing.T) {
	t.Helper()
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		may := permit.SetPermissionParams{Permission: &permit.PermissionDescriptor{Name: name}, Setting: permit.PermissionSettingGranted, Origin: w.origin, BrowserContextID: chromedp.FromContext(w.ctx).BrowserContextID}
		if _, err := chromedp.CallBrowser(w.ctx, permit.SetPermission, may); err != nil {
			t.Fatal(name, err)
		}
	}
}

// copied finds what a line of the page, by its name, has put into the clipboard, and that a screen reader is told.
func (w *world) copied(t *testing.T, name string) {
	t.Helper()
	w.do(t, see("Copied: "+name))
	if told := w.tree(t); !slices.ContainsFunc(told, func(n heard) bool { return strings.HasPrefix(n.name, "Copied: "+name) && n.live == "polite" }) {
		t.Error("a screen reader isn't told what was copied")
	}
	if text := value[string](t, w.browser, `navigator.clipboard.readText()`); text != w.shownAs(t, name) {
		t.Errorf("the clipboard has %q, the page something else", text)
	}
}

// byKeys makes a database, copies the line that connects to it, has a lost table back from a backup, and deletes it, without a pointer.
func byKeys(t *testing.T, w *world) {
	onHeading := until(`document.activeElement === document.querySelector("h1")`)
	enter := keys(kb.Enter)
	w.do(t, w.load("/console/"), see("What happened last"), tabTo(named("Databases")), enter, onHeading, tabTo(named("Create a database")), enter, onHeading,
		tabTo(control("Label")), keys("typed"), tabTo(control("Engine")), keys("PostgreSQL 15"), until(control("Engine")+`.value.startsWith("postgresql/15")`),
		tabTo(control("Addresses that may connect")), keys("127.0.0.1/32"), tabTo(named("Create")), enter, onHeading, tabTo(named("Show the password")), enter, shown,
		tabTo(named("Copy: How to connect")), enter)
	w.copied(t, "How to connect")
	w.do(t, until(`[...document.querySelectorAll(".facts .status")].some(e => e.innerText === "Active")`))
	w.connects(t, "typed")
	id := fmt.Sprint(value[int](t, w.browser, `Number(location.pathname.split("/").at(-1))`))
	does := func(sql string) {
		t.Helper()
		if _, err := w.open(t, id).ExecContext(t.Context(), sql); err != nil {
			t.Fatal(sql, err)
		}
	}
	does("CREATE TABLE dear AS SELECT 7 AS n")
	back := `document.querySelector("button[aria-label^='Restore the backup']")`
	w.do(t, tabTo(named("Backups")), enter, onHeading, tabTo(named("Back up now")), enter, until(`document.activeElement.matches("dialog input")`), keys("bykeys"), enter, until(`!document.querySelector("dialog")`),
		until(row("Backups", "bykeys")+`?.innerText.includes("Complete")`))
	w.server.AwaitStatus(w.database(t, id), "active")
	does("DROP TABLE dear")
	w.do(t, tabTo(back), enter, until(`document.activeElement.matches("dialog input")`), keys("typed"), enter, see("The restore begins."), until(`!document.querySelector("dialog")`), until("document.activeElement === "+back+` || document.activeElement === document.querySelector("h1")`))
	w.server.AwaitStatus(w.database(t, id), "active")
	does("SELECT n FROM dear")
	remove := named("Delete the database")
	w.do(t, tabTo(named("Settings")), enter, onHeading, tabTo(remove), enter, until(`document.activeElement.matches("dialog input")`), keys("typ"), until(`document.querySelector("dialog .danger").disabled`),
		keys(kb.Escape), until(`!document.querySelector("dialog")`), until("document.activeElement === "+remove),
		enter, until(`document.activeElement.matches("dialog input")`), keys("typed"), tabTo(`document.querySelector("dialog .danger")`), enter,
		until(`location.pathname === "/console/databases"`), onHeading, until(`!document.querySelector("table")?.innerText.includes("typed")`))
}
