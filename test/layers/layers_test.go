// Package layers proves the architecture: imports only point down.
package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A layer may import itself and those below it, unless a rule says otherwise.
// Go itself sees to it that packages of one layer make no circle.
type layer int

const (
	nouns layer = iota
	drivers
	verbs
	doors
	process // wires everything
	commands
	suites // only tests import these
)

// layerOf lists every package, or a tree of them when it ends in "/...". Who adds
// a package says here where it belongs.
var layerOf = map[string]layer{
	"steward/internal/account":   nouns,
	"steward/internal/alert":     nouns,
	"steward/internal/backup":    nouns,
	"steward/internal/catalog":   nouns,
	"steward/internal/cluster":   nouns,
	"steward/internal/fault":     nouns,
	"steward/internal/filter":    nouns,
	"steward/internal/insight":   nouns,
	"steward/internal/logical":   nouns,
	"steward/internal/measure":   nouns,
	"steward/internal/migration": nouns,
	"steward/internal/monitor":   nouns,
	"steward/internal/operation": nouns,
	"steward/internal/parameter": nouns,
	"steward/internal/spell":     nouns,
	"steward/internal/statement": nouns,

	"steward/internal/archive/...":   drivers,
	"steward/internal/durable":       drivers,
	"steward/internal/heap":          drivers,
	"steward/internal/config":        drivers,
	"steward/internal/datadir":       drivers,
	"steward/internal/embeddedpg":    drivers,
	"steward/internal/engine/...":    drivers,
	"steward/internal/failpoint":     drivers,
	"steward/internal/gateway/...":   drivers,
	"steward/internal/netns":         drivers,
	"steward/internal/nft":           drivers,
	"steward/internal/notify/...":    drivers,
	"steward/internal/pki":           drivers,
	"steward/internal/platform/...":  drivers,
	"steward/internal/probe":         drivers,
	"steward/internal/process":       drivers,
	"steward/internal/sample/...":    drivers,
	"steward/internal/scram":         drivers,
	"steward/internal/seal":          drivers,
	"steward/internal/sshlogin":      drivers,
	"steward/internal/store/...":     drivers,
	"steward/internal/telemetry/...": drivers,
	"steward/internal/wait":          drivers,
	"steward/internal/work":          drivers,

	"steward/internal/alarm":    verbs,
	"steward/internal/audit":    verbs,
	"steward/internal/control":  verbs,
	"steward/internal/doctor":   verbs,
	"steward/internal/limit":    verbs,
	"steward/internal/meter":    verbs,
	"steward/internal/converge": verbs,
	"steward/internal/operate":  verbs,
	"steward/internal/operator": verbs,
	"steward/internal/outage":   verbs,
	"steward/internal/recovery": verbs,
	"steward/internal/reseal":   verbs,
	"steward/internal/watch":    verbs,

	"steward/internal/api/...":     doors,
	"steward/internal/console/...": doors,
	"steward/internal/metrics":     doors,
	"steward/internal/oauth":       doors,
	"steward/internal/statuspage":  doors,
	"steward/client":               doors,

	"steward/internal/app": process,

	"steward/internal/cli": commands,
	"steward/cmd/steward":  commands,

	"steward/internal/api/apitest":                   suites,
	"steward/internal/await":                         suites,
	"steward/internal/archive/archivetest":           suites,
	"steward/internal/engine/enginetest":             suites,
	"steward/internal/gateway/gatewaytest":           suites,
	"steward/internal/platform/platformtest":         suites,
	"steward/internal/platform/kubernetes/simulator": suites,
	"steward/internal/notify/notifytest":             suites,
	"steward/internal/kubetest":                      suites,
	"steward/internal/pgtest":                        suites,
	"steward/internal/sshlogin/sshdtest":             suites,
	"steward/internal/testdir":                       suites,
	"steward/internal/testnet":                       suites,
	"steward/bench/...":                              suites,
	"steward/test/...":                               suites,
}

// A rule is stricter than the layers: packages that match from must not import
// what matches one of to, except those that match one of except.
type rule struct {
	from, to, except []string
	why              string
}

