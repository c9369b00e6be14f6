package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/test/harness"
)

// priced are plans with prices, and one without.
const priced = `types:
  - {id: g6-nanode-1, label: Nanode 1GB, class: nanode, memory: 1024, disk: 25600, vcpus: 1, hourly: 0.0075, monthly: 5}
  - {id: g6-standard-1, label: Standard 2GB, class: standard, memory: 2048, disk: 51200, vcpus: 1, hourly: 0.1, monthly: 10.1}
  - {id: g6-standard-2, label: Standard 4GB, class: standard, memory: 4096, disk: 81920, vcpus: 2}
`

// withPrices has a server offer them.
func withPrices(t *testing.T) harness.Option {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.yaml")
	if err := os.WriteFile(path, []byte(priced), 0o600); err != nil {
		t.Fatal(err)
	}
	return harness.WithConfig("catalog: {file: '" + path + "'}")
}

// fact is what stands beside a name on the page.
func fact(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".facts div")].find(d => d.querySelector("dt").innerText === %q)?.querySelector("dd").innerText`, name)
}

// shownAs is the text of a line to copy, by its name.
func (w *world) shownAs(t *testing.T, name string) string {
	t.Helper()
	return value[string](t, w.browser, fmt.Sprintf(`[...document.querySelectorAll(".code pre")].find(p => p.getAttribute("aria-label") === %q).textContent`, name))
}

// shell carries out a line as a person would who has the token, and steward where programs are.
func (w *world) shell(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", line)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(w.server.BinaryPath())+":"+os.Getenv("PATH"), "STEWARD_URL="+w.origin, "STEWARD_TOKEN="+w.server.Token)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v: %s", line, err, out)
	}
	return string(out)
}

// byHand finds beside the form of a new database what it comes to, and that the form makes the same database as the lines for curl and steward that stand
// there, carried out as they are; Terraform's has the same values, which the API takes.
func byHand(t *testing.T, w *world) {
	const addresses = `127.0.0.1/32 # it's "ours" & $HOME, 10 %` + "\r" + `192.0.2.0/24`
	w.do(t, w.visit("/console/databases/create"), choose("Engine", "postgresql/15"), fill("Label", "by-curl"))
	for _, c := range []struct{ plan, nodes, name, price string }{
		{"g6-standard-1", "1", "Standard 2GB", "10.1 a month, 0.1 an hour"},
		{"g6-standard-1", "3", "Standard 2GB", "30.3 a month, 0.3 an hour"},
		{"g6-standard-2", "3", "Standard 4GB", "The operator has set none"},
		{"g6-nanode-1", "1", "Nanode 1GB", "5 a month, 0.0075 an hour"},
	} {
		w.do(t, choose("Plan", c.plan), choose("Nodes", c.nodes), until(fmt.Sprintf(`%s === %q`, fact("Plan"), c.name)))
		for name, want := range map[string]string{"Price": c.price, "Nodes": c.nodes, "Engine": "PostgreSQL 15"} {
			if got := value[string](t, w.browser, fact(name)); got != want {
				t.Errorf("%s of %s on %s nodes is %q, want %q", name, c.plan, c.nodes, got, want)
			}
		}
	}
	w.do(t, fill("Addresses that may connect", addresses), until(fmt.Sprintf(`%s.value.endsWith("192.0.2.0/24")`, control("Addresses that may connect"))))
	terraform := w.shownAs(t, "Terraform")
	made := map[string]map[string]any{}
	w.shell(t, w.shownAs(t, "curl"))
	made["by-curl"] = w.madeAs(t, "by-curl")
	w.do(t, fill("Label", "by-line"))
	w.shell(t, w.shownAs(t, "Command line"))
	made["by-line"] = w.madeAs(t, "by-line")
	w.do(t, fill("Label", "by-form"), press("Create"), until(`document.querySelector("h1").innerText === "by-form"`))
	made["by-form"] = w.madeAs(t, "by-form")
	want := map[string]any{
		"engine": "postgresql", "version": "15", "type": "g6-nanode-1", "region": "local", "cluster_size": 1., "encrypted": false,
		"allow_list": []any{"127.0.0.1/32", "192.0.2.0/24"}, "allow_list_notes": map[string]any{"127.0.0.1/32": `it's "ours" & $HOME, 10 %`},
	}
	for how, got := range made {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", how, diff)
		}
	}
	w.planned(t, terraform, map[string]string{
		"label": "by-curl", "engine_id": "postgresql/15", "region": "local", "type": "g6-nanode-1", "cluster_size": "1", "allow_list": `["127.0.0.1/32", "192.0.2.0/24"]`,
	})
	// The other family has one setting more, and versions of another kind.
	w.do(t, w.visit("/console/databases/create"), choose("Engine", "mysql/10.11"), fill("Label", "beside"), tick("Encrypt the data on the disk"), choose("Nodes", "3"), until(fact("Engine")+` === "MariaDB 10.11"`))
	if line := w.shownAs(t, "Command line"); line != "steward db create beside --engine=mysql/10.11 --type=g6-nanode-1 --region=local --nodes=3 --encrypted" {
		t.Errorf("by the command line: %s", line)
	}
	body := regexp.MustCompile(`-d '(.*)'$`).FindStringSubmatch(w.shownAs(t, "curl"))
	var sent map[string]any
	if len(body) != 2 || json.Unmarshal([]byte(body[1]), &sent) != nil || !cmp.Equal(sent, map[string]any{"label": "beside", "engine": "mysql/10.11", "type": "g6-nanode-1", "region": "local", "cluster_size": 3., "encrypted": true, "allow_list": []any{}}) {
		t.Errorf("by curl: %q", body)
	}
	w.planned(t, w.shownAs(t, "Terraform"), map[string]string{"label": "beside", "engine_id": "mysql/10", "region": "local", "type": "g6-nanode-1", "cluster_size": "3", "allow_list": "[]"})
}

