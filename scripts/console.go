//go:build ignore

// Command console bundles web/ into internal/console/dist: what the binary serves, under
// names that have a hash of the content.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	entry   = "web/src/main.tsx"
	dist    = "internal/console/dist"
	modules = "web/node_modules/"
)

// bundled are the packages whose code is part of the bundle.
var bundled = []string{"@preact/signals", "@preact/signals-core", "preact", "uplot"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func run() error {
	fresh, err := os.MkdirTemp(filepath.Dir(dist), "dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	command := exec.Command("go", "tool", "-modfile=tools/go.mod", "esbuild", entry, "--bundle", "--splitting", "--minify", "--format=esm", "--target=es2022",
		"--jsx=automatic", "--jsx-import-source=preact", "--legal-comments=none", "--log-level=warning",
		"--entry-names=[name]-[hash]", "--chunk-names=[name]-[hash]", "--outdir="+filepath.Join(fresh, "assets"), "--metafile="+filepath.Join(fresh, "parts.json"))
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("esbuild: %w", err)
	}
	text, err := page(fresh)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fresh, "index.html"), []byte(text), 0o644); err != nil {
		return err
	}
	if err := licences(filepath.Join(fresh, "licences.txt")); err != nil {
		return err
	}
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	return os.Rename(fresh, dist)
}

// page is web/index.html, with the files that it loads: those that the script needs in any case are
// asked for before it says so.
func page(fresh string) (string, error) {
	parts := filepath.Join(fresh, "parts.json")
	text, err := os.ReadFile(parts)
	if err != nil {
		return "", err
	}
	var made struct {
		Outputs map[string]struct {
			EntryPoint string
			CSSBundle  string
			Imports    []struct{ Path, Kind string }
		}
	}
	if err := errors.Join(json.Unmarshal(text, &made), os.Remove(parts)); err != nil {
		return "", err
	}
	html, err := os.ReadFile("web/index.html")
	if err != nil {
		return "", err
	}
	at := func(path string) string { return "/console/assets/" + filepath.Base(path) }
	for path, o := range made.Outputs {
		if o.EntryPoint != entry {
			continue
		}
		var early strings.Builder
		for _, i := range o.Imports {
			if i.Kind == "import-statement" {
				fmt.Fprintf(&early, "<link rel=\"modulepreload\" href=%q>\n", at(i.Path))
			}
		}
		return strings.NewReplacer("<!-- early -->\n", early.String(), "STYLE", at(o.CSSBundle), "SCRIPT", at(path)).Replace(string(html)), nil
	}
	return "", errors.New("esbuild made nothing of " + entry)
}

// licences gathers what the makers of the bundle's parts want to be said.
func licences(path string) error {
	var all strings.Builder
	for _, name := range bundled {
		text, err := os.ReadFile(modules + name + "/LICENSE")
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s\n\n%s\n\n", name, strings.TrimSpace(string(text)))
	}
	return os.WriteFile(path, []byte(all.String()), 0o644)
}
