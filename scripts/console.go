//go:build ignore

// Command console bundles web/ into internal/console/dist: what the binary serves, under
// names that have a hash of the content.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
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
	command := exec.Command("go", "tool", "-modfile=tools/go.mod", "esbuild", "web/src/main.tsx", "--bundle", "--minify", "--format=esm", "--target=es2022",
		"--jsx=automatic", "--jsx-import-source=preact", "--legal-comments=none", "--log-level=warning",
		"--entry-names=[name]-[hash]", "--outdir="+filepath.Join(fresh, "assets"))
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("esbuild: %w", err)
	}
	page, err := os.ReadFile("web/index.html")
	if err != nil {
		return err
	}
	text := string(page)
	for word, extension := range map[string]string{"SCRIPT": ".js", "STYLE": ".css"} {
		found, err := filepath.Glob(filepath.Join(fresh, "assets", "*"+extension))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("%d files *%s: %v", len(found), extension, err)
		}
		text = strings.ReplaceAll(text, `"`+word+`"`, `"/console/assets/`+filepath.Base(found[0])+`"`)
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