var rules = []rule{
	{
		from: []string{"steward/internal/account", "steward/internal/alert", "steward/internal/backup", "steward/internal/catalog", "steward/internal/cluster", "steward/internal/fault", "steward/internal/filter", "steward/internal/insight", "steward/internal/logical", "steward/internal/measure", "steward/internal/migration", "steward/internal/monitor", "steward/internal/operation", "steward/internal/parameter", "steward/internal/statement"},
		to:   []string{"os", "os/...", "net", "net/http", "database/sql", "log/slog", "sync", "context", "math/rand/...", "crypto/rand", "github.com/jackc/..."},
		why:  "nouns are pure rules: no I/O, no goroutines, nothing random",
	},
	{
		from: []string{"steward/internal/engine/..."},
		to:   []string{"steward/internal/platform/...", "steward/internal/process", "steward/internal/store/...", "steward/internal/gateway/..."},
		why:  "an engine driver knows servers only; the platform starts them, with which user, limits and sandbox it alone knows",
	},
	{
		from: []string{"steward/internal/platform/..."}, except: []string{"steward/internal/platform/kubernetes/simulator"},
		to:  []string{"steward/internal/store/...", "steward/internal/work", "github.com/jackc/..."},
		why: "a platform is told what to make and says what it sees; rows are not its business",
	},
	{
		from: []string{"steward/internal/platform/host/build", "steward/internal/platform/host/failover", "steward/internal/platform/host/plan"},
		to:   []string{"steward/internal/platform/host/files", "steward/internal/platform/host/port", "steward/internal/platform/host/state", "steward/internal/platform/host/template", "steward/internal/platform/host/tool", "os", "os/...", "net", "context", "sync", "log/slog"},
		why:  "what to do about nodes is decided in pure code, by nothing but what is passed in",
	},
	{
		from: []string{"steward/internal/platform/host/state"},
		to:   []string{"steward/internal/platform/host/build", "steward/internal/platform/host/failover", "steward/internal/platform/host/plan", "steward/internal/platform/host/template"},
		why:  "files of state are read and written, and mean the same, whoever uses them",
	},
	{
		from: []string{"steward/internal/platform/host/..."},
		to:   []string{"steward/internal/platform/host"},
		why:  "the host platform uses its parts, and no part knows the whole",
	},
	{
		from: []string{"steward/internal/platform/host/tool"},
		to:   []string{"steward/internal/platform/..."},
		why:  "programs are run for whoever asks",
	},
	{
		from: []string{"steward/internal/platform/host/files", "steward/internal/platform/host/port"},
		to:   []string{"steward/internal/platform/...", "steward/internal/engine/...", "steward/internal/cluster"},
		why:  "folders and ports are the machine's, whatever lies or listens there",
	},
	{
		from: []string{"steward/internal/platform/host/template"},
		to:   []string{"steward/internal/platform/host/failover", "steward/internal/platform/host/plan"},
		why:  "templates know nothing of reconciliation, which uses them",
	},
	{
		from: []string{"steward/..."}, except: []string{"steward/internal/datadir", "steward/internal/platform/host"},
		to:  []string{"steward/internal/engine/postgresql", "steward/internal/engine/mysql"},
		why: "servers are reached through engine.Driver, by platforms alone",
	},
	{
		from: []string{"steward/internal/control", "steward/internal/converge", "steward/internal/operate", "steward/internal/watch"},
		to:   []string{"net/http", "github.com/danielgtaylor/...", "steward/internal/platform/host", "steward/internal/platform/memplatform", "steward/internal/gateway/...", "steward/internal/process"},
		why:  "verbs know neither HTTP nor which platform they drive",
	},
	{
		from: []string{"steward/internal/api/...", "steward/internal/console/..."},
		to:   []string{"steward/internal/platform/...", "steward/internal/engine/...", "steward/internal/gateway/...", "steward/internal/process", "github.com/jackc/..."},
		why:  "a door decodes, asks a verb and encodes",
	},
	{
		from: []string{"steward/internal/console/..."},
		to:   []string{"steward/client", "steward/internal/..."},
		why:  "the console asks the public API as any other OAuth client does, and knows nothing else of steward",
	},
	{
		from: []string{"steward/..."}, except: []string{"steward/internal/app"},
		to:  []string{"steward/internal/console/..."},
		why: "nothing depends on the console: steward works without",
	},
	{
		from: []string{"steward/..."}, except: []string{"steward/internal/store"},
		to:  []string{"steward/internal/store/dbsqlc"},
		why: "generated rows are the store's own; everyone else sees nouns",
	},
	{
		from: []string{"steward/..."}, except: []string{"steward/internal/app", "steward/internal/cli", "steward/internal/datadir", "steward/internal/doctor", "steward/internal/operator"},
		to:  []string{"steward/internal/config", "steward/internal/datadir"},
		why: "a package has options of its own; who reads the configuration fills them in",
	},
	{
		from: []string{"steward/..."}, except: []string{"steward/internal/cli"},
		to:  []string{"steward/internal/operator"},
		why: "operators' use cases are for operators' commands",
	},
	{
		from: []string{"steward/internal/operator"},
		to:   []string{"steward/internal/api/...", "steward/internal/converge", "steward/internal/operate", "steward/internal/watch", "steward/internal/work"},
		why:  "a command asks for work in the store; servers carry it out",
	},
	{
		from: []string{"steward/..."}, except: []string{"steward/internal/app"},
		to:  []string{"steward/internal/metrics"},
		why: "what is shown to Prometheus decides nothing",
	},
	{
		from: []string{"steward/internal/store/..."},
		to:   []string{"os/exec", "steward/internal/process", "steward/internal/embeddedpg"},
		why:  "the store is SQL; the server it runs on is embeddedpg's, or the operator's",
	},
	{
		from: []string{"steward/internal/notify", "steward/internal/notify/channel", "steward/internal/notify/email"},
		to:   []string{"steward/internal/store/...", "steward/internal/notify/outbox"},
		why:  "a sender delivers one notice; which ones wait is the outbox's business",
	},
	{
		from: []string{"steward/internal/sample"},
		to:   []string{"steward/internal/store/...", "steward/internal/sample/collector"},
		why:  "a reading knows nothing of where it is kept",
	},
	{
		from: []string{"steward/internal/watch"},
		to:   []string{"steward/internal/notify/...", "steward/internal/sample/..."},
		why:  "watch holds checks alone",
	},
	{
		from: []string{"steward/internal/embeddedpg"},
		to:   []string{"steward/internal/store/..."},
		why:  "a server knows nothing of the schema that it holds",
	},
	{
		from: []string{"steward/..."}, except: []string{"steward/internal/app", "steward/internal/cli"},
		to:  []string{"steward/internal/app"},
		why: "nothing depends on the wiring but the command that starts it",
	},
	{
		from: []string{"steward/client"},
		to:   []string{"steward/internal/..."},
		why:  "the client is for others too and speaks to the API alone",
	},
}

