// Package clients runs clients that nobody here wrote, unmodified, against the
// built steward with real databases behind it, and records which of their calls
// pass in docs/clients.md.
package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"

	"steward/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.RemoveBinaries()
	os.Exit(code)
}

var update = flag.Bool("update", false, "write the table in docs/clients.md anew")

const documentPath = "../../docs/clients.md"

// The clients, as the table names them.
const (
	goClient  = "linodego v1.69.1"
	oldClient = "api-v4 0.84.0"
	newClient = "api-v4 0.158.0"
)

// columns are the table's.
var columns = []string{goClient, oldClient, newClient}

// result is what came of one call. problem is empty when it passed.
type result struct{ Area, Call, Problem string }

// recorder collects results; each of a client's calls passes when it passes each time.
type recorder struct {
	mu      sync.Mutex
	results map[string]map[[2]string]string
}

func (r *recorder) record(client, area, call, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.results[client] == nil {
		r.results[client] = map[[2]string]string{}
	}
	key := [2]string{area, call}
	if r.results[client][key] == "" {
		r.results[client][key] = problem
	}
}

// modules are those of clients that node runs.
var modules = map[string]string{oldClient: "linode-oldest", newClient: "linode-newest"}

// TestClients runs the newest client of each language and compares the recorded table with what came of
// every call. A call that fails fails the test, whatever the table says.
func TestClients(t *testing.T) { runClients(t, "", newClient) }

// TestClientsThorough runs the oldest, too, and has linodego move its database to a newer version.
func TestClientsThorough(t *testing.T) { runClients(t, "17", newClient, oldClient) }

