package console

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"steward/test/harness"
)

// TestPeopleAreLive: pages of users, grants, tokens, applications, OAuth clients, log-ins, the audit trail, oneself and all accounts show what others
// change, by another tab, the API or the command line, without being loaded again.
func TestPeopleAreLive(t *testing.T) {
	t.Parallel()
	peopleAreLive(t, false)
}

// TestPeopleAreLiveThorough is TestPeopleAreLive with all that can be changed on each page.
func TestPeopleAreLiveThorough(t *testing.T) {
	t.Parallel()
	peopleAreLive(t, true)
}

func peopleAreLive(t *testing.T, thorough bool) {
	s := harness.New(t)
	w := &world{browser: newBrowser(t), server: s, origin: "http://" + s.Listen(), all: t}
	firstLogin(t, w)
	other := &world{browser: w.tab(t), server: s, origin: w.origin, all: t}

	command := func(args ...string) func() {
		return func() {
			if out, err := s.Command(append(args, "--data", s.Data)...); err != nil {
				t.Fatal(args, err, out)
			}
		}
	}
	var last map[string]any
	asked := func(method, path string, body any) func() {
		return func() {
			last = nil
			if status, answer := s.Call(method, path, body, &last); status != http.StatusOK {
				t.Fatal(method, path, status, answer)
			}
		}
	}
	about := func(method, path string, body any) func() { // what was made last
		return func() { asked(method, fmt.Sprintf(path, last["id"]), body)() }
	}
	has := func(text string) string {
		return fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text)
	}
	hasNot := func(text string) string { return "!" + has(text) }
	// On each page, which is opened once, one change follows the other, further ones where all is tried.
	type change struct {
		does  func()
		shown string
	}
	further := func(all ...change) []change {
		if !thorough {
			return nil
		}
		return all
	}
	for _, page := range []struct {
		path, ready string
		changes     []change
	}{
		{"/console/account", has("admin"), slices.Concat([]change{
			{command("user", "create", "ann", "--email", "ann@example.org", "--restricted"), has("ann@example.org")},
		}, further(
			change{asked("PUT", "/v4/account/users/ann", map[string]any{"email": "ann@example.net"}), has("ann@example.net")},
			change{asked("DELETE", "/v4/account/users/ann", nil), hasNot("ann@example.net")},
		), []change{
			{func() { // a log-in elsewhere
				b := &world{browser: w.stranger(t), server: s, origin: w.origin}
				b.do(t, b.visit("/console/"), see("Log in to steward"), logIn("admin", "wrong"), see("wrong"))
			}, fmt.Sprintf(`((window.was ??= %[1]s.dateTime) !== %[1]s.dateTime)`, `[...`+row("Users", "admin")+`.querySelectorAll("time")].at(-1)`)},
		})},
		{"/console/account/tokens", `document.querySelector("main table, main .empty")`, slices.Concat([]change{
			{command("token", "create", "--user", "admin", "--label", "by the command line", "--scopes", "databases:read_only"), has("by the command line")},
		}, further(
			change{asked("POST", "/v4/profile/tokens", map[string]any{"label": "by the API", "scopes": "databases:read_only"}), has("by the API")},
			change{about("PUT", "/v4/profile/tokens/%v", map[string]any{"label": "renamed"}), has("renamed")},
			change{about("DELETE", "/v4/profile/tokens/%v", nil), hasNot("renamed")},
		))},
		{"/console/account/clients", `document.querySelector("main .empty")`, slices.Concat([]change{
			{asked("POST", "/v4/account/oauth-clients", map[string]any{"label": "shop", "redirect_uri": "https://shop.example.org/"}), has("https://shop.example.org/")},
		}, further(
			change{about("PUT", "/v4/account/oauth-clients/%v", map[string]any{"label": "the other shop"}), has("the other shop")},
			change{about("DELETE", "/v4/account/oauth-clients/%v", nil), hasNot("the other shop")},
		))},
		{"/console/account/apps", has("this browser"), []change{
			{func() {
				b := &world{browser: w.stranger(t), server: s, origin: w.origin}
				b.do(t, b.visit("/console/"), see("Log in to steward"), logIn("admin", password), see("The first three steps"))
			}, `document.querySelectorAll("[role=region][aria-label='Your browsers'] tbody tr").length === 2`},
			{func() {
				other.do(t, other.visit("/console/account/apps"), press("End the access of Chrome on Linux"), press("End"))
			}, `document.querySelectorAll("[role=region][aria-label='Your browsers'] tbody tr").length === 1`},
		}},
		{"/console/account/audit", `document.querySelector("main table")`, []change{
			{asked("PUT", "/v4/profile/preferences", map[string]any{"a": 1}), has("/v4/profile/preferences")},
			{command("user", "create", "audited", "--email", "audited@example.org"), has("steward user create audited")},
		}},
		{"/console/account/security", has("Your e-mail address"), []change{
			{asked("PUT", "/v4/profile", map[string]any{"email": "me@example.org"}), control("E-mail") + `?.value === "me@example.org"`},
		}},
		{"/console/operator", row("Accounts", "default"), slices.Concat([]change{
			{command("account", "create", "acme", "--email", "acme@example.org"), row("Accounts", "acme")},
		}, further(
			change{asked("POST", "/v4/operator/accounts/acme/first-user", map[string]any{"username": "ada", "email": "ada@example.org"}), row("Accounts", "acme") + `?.children[2].innerText === "1"`},
			change{command("account", "suspend", "acme"), row("Accounts", "acme") + `?.innerText.includes("Suspended")`},
			change{asked("DELETE", "/v4/operator/accounts/acme", nil), "!" + row("Accounts", "acme")},
		), []change{
			{command("operator", "remove", "admin"), hasNot("default") + ` && ![...document.querySelectorAll("nav a")].some(a => a.innerText === "Operator")`},
		})},
	} {
		w.do(t, w.visit(page.path), until(page.ready), until("document.querySelector('main h1')"), run(`window.marked = true`))
		for _, c := range page.changes {
			w.do(t, until("!("+c.shown+")"))
			c.does()
			w.do(t, until(c.shown), until(`window.marked`))
		}
	}

	// Grants that somebody gives show to who has them, and in a dialog that is open; what is chosen in it stays chosen.
	command("user", "create", "bob", "--email", "bob@example.org", "--restricted")()
	secret, err := s.Command("user", "link", "bob", "--data", s.Data, "--url", w.origin)
	if err != nil {
		t.Fatal(err, secret)
	}
	bob := &world{browser: w.stranger(t), server: s, origin: w.origin, all: t}
	bob.do(t, visit(secret[:len(secret)-1]), fill("Password", password), fill("The same password again", password), press("Set the password"), see("Log in to steward"), logIn("bob", password), see("What happened last"),
		bob.visit("/console/databases/create"), see("Your user may not create databases."), run(`window.marked = true`))
	w.do(t, w.visit("/console/account"), press("Grants of bob"), until(control("May create databases")+`?.checked === false`))
	asked("PUT", "/v4/account/users/bob/grants", map[string]any{"global": map[string]any{"add_databases": true}})()
	w.do(t, until(control("May create databases")+`?.checked === true`))
	bob.do(t, until(hasNot("Your user may not create databases.")), until(`window.marked`))
	// An answer that comes after that to a later question changes nothing.
	grant := func(may bool) {
		asked("PUT", "/v4/account/users/bob/grants", map[string]any{"global": map[string]any{"add_databases": may}})()
	}
	bob.do(t, run(holdsGrants))
	grant(false)
	bob.do(t, until("window.held"))
	grant(true)
	bob.do(t, until("window.later > 0"), run("window.held()"), painted, painted)
	if value[bool](t, bob.browser, has("Your user may not create databases.")) {
		t.Error("an old answer takes a right away that was given since")
	}
	w.quiet(t)
}

// holdsGrants keeps the first answer to what one may until the page is told to take it, and counts those after it that the page has read.
const holdsGrants = `(() => {
	const ask = window.fetch;
	window.later = 0;
	window.fetch = async (to, how) => {
		const answer = await ask(to, how);
		if (!String(to).includes("/profile/grants")) return answer;
		if (!window.held) await new Promise(free => { window.held = free; });
		else setTimeout(() => window.later++, 200);
		return answer;
	};
})()`