// madeAs is the database of a label by all that could be chosen; then it goes.
func (w *world) madeAs(t *testing.T, label string) map[string]any {
	t.Helper()
	id := w.find(t, "/v4/databases/instances", func(d map[string]any) bool { return d["label"] == label })
	path := harness.Database{ID: int64(id), Engine: "postgresql"}.Path()
	var whole map[string]any
	if status, body := w.server.Call("GET", path, nil, &whole); status != http.StatusOK {
		t.Fatal(status, body)
	}
	chosen := map[string]any{}
	for _, name := range []string{"engine", "version", "type", "region", "cluster_size", "encrypted", "allow_list", "allow_list_notes"} {
		chosen[name] = whole[name]
	}
	w.server.AwaitStatus(harness.Database{ID: int64(id), Engine: "postgresql"}, "active")
	if status, body := w.server.Call("DELETE", path, nil, nil); status != http.StatusOK {
		t.Fatal(status, body)
	}
	return chosen
}

var (
	argument = regexp.MustCompile(`(?m)^  (\w+) += (.*)$`)
	resource = regexp.MustCompile(`(?m)^resource "linode_database_(mysql|postgresql)_v2" `)
)

// planned holds what Terraform would do against what was chosen, and asks the API whether it would let it.
func (w *world) planned(t *testing.T, text string, want map[string]string) {
	t.Helper()
	provider, rest, _ := strings.Cut(text, "\n\n")
	got := map[string]string{}
	for _, found := range argument.FindAllStringSubmatch(rest, -1) {
		got[found[1]] = strings.Trim(found[2], `"`)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Terraform's (-want +got):\n%s", diff)
	}
	if !strings.Contains(provider, fmt.Sprintf("url   = %q", w.origin)) {
		t.Errorf("Terraform asks another: %s", provider)
	}
	kind := resource.FindStringSubmatch(rest)
	if len(kind) != 2 || !strings.HasPrefix(want["engine_id"], kind[1]+"/") {
		t.Fatalf("Terraform makes %q of %s", kind, want["engine_id"])
	}
	spec := harness.Small("x", want["engine_id"]) // whose label is what is wrong with it
	spec["region"], spec["type"] = want["region"], want["type"]
	var refused struct {
		Errors []struct{ Field string }
	}
	status, body := w.server.Call("POST", "/v4/databases/"+kind[1]+"/instances", spec, nil)
	if err := json.Unmarshal([]byte(body), &refused); err != nil || status != http.StatusBadRequest || len(refused.Errors) != 1 || refused.Errors[0].Field != "label" {
		t.Errorf("the API says of Terraform's %s: %d %s", want["engine_id"], status, body)
	}
	if tool, err := exec.LookPath("terraform"); err == nil { // its own judgement of the language, where it is
		command := exec.CommandContext(t.Context(), tool, "fmt", "-")
		command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1")
		command.Stdin = strings.NewReader(text + "\n")
		if out, err := command.Output(); err != nil || string(out) != text+"\n" {
			t.Errorf("terraform fmt has it otherwise: %v\n%s", err, cmp.Diff(text+"\n", string(out)))
		}
	}
}