func runClients(t *testing.T, next string, node ...string) {
	r := &recorder{results: map[string]map[[2]string]string{}}
	s := harness.New(t, harness.OfBuilds("postgresql-", "mariadb-10"), harness.WithConfig("monitor:\n  interval: 60s"))
	t.Run("linodego", func(t *testing.T) { linodegoCalls(t, s, r, next) })
	for _, client := range node {
		t.Run(modules[client], func(t *testing.T) { nodeCalls(t, s, r, client, modules[client]) })
	}
	if t.Failed() {
		return
	}
	document, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	if *update && len(node) < len(modules) {
		t.Fatal("the table has all clients: -run TestClientsThorough")
	}
	for client := range modules {
		if !slices.Contains(node, client) {
			r.take(string(document), client)
		}
	}
	made := between.ReplaceAllLiteralString(string(document), begin+"\n"+r.table()+end)
	if *update {
		if err := os.WriteFile(documentPath, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if made != string(document) {
		t.Errorf("docs/clients.md isn't what this run gives: go test -run TestClientsThorough ./test/clients -update\n%s", r.table())
	}
}

// take takes the recorded results of a client that isn't run.
func (r *recorder) take(document, client string) {
	column := 3 + slices.Index(columns, client)
	for line := range strings.Lines(between.FindString(document)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4+len(columns) || !strings.Contains(cells[2], "`") {
			continue // not a call
		}
		problem := ""
		switch strings.TrimSpace(cells[column]) {
		case "–":
			continue
		case "fails":
			problem = "as recorded"
		}
		r.record(client, strings.TrimSpace(cells[1]), strings.Trim(cells[2], " `"), problem)
	}
}

const begin, end = "<!-- recorded by test/clients -->", "<!-- end -->"

var between = regexp.MustCompile("(?s)" + begin + ".*" + end)

// table has a row for each call of each client. Clients of one language that
// share a call's name share its row.
func (r *recorder) table() string {
	keys := map[[2]string]bool{}
	for _, c := range columns {
		for key := range r.results[c] {
			keys[key] = true
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "| Area | Call | %s |\n|---|---|---|---|---|\n", strings.Join(columns, " | "))
	sorted := slices.SortedFunc(maps.Keys(keys), func(a, b [2]string) int {
		return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(strings.ToLower(a[1]), strings.ToLower(b[1])), strings.Compare(a[1], b[1]))
	})
	for _, key := range sorted {
		fmt.Fprintf(&text, "| %s | `%s` |", key[0], key[1])
		for _, c := range columns {
			problem, called := r.results[c][key]
			switch {
			case !called:
				text.WriteString(" – |")
			case problem == "":
				text.WriteString(" passes |")
			default:
				text.WriteString(" fails |")
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}

// nodeCalls runs testdata/npm/calls.mjs with one version of @linode/api-v4.
func nodeCalls(t *testing.T, s *harness.Server, r *recorder, client, module string) {
	const folder = "testdata/npm"
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("node is missing: scripts/setup --build installs it")
	}
	if _, err := os.Stat(folder + "/node_modules/" + module); err != nil {
		t.Fatal("the npm packages are missing: scripts/setup --build fetches them (npm ci in test/clients/testdata/npm)")
	}
	for _, file := range []string{"calls.mjs", "load.mjs", "package-lock.json"} { // for go test's cache: node reads out of its sight
		if _, err := os.ReadFile(folder + "/" + file); err != nil {
			t.Fatal(err)
		}
	}
	if s.Token == "" {
		t.Fatal("no token")
	}
	allowApplication(t, s)
	var out, problems bytes.Buffer
	watched := httptest.NewServer(http.NotFoundHandler())
	defer watched.Close()
	node := exec.CommandContext(t.Context(), "node", folder+"/calls.mjs", module, s.URL, watched.URL)
	node.Stdin, node.Stdout, node.Stderr = strings.NewReader(s.Token), &out, &problems
	if err := node.Run(); err != nil {
		t.Fatalf("%v\n%s", err, problems.String())
	}
	var results []result
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if len(results) < 60 {
		t.Errorf("only %d calls", len(results))
	}
	for _, one := range results {
		r.record(client, one.Area, one.Call, one.Problem)
		if one.Problem != "" {
			t.Errorf("%s %s: %s", one.Area, one.Call, one.Problem)
		}
	}
}

// password of the user admin.
const password = "correct horse battery"

// allowApplication gives an application access to admin's databases, by the way
// that users go, so that there is one to list and take back.
func allowApplication(t *testing.T, s *harness.Server) *oauth2.Token {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Binary(t, ""), "user", "passwd", "admin", "--data", s.Data)
	cmd.Stdin = strings.NewReader(password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("set password: %v\n%s", err, out)
	}
	var client struct {
		ID, Secret string
	}
	if status, body := s.Call("POST", "/v4/account/oauth-clients", map[string]string{"label": "An application", "redirect_uri": "https://app.example.org/cb"}, &client); status != 200 {
		t.Fatalf("register: %d %s", status, body)
	}
	config := oauth2.Config{
		ClientID: client.ID, ClientSecret: client.Secret, Scopes: []string{"databases:read_only"}, RedirectURL: "https://app.example.org/cb",
		Endpoint: oauth2.Endpoint{AuthURL: s.URL + "/oauth/authorize", TokenURL: s.URL + "/oauth/token"},
	}
	verifier := oauth2.GenerateVerifier()
	address := config.AuthCodeURL("some-state", oauth2.S256ChallengeOption(verifier))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	page, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(page.Body); err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile(`name="csrf" value="([0-9a-f]+)"`).FindStringSubmatch(text.String())
	if field == nil {
		t.Fatalf("no log-in page: %s", text.String())
	}
	answered, err := browser.PostForm(address, url.Values{"csrf": {field[1]}, "username": {"admin"}, "password": {password}, "answer": {"allow"}})
	if err != nil {
		t.Fatal(err)
	}
	defer answered.Body.Close()
	to, err := answered.Location()
	if err != nil {
		t.Fatalf("consent: %d %v", answered.StatusCode, err)
	}
	token, err := config.Exchange(t.Context(), to.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	return token
}