func TestImportsOnlyPointDown(t *testing.T) {
	for _, p := range packages(t) {
		from, known := find(p.ImportPath)
		if !known {
			t.Errorf("%s is in no layer: say in layerOf where it belongs", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := find(imported)
			if ours && to > from {
				t.Errorf("%s imports %s, which lies above it", p.ImportPath, imported)
			}
			for _, r := range rules {
				if matches(r.from, p.ImportPath) && !matches(r.except, p.ImportPath) && !within(r, p.ImportPath, imported) && matches(r.to, imported) {
					t.Errorf("%s imports %s, but %s", p.ImportPath, imported, r.why)
				}
			}
		}
	}
}

// TestRulesBite keeps the table from rotting into one that forbids nothing.
func TestRulesBite(t *testing.T) {
	for _, r := range rules {
		if len(r.from) == 0 || len(r.to) == 0 || r.why == "" {
			t.Errorf("a rule without from, to or why: %+v", r)
		}
	}
	for path := range layerOf {
		if got, known := find(strings.TrimSuffix(path, "/...")); !known || got != layerOf[path] {
			t.Errorf("%s is found in layer %d, want %d", path, got, layerOf[path])
		}
	}
	if matches([]string{"steward/internal/app"}, "steward/internal/apple") || matches([]string{"os/..."}, "osprey") {
		t.Error("a pattern matches what only begins like it")
	}
}

// within reports whether both are the same tree of one pattern of the rule: a
// package may import its own children.
func within(r rule, from, to string) bool {
	return slices.ContainsFunc(r.to, func(pattern string) bool {
		return strings.HasPrefix(pattern, "steward/") && matches([]string{pattern}, from) && matches([]string{pattern}, to)
	})
}

// find is the layer of the longest pattern that matches.
func find(path string) (found layer, known bool) {
	longest := -1
	for pattern, l := range layerOf {
		if matches([]string{pattern}, path) && len(pattern) > longest {
			found, known, longest = l, true, len(pattern)
		}
	}
	return found, known
}

func matches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		tree, isTree := strings.CutSuffix(pattern, "/...")
		return path == tree || isTree && strings.HasPrefix(path, tree+"/")
	})
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

// packages of the module, with what their ordinary (not test) files import,
// whatever the files' build tags. It parses the files itself: a `go list` would be
// out of sight of the test cache.
func packages(t *testing.T) []goPackage {
	t.Helper()
	root := filepath.Join("..", "..")
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return enter(root, path, entry.Name())
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := "steward/" + filepath.ToSlash(folder)
		imports[pkg] = append(imports[pkg], paths(file)...)
		return nil
	})
	if err != nil {
		t.Fatalf("read the module's imports: %v", err)
	}
	if len(imports) < 10 {
		t.Fatalf("only %d packages found", len(imports))
	}
	var found []goPackage
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		slices.Sort(imports[pkg])
		found = append(found, goPackage{pkg, slices.Compact(imports[pkg])})
	}
	return found
}

// enter skips the folders that hold no packages of this module.
func enter(root, path, name string) error {
	switch {
	case path == root:
		return nil
	case strings.HasPrefix(name, "."), name == "testdata", name == "tools", name == "scripts", name == "bin", name == "data":
		return filepath.SkipDir
	}
	return nil
}

func paths(file *ast.File) []string {
	var found []string
	for _, spec := range file.Imports {
		found = append(found, strings.Trim(spec.Path.Value, `"`))
	}
	return found
}
